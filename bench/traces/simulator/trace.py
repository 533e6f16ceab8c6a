"""The lines of an observer, ordered by its clock, which may be set, with beats that come late or twice."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .draw import Draw
from .job import Job, Line
from .label import Label, Tolerated

# An observer's clock counts from 1970; small traces may count from their begin.
EPOCH = 1_790_000_000.0
# Kinds after which a run does not continue: the silence that follows is their symptom.
STANDSTILL = ("stuck", "process_lost", "exception", "out_of_memory", "gpu_fault")


class Trace:
    """The lines and labels of one or several jobs under one observer.

    Parameters
    ----------
    *jobs : Job
        Observed jobs.
    epoch : float
        The clock at virtual second 0.

    Attributes
    ----------
    scenario : str
        Name of its scenario.
    rank_inside : bool
        Whether the rank of an event is a member of the event rather than of the line.
    whole_seconds : bool
        Whether the observer writes whole seconds; not if its clock is set.
    """

    def __init__(self, *jobs: Job, epoch: float = 0.0) -> None:
        self.lines: list[Line] = [line for job in jobs for line in job.lines]
        self.labels: list[Label] = [label for job in jobs for label in job.labels]
        self.tolerated: list[Tolerated] = [item for job in jobs for item in job.tolerated]
        self.tolerated += [Tolerated(job.shape.run, ("stuck",), job.now) for job in jobs if _falls_silent(job)]
        self.epoch = epoch
        self.scenario = ""
        self.rank_inside = False
        self.whole_seconds = False
        self._clock_steps: list[tuple[float, float]] = []

    def disturbed(self, draw: Draw, late: float = 0.0, doubled: float = 0.0, shuffled: float = 0.0) -> Trace:
        """Let beats come late or twice with these probabilities, and all of them up to ``shuffled`` seconds off."""
        lines: list[Line] = []
        for at, line in self.lines:
            if "beat" not in line:
                lines.append((at, line))
                continue
            moved = at + shuffled * draw.random()
            if draw.chance(late):
                moved += draw.between(2.0, 40.0)
            lines.append((moved, line))
            if draw.chance(doubled):
                lines.append((moved + draw.spread(0.001, 20.0), line))
        for label in self.labels:
            label.promised += shuffled
            label.deadline += shuffled + (40.0 if late else 0.0)
        # Beats after a run's end or restart are the subject of separate scenarios.
        self.lines = _before_boundaries(self.lines, lines)
        return self

    def clock_step(self, at: float, seconds: float) -> Trace:
        """Set the observer's clock at a virtual second."""
        self._clock_steps.append((at, seconds))
        return self

    def write(self) -> tuple[list[str], dict[str, Any]]:
        """Return the lines of the file, and its labels for JSON, with times relative to the first line."""
        run = self.lines[0][1]["run"]
        steps = [(at, {"run": run, "event": {"kind": "clock_step", "seconds": by}}) for at, by in self._clock_steps]
        lines = sorted(self.lines + steps, key=lambda line: line[0])
        first, offset = lines[0][0], self.epoch
        texts = []
        for at, line in lines:
            if self.rank_inside and "event" in line and "rank" in line:
                line = {"run": line["run"], "event": {**line["event"], "rank": line["rank"]}}
            t = round(at + offset) if self.whole_seconds and not self._clock_steps else round(at + offset, 3)
            texts.append(json.dumps({"t": t, **line}, separators=(",", ":")))
            if line.get("event", {}).get("kind") == "clock_step":
                offset += line["event"]["seconds"]
        labels = {
            "guise": self.scenario,
            "incidents": [_moved(asdict(label), first) for label in sorted(self.labels, key=lambda x: x.onset)],
            "tolerated": [_moved(asdict(item), first) for item in self.tolerated],
        }
        return texts, labels


def _falls_silent(job: Job) -> bool:
    """Return whether the lines stop during training: no label covers such a silence."""
    standing = any(label.kind in STANDSTILL and label.recovers is None for label in job.labels)
    return job.phase != "ended" and not standing and not job.protected_to_the_end


def _before_boundaries(originals: list[Line], moved: list[Line]) -> list[Line]:
    bounds: dict[str, list[float]] = {}
    for at, line in originals:
        if line.get("event", {}).get("kind") in ("end", "restart", "process_gone"):
            bounds.setdefault(line["run"], []).append(at)
    starts = {id(line): at for at, line in originals}
    result = []
    for at, line in moved:
        came: float = starts[id(line)]
        bound: float | None = min((b for b in bounds.get(line["run"], ()) if b >= came), default=None)
        result.append((at if bound is None or at < bound else came, line))
    return result


def _moved(item: dict[str, Any], by: float) -> dict[str, Any]:
    for name in ("onset", "promised", "deadline", "recovers", "begin", "end"):
        value = item.get(name)
        if value is not None:
            item[name] = None if value == float("inf") else round(value - by, 3)
    return item
