"""Compares one trace's incidents with its labels: found, missed, duplicate, or false."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .answers import Incident

# Tolerance for an incident before its onset: observers may write whole seconds.
EARLY = 1.0


@dataclass
class Found:
    """A label and its matching incident."""

    label: dict[str, Any]
    incident: Incident
    delay: float
    in_time: bool
    exact_kind: bool
    culprits: bool | None
    since_step: bool | None
    resolved: bool | None


@dataclass
class Verdict:
    """Result of one trace.

    Attributes
    ----------
    extra : list of Incident
        Further incidents for a cause that has one.
    false : list of Incident
        Incidents without a cause.
    error : str
        Reason why the answer is unreadable, or empty.
    """

    name: str
    healthy: bool
    found: list[Found] = field(default_factory=list)
    missed: list[dict[str, Any]] = field(default_factory=list)
    extra: list[Incident] = field(default_factory=list)
    false: list[Incident] = field(default_factory=list)
    error: str = ""

    @property
    def clean(self) -> bool:
        """Return whether the result is free of complaints."""
        all_right = all(f.culprits is not False and f.resolved is not False for f in self.found)
        return all_right and not (self.missed or self.extra or self.false or self.error)


def judge(name: str, labels: dict[str, Any], incidents: Sequence[Incident], error: str = "") -> Verdict:
    """Compare the incidents of a trace with its labels.

    Each label is matched with the first incident of an allowed kind that opened between onset and deadline. Other
    incidents are tolerated, or an extra incident of a cause present at that moment, or false.
    """
    verdict = Verdict(name, healthy=not labels["incidents"], error=error)
    left = list(incidents)
    for label in labels["incidents"]:
        taken = _first_match(label, left)
        if taken is None:
            verdict.missed.append(label)
            continue
        incident, at = taken
        left.remove(incident)
        verdict.found.append(_found(label, incident, at))
    for incident in left:
        if _tolerated(incident, labels["tolerated"]):
            continue
        cause = _standing(incident, labels["incidents"])
        (verdict.extra if cause else verdict.false).append(incident)
    return verdict


def _first_match(label: dict[str, Any], incidents: Sequence[Incident]) -> tuple[Incident, float] | None:
    allowed = (label["kind"], *label["also"])
    for incident in incidents:
        if incident.run != label["run"] or incident.opened < label["onset"] - EARLY:
            continue
        # An incident may change its kind when more of its cause is known.
        for at, kind in incident.kinds:
            if kind in allowed and at <= label["deadline"]:
                return incident, at
    return None


def _found(label: dict[str, Any], incident: Incident, at: float) -> Found:
    culprits: bool | None = None
    wanted = label["ranks"]
    if label["naming"] != "any":
        first = incident.ranks[: len(wanted)]
        culprits = set(first) == set(wanted) or (label["naming"] == "maybe" and not incident.ranks)
    since: bool | None = None
    if label["since_step"] is not None:
        reported = incident.since_step
        since = reported is not None and abs(reported - label["since_step"]) <= label["since_tolerance"]
    resolved: bool | None = None
    if label["resolved"]:
        resolved = any(when >= label["recovers"] - EARLY for when in incident.resolved)
    return Found(
        label,
        incident,
        delay=max(0.0, at - label["onset"]),
        in_time=at <= label["promised"],
        exact_kind=incident.kind == label["kind"],
        culprits=culprits,
        since_step=since,
        resolved=resolved,
    )


def _tolerated(incident: Incident, tolerated: Sequence[dict[str, Any]]) -> bool:
    return any(
        item["run"] == incident.run
        and all(kind in item["kinds"] for _, kind in incident.kinds)
        and item["begin"] - EARLY <= incident.opened <= (float("inf") if item["end"] is None else item["end"])
        for item in tolerated
    )


def _standing(incident: Incident, labels: Sequence[dict[str, Any]]) -> bool:
    """Return whether a cause was present when the incident opened, or had ended shortly before."""
    for label in labels:
        until = float("inf") if label["recovers"] is None else label["recovers"] + 60.0
        if label["run"] == incident.run and label["onset"] - EARLY <= incident.opened <= until:
            return True
    return False
