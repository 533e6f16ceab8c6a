"""Figures over many verdicts: recall, precision, delays, and errors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from simulator.label import KINDS

from .match import Found, Verdict

RECALL_MIN = 0.95


def tally(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the figures of a set, in total and for each kind."""
    found = [item for verdict in verdicts for item in verdict.found]
    missed = [label for verdict in verdicts for label in verdict.missed]
    extra = [incident for verdict in verdicts for incident in verdict.extra]
    false = [incident for verdict in verdicts for incident in verdict.false]
    kinds = {
        kind: _row(
            [item for item in found if item.label["kind"] == kind],
            sum(label["kind"] == kind for label in missed),
            sum(incident.kind == kind for incident in extra),
            sum(incident.kind == kind for incident in false),
        )
        for kind in KINDS
    }
    healthy = [verdict for verdict in verdicts if verdict.healthy]
    return {
        "traces": len(verdicts),
        "healthy_traces": len(healthy),
        "healthy_traces_with_false_alarm": sum(bool(verdict.false or verdict.error) for verdict in healthy),
        "unreadable_answers": sum(bool(verdict.error) for verdict in verdicts),
        "all": _row(found, len(missed), len(extra), len(false)),
        "kinds": kinds,
    }


def _row(found: Sequence[Found], missed: int, extra: int, false: int) -> dict[str, Any]:
    labels, reported = len(found) + missed, len(found) + extra + false
    delays = sorted(item.delay for item in found)
    return {
        "labels": labels,
        "found": len(found),
        "recall": len(found) / labels if labels else None,
        "precision": len(found) / reported if reported else None,
        "in_promised_time": sum(item.in_time for item in found),
        "exact_kind": sum(item.exact_kind for item in found),
        "extra": extra,
        "false": false,
        "wrong_culprits": sum(item.culprits is False for item in found),
        "wrong_since_step": sum(item.since_step is False for item in found),
        "missing_resolves": sum(item.resolved is False for item in found),
        "delay_seconds_median": statistics.median(delays) if delays else None,
        "delay_seconds_95": delays[min(len(delays) - 1, int(0.95 * len(delays)))] if delays else None,
    }


def good_enough(figures: dict[str, Any]) -> bool:
    """Return whether the thresholds are met: recall, no false alarm on healthy traces, no unreadable answer."""
    recall = figures["all"]["recall"]
    missed = recall is not None and recall < RECALL_MIN
    return not (missed or figures["healthy_traces_with_false_alarm"] or figures["unreadable_answers"])
