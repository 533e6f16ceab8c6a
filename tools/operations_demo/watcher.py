"""Receives the incidents that stepwatchd reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from operations_demo.processes import Stepwatchd
from stepwatch.control_socket import JobError, SilenceError, stream

SILENCE_SECONDS = 3600.0
LOOK_SECONDS = 0.1
Incident = dict[str, Any]


@dataclass
class Change:
    """One change of an incident.

    Attributes
    ----------
    at : float
        Time of its arrival, by the monotonic clock.
    incident : dict
        The reported incident: `incident` is its kind, `state` opened, updated or resolved.
    """

    at: float
    incident: Incident


class Watcher:
    """Listens to the events of stepwatchd.

    Parameters
    ----------
    stepwatchd : Stepwatchd
    on_look : callable, optional
        Called ten times a second during a wait, with the seconds that have passed.
    """

    def __init__(self, stepwatchd: Stepwatchd, on_look: Callable[[float], None] = lambda seconds: None) -> None:
        self._stepwatchd = stepwatchd
        self._on_look = on_look
        self._changes: list[Change] = []
        self._arrived = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            for event in stream(str(self._stepwatchd.socket), 0, SILENCE_SECONDS):
                with self._arrived:
                    self._changes.append(Change(time.monotonic(), event))
                    self._arrived.notify_all()
        except (JobError, SilenceError):
            return  # a waiting caller runs into its timeout

    def wait(self, is_wanted: Callable[[Incident], bool], seconds: float) -> Change | None:
        """Return the first matching change, earlier ones included; None after the timeout."""
        began = time.monotonic()
        looked = 0
        while True:
            with self._arrived:
                if looked == len(self._changes):
                    self._arrived.wait(LOOK_SECONDS)
                fresh, looked = self._changes[looked:], len(self._changes)
            for change in fresh:
                if is_wanted(change.incident):
                    return change
            waited = time.monotonic() - began
            if waited > seconds:
                return None
            self._on_look(waited)

    def until(self, holds: Callable[[], Any], seconds: float) -> Any:
        """Wait until a condition holds, and return its value; raise TimeoutError after this many seconds."""
        began = time.monotonic()
        while not (found := holds()):
            waited = time.monotonic() - began
            if waited > seconds:
                raise TimeoutError(f"waited {seconds:.0f} s for what did not come")
            self._on_look(waited)
            time.sleep(LOOK_SECONDS)
        return found

    def incidents(self) -> list[Incident]:
        """Return all incidents of stepwatchd."""
        return list(self._stepwatchd.get("/v1/incidents?state=all")["incidents"])
