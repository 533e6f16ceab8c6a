"""One trace's incidents beside its labels: what was found, missed, told twice, or made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .answers import Incident

# An answer may be so much earlier than the moment that a label names: observers may write whole seconds.
EARLY = 1.0


@dataclass
class Found:
    """A label and the incident that answers it."""

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
    """What became of one trace.

    Attributes
    ----------
    extra : list of Incident
        Further incidents for a cause that has one.
    false : list of Incident
        Incidents for which there is no cause.
    error : str
        Why the answer could not be read, if it could not.
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
        """Return whether there is nothing to complain of."""
        told_right = all(f.culprits is not False and f.resolved is not False for f in self.found)
        return told_right and not (self.missed or self.extra or self.false or self.error)


def judge(name: str, labels: dict[str, Any], incidents: Sequence[Incident], error: str = "") -> Verdict:
    """Compare the incidents of a trace with its labels.

    Each label takes the first incident of an allowed kind that opened between onset and deadline. What is left is
    tolerated, or an extra incident of the cause that stood at that moment, or false.
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
        # An incident that learns more of its cause may become of another kind.
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
        told = incident.since_step
        since = told is not None and abs(told - label["since_step"]) <= label["since_tolerance"]
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
    """Return whether a cause was there when the incident opened, or had gone a short while before."""
    for label in labels:
        until = float("inf") if label["recovers"] is None else label["recovers"] + 60.0
        if label["run"] == incident.run and label["onset"] - EARLY <= incident.opened <= until:
            return True
    return False
