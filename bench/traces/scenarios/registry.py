"""The registry of scenarios, with the number of traces of each in a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Union

from simulator.draw import Draw
from simulator.job import Job
from simulator.shape import Shape, drawn_shape
from simulator.trace import EPOCH, Trace

Script = Callable[[Draw], Union[Job, Trace]]


@dataclass(frozen=True)
class Scenario:
    """A scenario, and its number of traces in each set."""

    name: str
    script: Script
    tune: int
    held_out: int


SCENARIOS: dict[str, Scenario] = {}


def scenario(group: str, tune: int = 1, held_out: int = 1) -> Callable[[Script], Script]:
    """Register a scenario under its function's name."""

    def add(script: Script) -> Script:
        name = f"{group}/{script.__name__}"
        assert name not in SCENARIOS, name
        SCENARIOS[name] = Scenario(name, script, tune, held_out)
        return script

    return add


def trace_of(entry: Scenario, number: int, held_out: bool, seed: int) -> Trace:
    """Return one trace; equal arguments give equal lines."""
    draw = Draw(f"{seed}/{'held_out' if held_out else 'tune'}/{entry.name}/{number}", held_out)
    made = entry.script(draw)
    trace = made if isinstance(made, Trace) else Trace(made)
    trace.scenario = entry.name
    trace.rank_inside = draw.chance(0.3)
    trace.whole_seconds = draw.chance(0.08)
    trace.epoch = round(EPOCH + draw.between(0, 1e7), 3) if draw.chance(0.6) else 0.0
    return trace


def new_job(draw: Draw, at: float = 0.0, step: int = 0, world: int = 0, **changes: object) -> Job:
    """Return a job of a drawn shape, with some attributes set."""
    shape = drawn_shape(draw, world=world or None).but(**changes)
    if shape.world > 16 and shape.beat_seconds is not None:
        # Limits the size of files with many ranks.
        shape.beat_seconds = max(shape.beat_seconds, 10.0)
    return Job(draw, shape, at, step)


def several(draw: Draw, **changes: object) -> Job:
    """Return a job of at least four ranks."""
    world = draw.one_of(draw.either((4, 8, 8, 16, 64), (6, 8, 12, 32, 48)))
    return new_job(draw, world=world, **changes)


def paced(draw: Draw, **changes: object) -> Job:
    """Return a job for at least a quarter of an hour: few ranks, or infrequent beats."""
    world = draw.one_of(draw.either((4, 8, 8, 32), (3, 6, 12, 48)))
    beats = draw.one_of((10.0, 20.0) if world > 12 else (None, 5.0, 10.0))
    return new_job(draw, world=world, **{"beat_seconds": beats, "idle_seconds": None, **changes})


def every_step(draw: Draw) -> dict[str, object]:
    """Return changes to a shape that make it beat each step or second, so that every step is reported."""
    return {"beat_seconds": None, "idle_seconds": draw.one_of((None, 2.0)), "step_seconds": draw.spread(0.4, 3.0)}


def with_reports(shape: Shape, *names: str) -> frozenset[str]:
    """Return the shape's reported names, and these names."""
    return shape.reports | frozenset(names)


def warm_up(draw: Draw, low: int = 80, high: int = 220) -> int:
    """Return the number of steps before a fault."""
    return draw.whole(low, high)
