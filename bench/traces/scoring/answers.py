"""Strict parser of answers of ``stepwatchd replay --json``: each line must have the documented format."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from simulator.label import KINDS

from .clock import Clock

STATES = ("opened", "updated", "resolved")
SEVERITIES = ("critical", "warning", "info", "none")
REQUIRED = ("t", "incident", "state", "run", "ranks", "since_step", "id", "severity", "evidence")


class BadAnswer(ValueError):
    """A line with a wrong format."""


@dataclass
class Incident:
    """One incident over its life, in virtual seconds.

    Attributes
    ----------
    kinds : list of (float, str)
        Each kind with the time from which it holds.
    ranks, since_step
        From its last line before it was resolved.
    """

    id: str
    run: str
    opened: float
    kinds: list[tuple[float, str]]
    ranks: list[int]
    since_step: int | None
    resolved: list[float] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Return its final kind."""
        return self.kinds[-1][1]


def read_answers(lines: Iterable[str], clock: Clock, runs: set[str], latest: bool = False) -> list[Incident]:
    """Return the incidents of an answer, in the order in which they opened; raise BadAnswer at the first bad line.

    ``latest`` reads a time that the clock shows twice as the second occurrence.
    """
    incidents: dict[tuple[str, str], Incident] = {}
    at = 0.0
    for number, text in enumerate(lines, 1):
        try:
            line = _checked(text, runs)
            now = clock.virtual(float(line["t"]), at, latest)
            if now < at - 0.002:
                raise BadAnswer(f"t falls back by {at - now:.3f} s")
            at = max(at, now)
            _take(line, at, incidents)
        except BadAnswer as error:
            raise BadAnswer(f"line {number}: {error}: {text.strip()[:200]}") from None
    return sorted(incidents.values(), key=lambda incident: incident.opened)


def _checked(text: str, runs: set[str]) -> dict[str, Any]:
    try:
        line = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise BadAnswer(f"not JSON ({error})") from None
    if not isinstance(line, dict):
        raise BadAnswer("not an object")
    missing = [name for name in REQUIRED if name not in line]
    if missing:
        raise BadAnswer(f"without {', '.join(missing)}")
    for name, allowed in (("incident", KINDS), ("state", STATES), ("severity", SEVERITIES)):
        if line[name] not in allowed:
            raise BadAnswer(f"{name} is {line[name]!r}")
    if line["run"] not in runs:
        raise BadAnswer(f"run {line['run']!r} is not in the trace")
    if not isinstance(line["t"], (int, float)) or isinstance(line["t"], bool) or not math.isfinite(line["t"]):
        raise BadAnswer("t is no number")
    ranks = line["ranks"]
    if not isinstance(ranks, list) or not all(type(rank) is int and rank >= 0 for rank in ranks):
        raise BadAnswer("ranks is no list of ranks")
    if len(set(ranks)) != len(ranks):
        raise BadAnswer("a rank is listed twice")
    if line["since_step"] is not None and type(line["since_step"]) is not int:
        raise BadAnswer("since_step is no integer")
    if not isinstance(line["id"], str) or not line["id"]:
        raise BadAnswer("id is no text")
    if not isinstance(line["evidence"], dict):
        raise BadAnswer("evidence is no object")
    return line


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _take(line: dict[str, Any], now: float, incidents: dict[tuple[str, str], Incident]) -> None:
    key = (line["run"], line["id"])
    known = incidents.get(key)
    if line["state"] == "opened":
        if known:
            raise BadAnswer("opened twice with one id")
        incidents[key] = Incident(
            line["id"], line["run"], now, [(now, line["incident"])], line["ranks"], line["since_step"]
        )
        return
    if known is None:
        raise BadAnswer(f"{line['state']} before it was opened")
    if known.resolved:
        raise BadAnswer(f"{line['state']} after it was resolved")
    if line["state"] == "resolved":
        known.resolved.append(now)
        return
    if line["incident"] != known.kind:
        known.kinds.append((now, line["incident"]))
    known.ranks, known.since_step = line["ranks"], line["since_step"]
