"""Runs rules over a trace in virtual time, and prints their incidents in the format of ``stepwatchd``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

TAIL_SECONDS = 600.0


class Rules:
    """Base class of references: receives lines and ticks of virtual time, and opens and resolves incidents.

    Attributes
    ----------
    tick_seconds : float
        Virtual seconds between two calls of ``tick``.
    """

    tick_seconds = 1.0

    def __init__(self) -> None:
        self.now = 0.0
        self._offset = 0.0
        self._open: dict[tuple[str, str], str] = {}
        self._opened = 0
        self._write: Callable[[str], None] = print

    def line(self, run: str, rank: int | None, beat: dict[str, Any] | None, event: dict[str, Any] | None) -> None:
        """Process one line with a beat or an event."""

    def tick(self) -> None:
        """Process the passing of time."""

    def open(self, run: str, kind: str, ranks: list[int], since_step: int) -> None:
        """Open an incident of a kind, unless the run has an open one."""
        if (run, kind) in self._open:
            return
        self._opened += 1
        self._open[run, kind] = f"{kind}-{self._opened}"
        self._print(run, kind, "opened", ranks, since_step)

    def resolve(self, run: str, kind: str) -> None:
        """Resolve the incident of a kind, if there is one."""
        if (run, kind) in self._open:
            self._print(run, kind, "resolved", [], 0)
            del self._open[run, kind]

    def message(self, run: str, kind: str, ranks: list[int], since_step: int) -> None:
        """Report a message that is never withdrawn: each message is a separate incident."""
        self.open(run, kind, ranks, since_step)
        del self._open[run, kind]

    def is_open(self, run: str, kind: str) -> bool:
        """Return whether the run has an incident of the kind."""
        return (run, kind) in self._open

    def _print(self, run: str, kind: str, state: str, ranks: list[int], since_step: int) -> None:
        answer = {
            "t": round(self.now + self._offset, 3),
            "incident": kind,
            "state": state,
            "run": run,
            "ranks": ranks,
            "since_step": since_step,
            "id": self._open[run, kind],
            "severity": "warning",
            "evidence": {},
        }
        self._write(json.dumps(answer))

    def replay(self, path: Path, tail: float = TAIL_SECONDS) -> None:
        """Process a file of lines, and the seconds after its end."""
        last_t: float | None = None
        step = 0.0
        with path.open(encoding="utf-8") as lines:
            for text in lines:
                line = json.loads(text)
                t = float(line["t"])
                if last_t is not None:
                    self._pass(self.now + t - last_t - step)
                last_t, step = t, 0.0
                self._offset = t - self.now
                event = line.get("event")
                if event and event["kind"] == "clock_step":
                    step = float(event["seconds"])
                    self._offset += step
                    continue
                rank = line.get("rank", (event or {}).get("rank"))
                self.line(line["run"], rank, line.get("beat"), event)
        self._pass(self.now + tail)

    def _pass(self, until: float) -> None:
        due = (math.floor(self.now / self.tick_seconds) + 1) * self.tick_seconds
        while due <= until:
            self.now = due
            self.tick()
            due += self.tick_seconds
        self.now = max(self.now, until)


def number(value: Any) -> float | None:
    """Return a number of a trace, where non-finite values are strings; None for other types."""
    if isinstance(value, str):
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def main(rules: Callable[[], Rules], description: str | None) -> None:
    """Replay the file given on the command line: ``replay FILE --json [--tail SECONDS]``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("replay",))
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="taken as given")
    parser.add_argument("--tail", type=float, default=TAIL_SECONDS, metavar="SECONDS")
    arguments = parser.parse_args()
    rules().replay(arguments.file, arguments.tail)
