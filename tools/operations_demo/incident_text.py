"""Texts about incidents: ranks, start, and the evidence in a line or two."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from operations_demo.story import Outcome
from operations_demo.watcher import Incident

Evidence = dict[str, Any]
LINE_CHARACTERS = 96
LINES_MAX = 3
_WITNESSES = {
    "process_state": "its process is stopped",
    "collective_wait": "its peers wait in a collective, and it does not",
    "silent_rank": "it is silent, its peers are not",
    "rank_behind": "it is behind its peers",
}


def culprits(ranks: Sequence[int]) -> str:
    """Return the culprits in words."""
    if not ranks:
        return "nobody in particular"
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def seconds(value: float | None) -> str:
    """Return a time in words."""
    return "-" if value is None else f"{value:.1f} s"


def number(value: object) -> str:
    """Return a number of the evidence in four digits; NaN may be a string."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _nonfinite(evidence: Evidence) -> list[str]:
    said = f"the loss is {number(evidence['value'])} at step {evidence['step']}, on {culprits(evidence['ranks_first'])}"
    lines = [f"{said} of {evidence['ranks_reporting']} that report one"]
    if norms := evidence.get("grad_norm_nonfinite_on"):
        lines.append(f"so are the gradient norms of {culprits(norms)}: the mean over all ranks has the NaN, too")
    return lines


def _stuck(evidence: Evidence) -> list[str]:
    witness = _WITNESSES.get(str(evidence["witness"]), str(evidence["witness"]))
    if state := evidence.get("process_state"):
        witness += f" (state {state})"
    standstill = seconds(evidence["standstill_seconds"])
    lines = [f"{witness}: no step for {standstill}, where one takes {evidence['step_seconds']:.3f} s"]
    more = [
        f"it stands in {frame}"
        for member, text in evidence.items()
        if member.startswith("stacks_of_rank_") and (frame := innermost_frame(str(text)))
    ]
    if waiting := evidence.get("waiting_ranks"):
        more.append(f"{culprits(waiting)} wait{'s' if len(waiting) == 1 else ''} for it in a collective")
    return lines + ["; ".join(more)] if more else lines


def innermost_frame(stacks: str) -> str:
    """Return the position of the main thread: it comes first, with its innermost frame below its name."""
    lines = stacks.splitlines()
    if len(lines) < 2 or not lines[0].startswith("thread "):
        return ""
    return re.sub(r"\((?:.*/)?([^/]*)\)$", r"(\1)", lines[1].strip())


def _drop(evidence: Evidence) -> list[str]:
    what = str(evidence["measure"]).replace("_per_second", " a second")
    return [
        f"{evidence['rate']:.1f} {what}, {100 * evidence['ratio']:.0f} % of the usual {evidence['rate_baseline']:.1f}"
    ]


def _lost(evidence: Evidence) -> list[str]:
    lines = [f"{evidence['processes_gone']} of {evidence['processes']} processes gone, with no word of an end"]
    if symptoms := evidence.get("symptoms"):
        lines.append("what followed is told as its symptoms: " + "; ".join(symptoms))
    return lines


_WORDS: dict[str, Callable[[Evidence], list[str]]] = {
    "loss_nonfinite": _nonfinite,
    "stuck": _stuck,
    "throughput_drop": _drop,
    "process_lost": _lost,
}


def evidence_lines(incident: Incident) -> list[str]:
    """Return the evidence in a few lines."""
    evidence = incident["evidence"]
    words = _WORDS.get(incident["incident"])
    lines = words(evidence) if words else ["; ".join(f"{key} {number(value)}" for key, value in evidence.items())]
    shown = [line for text in lines for line in textwrap.wrap(text, LINE_CHARACTERS)]
    return shown[:LINES_MAX]


def alert_line(alert: dict[str, Any]) -> str:
    """Return an alert of Alertmanager's API in a line."""
    labels = alert["labels"]
    return f"Alertmanager: {labels['alertname']}, {labels['severity']}, {alert['status']['state']}"


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a table with a line for each fault."""
    rows = [["fault", "noticed as", "culprit", "last good step", "noticed after", "promised", "resolved after"]]
    for outcome in outcomes:
        incident = outcome.last or {"incident": "not noticed", "ranks": [], "since_step": None}
        since = incident["since_step"]
        rows.append(
            [
                outcome.fault.name,
                incident["incident"],
                culprits(incident["ranks"]) if outcome.last else "-",
                "-" if since is None else str(since),
                seconds(outcome.delay),
                outcome.fault.promised or "-",
                seconds(outcome.resolved_after),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return [lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]]
