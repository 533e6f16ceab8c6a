"""Figures as terminal text, and as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .match import Verdict


def share(part: Any) -> str:
    """Return a share as per cent, rounded down so that only 1 gives 100."""
    return "–" if part is None else f"{int(part * 1000) / 10:g} %"


def seconds(value: Any) -> str:
    """Return seconds with two significant digits."""
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def kind_table(figures: Mapping[str, Any], plain: Mapping[str, Any] | None = None) -> str:
    """Return a table with a row for each kind, and one for all; optionally with the simple detector's delays."""
    rows = []
    for name, row in [*figures["kinds"].items(), ("all", figures["all"])]:
        if not (row["labels"] or row["extra"] or row["false"]):
            continue
        beside = [] if plain is None else [plain["all"] if name == "all" else plain["kinds"][name]]
        rows.append(
            [
                f"`{name}`" if name != "all" else "all",
                str(row["labels"]),
                share(row["recall"]),
                share(row["precision"]),
                str(row["in_promised_time"]),
                str(row["extra"]),
                str(row["wrong_culprits"]),
                str(row["wrong_since_step"]),
                str(row["missing_resolves"]),
                seconds(row["delay_seconds_median"]),
                seconds(row["delay_seconds_95"]),
                *(seconds(other["delay_seconds_median"]) for other in beside),
            ]
        )
    return markdown(HEAD + ([] if plain is None else ["median delay of `median_mad`"]), rows)


def program_table(programs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a row for each program: its found and reported incidents on the same traces."""
    rows = []
    for name, figures in programs.items():
        row, healthy = figures["all"], figures["healthy_traces"]
        alarmed = figures["healthy_traces_with_false_alarm"]
        rows.append(
            [
                f"`{name}`",
                share(row["recall"]),
                share(row["precision"]),
                f"{alarmed} of {healthy}",
                str(row["extra"]),
                str(row["wrong_culprits"]),
                seconds(row["delay_seconds_median"]),
                seconds(row["delay_seconds_95"]),
            ]
        )
    head = ["program", "recall", "precision", "healthy traces with an alarm", "reported twice", "wrong culprits"]
    return markdown([*head, "median delay", "95 % delay"], rows)


HEAD = [
    "kind",
    "labels",
    "recall",
    "precision",
    "in promised time",
    "reported twice",
    "wrong culprits",
    "wrong `since_step`",
    "not resolved",
    "median delay",
    "95 % delay",
]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def complaints(verdict: Verdict) -> list[str]:
    """Return the errors of one trace, one line each."""
    lines = [f"unreadable answer: {verdict.error}"] if verdict.error else []
    for label in verdict.missed:
        lines.append(f"missed {label['kind']} of ranks {label['ranks']} at {label['onset']:.1f} s")
    for title, incidents in (("reported twice", verdict.extra), ("false", verdict.false)):
        for incident in incidents:
            lines.append(f"{title}: {incident.kind} of ranks {incident.ranks} at {incident.opened:.1f} s")
    for item in verdict.found:
        label, incident = item.label, item.incident
        if item.culprits is False:
            lines.append(f"{incident.kind} names ranks {incident.ranks[:8]}, not {label['ranks']}")
        if item.since_step is False:
            near = f"{label['since_step']} ± {label['since_tolerance']}"
            lines.append(f"{incident.kind} is said to be since step {incident.since_step}, not {near}")
        if item.resolved is False:
            lines.append(f"{incident.kind} is not resolved after {label['recovers']:.1f} s")
        if not item.in_time:
            promised = label["promised"] - label["onset"]
            lines.append(f"{incident.kind} took {item.delay:.1f} s, {promised:.1f} s are promised")
    return [f"{verdict.name}: {line}" for line in lines]
