"""The list of guises: which scenario functions there are, and how many traces of each a set has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Union

from simulator.draw import Draw
from simulator.job import Job
from simulator.shape import Shape, drawn_shape
from simulator.trace import EPOCH, Trace

Scenario = Callable[[Draw], Union[Job, Trace]]


@dataclass(frozen=True)
class Guise:
    """One scenario, and how many traces of it each set has."""

    name: str
    tell: Scenario
    tune: int
    held_out: int


GUISES: dict[str, Guise] = {}


def guise(group: str, tune: int = 1, held_out: int = 1) -> Callable[[Scenario], Scenario]:
    """Put a scenario on the list, under its function's name."""

    def add(tell: Scenario) -> Scenario:
        name = f"{group}/{tell.__name__}"
        assert name not in GUISES, name
        GUISES[name] = Guise(name, tell, tune, held_out)
        return tell

    return add


def trace_of(entry: Guise, number: int, held_out: bool, seed: int) -> Trace:
    """Return one trace; the same arguments give the same lines."""
    draw = Draw(f"{seed}/{'held_out' if held_out else 'tune'}/{entry.name}/{number}", held_out)
    told = entry.tell(draw)
    trace = told if isinstance(told, Trace) else Trace(told)
    trace.guise = entry.name
    trace.rank_inside = draw.chance(0.3)
    trace.whole_seconds = draw.chance(0.08)
    trace.epoch = round(EPOCH + draw.between(0, 1e7), 3) if draw.chance(0.6) else 0.0
    return trace


def new_job(draw: Draw, at: float = 0.0, step: int = 0, world: int = 0, **changes: object) -> Job:
    """Return a job of a drawn shape, with some attributes set."""
    shape = drawn_shape(draw, world=world or None).but(**changes)
    if shape.world > 16 and shape.beat_seconds is not None:
        # Files of many ranks would grow beyond what a look at them bears.
        shape.beat_seconds = max(shape.beat_seconds, 10.0)
    return Job(draw, shape, at, step)


def several(draw: Draw, **changes: object) -> Job:
    """Return a job of at least four ranks."""
    world = draw.one_of(draw.either((4, 8, 8, 16, 64), (6, 8, 12, 32, 48)))
    return new_job(draw, world=world, **changes)


def paced(draw: Draw, **changes: object) -> Job:
    """Return a job for a quarter of an hour or more: few ranks, or sparse beats."""
    world = draw.one_of(draw.either((4, 8, 8, 32), (3, 6, 12, 48)))
    beats = draw.one_of((10.0, 20.0) if world > 12 else (None, 5.0, 10.0))
    return new_job(draw, world=world, **{"beat_seconds": beats, "idle_seconds": None, **changes})


def every_step(draw: Draw) -> dict[str, object]:
    """Return changes to a shape that make it beat at each step or each second, so that no step's numbers are missed."""
    return {"beat_seconds": None, "idle_seconds": draw.one_of((None, 2.0)), "step_seconds": draw.spread(0.4, 3.0)}


def with_reports(shape: Shape, *names: str) -> frozenset[str]:
    """Return what the shape reports, and these names."""
    return shape.reports | frozenset(names)


def warm_up(draw: Draw, low: int = 80, high: int = 220) -> int:
    """Return after how many steps a fault begins."""
    return draw.whole(low, high)
