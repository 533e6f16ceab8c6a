"""Print the story: in colour, with a status line, on a terminal; plain lines with times elsewhere."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

from operations_demo.alerting import Message
from operations_demo.faults import FAULTS, Fault
from operations_demo.incident_text import LINE_CHARACTERS, alert_line, culprits, evidence_lines, seconds
from operations_demo.story import Outcome

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "1;31", "32", "33", "1;36"
INDENT = " " * 10
MOVES_SECONDS = 0.5
MESSAGE_LINES_MAX = 8


class Screen:
    """An Audience that prints.

    Parameters
    ----------
    pace : callable
        Returns the state of the job in a few words, for the status line.
    """

    def __init__(self, pace: Callable[[], str]) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._colour = self._is_terminal and os.environ.get("NO_COLOR") is None
        self._began = time.monotonic()
        self._pace = pace
        self._moved_at = 0.0
        self._waits_for = "torch is loaded:"

    def line(self, text: str, code: str = "", stamp: bool = True) -> None:
        """Print a line, preceded by the seconds since the demo began."""
        self.still()
        at = f"{time.monotonic() - self._began:6.1f} s  " if stamp else INDENT
        print((self._paint(at, DIM) if stamp else at) + self._paint(text, code), flush=True)

    def bare(self, text: str = "", code: str = "") -> None:
        """Print a line without a prefix."""
        self.still()
        print(self._paint(text, code), flush=True)

    def on_look(self, waited: float) -> None:
        """Redraw the status line."""
        now = time.monotonic()
        if not self._is_terminal or now - self._moved_at < MOVES_SECONDS:
            return
        self._moved_at = now
        text = f"{INDENT}{self._waits_for} {waited:.0f} s   {self._pace()}"
        print(f"\r\033[K{self._paint(text, DIM)}", end="", flush=True)

    def still(self) -> None:
        """Remove the status line."""
        if self._is_terminal:
            print("\r\033[K", end="")

    def waits_for(self, what: str) -> None:
        """Set the text of the status line."""
        self._waits_for = what

    def trains(self, run: dict[str, Any]) -> None:
        """Print the start of training."""
        self.line(f"two ranks train: run {run['id'][:8]}, step {run['step']}")

    def waits_for_steps(self, fault: Fault, steps: int) -> None:
        """Print the number of steps before the fault."""
        self.waits_for(f"until step {steps}:")
        self.bare()
        self.line(f"the job trains up to step {steps}, in which stepwatchd learns what is usual")

    def begins(self, fault: Fault) -> None:
        """Print the injected fault."""
        self.waits_for("not noticed yet:")
        self.bare()
        self.bare(f"{FAULTS.index(fault) + 1} of {len(FAULTS)}  {fault.name}", CYAN)
        self.line(f"injected: {fault.story}")

    def noticed(self, outcome: Outcome) -> None:
        """Print the incident."""
        incident = outcome.last
        if incident is None or outcome.opened is None:
            self.line("NOT NOTICED", RED)
            return
        self.line(f"{incident['severity']}: {incident['incident']}, {culprits(incident['ranks'])}", RED)
        promised = f" (promised: {outcome.fault.promised})" if outcome.fault.promised else ""
        self.line(f"noticed after {seconds(outcome.delay)}{promised}", BOLD, stamp=False)
        self.line(f"last good step {incident['since_step']}", stamp=False)
        for text in evidence_lines(incident):
            self.line(text, stamp=False)
        if outcome.alert is not None:
            self.line(alert_line(outcome.alert), CYAN, stamp=False)
        self._message(outcome.message)

    def heals(self, fault: Fault) -> None:
        """Print the undoing of the fault."""
        self.waits_for("not resolved yet:")
        self.line(f"undone: {fault.healed}")

    def resolved(self, outcome: Outcome) -> None:
        """Print the end of the incident."""
        if outcome.resolved_after is None or outcome.last is None:
            self.line("NOT RESOLVED", RED)
            return
        how = outcome.last["evidence"].get("resolved_by", "recovery")
        self.line(f"resolved after {seconds(outcome.resolved_after)}, by {how}", GREEN)
        if outcome.message_resolved is not None:
            self.line(f"chat: {outcome.message_resolved.title}", CYAN, stamp=False)

    def _message(self, message: Message | None) -> None:
        if message is None:
            return
        self.line(f"chat: {message.title}", CYAN, stamp=False)
        for text in message.lines[:MESSAGE_LINES_MAX]:
            self.line("      " + textwrap.shorten(text, LINE_CHARACTERS, placeholder=" …"), DIM, stamp=False)

    def _paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour and code else text
