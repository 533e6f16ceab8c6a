"""Reports of the training loop to one monitor. No function raises into the loop or waits for a device."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Optional

from stepwatch import _core
from stepwatch.hooks.eager_calls import eager
from stepwatch.kept_in_models import ClosedSession, KeptInModels
from stepwatch.reporting.late_numbers import LateNumbers
from stepwatch.reporting.peak_rate import PeakRate
from stepwatch.reporting.written_bytes import written_bytes

# The phase before it, for the session, and the bytes written so far if the phase is "checkpoint".
Entered = tuple[tuple[int, int], Optional[int]]
# A checkpoint that is written after its phase, by another thread or process, leaves less than this in its phase.
CHECKPOINT_BYTES_MIN = 1 << 20
PHASES = ("init", "train", "eval", "checkpoint", "paused")


class Reporter(KeptInModels):
    """Passes numbers, phases and exceptions to a session.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    learning_rate : callable
        Returns the learning rate of the watched optimizer, or None.
    peak : PeakRate, optional
        Reported beside FLOPs.

    Attributes
    ----------
    thread : int
        The thread that opened the monitor.
    late : LateNumbers
        Numbers of tensors on devices; collected at the end of a step.
    """

    def __init__(
        self, session: _core.Session, learning_rate: Callable[[], float | None], peak: PeakRate | None = None
    ) -> None:
        self.thread = threading.get_ident()
        self.late = LateNumbers()
        self._peak = peak
        self._session = session
        self._learning_rate = learning_rate
        self._process = os.getpid()
        self._warned: set[str] = set()
        self._sizes_are_reported = False  # by the user
        self._call = eager(Reporter._report)  # not a bound method: the session must be freed with its last holder

    def _of_copies(self) -> dict[str, Any]:
        own = {"_learning_rate": lambda: None, "_warned": set(), "late": LateNumbers(), "_peak": None}
        return {"_session": ClosedSession(), **own}

    @property
    def last_step(self) -> int:
        """The last finished step; -1: no step is finished."""
        return self._session.step - 1

    def report(self, numbers: dict[str, Any], step: int | None) -> None:
        """Report numbers of a step.

        Parameters
        ----------
        numbers : dict
            Name to number, 0-d tensor or None; None is skipped.
        step : int or None
            None: the step in progress.
        """
        self._call(self, numbers, step)

    def _report(self, numbers: dict[str, Any], step: int | None) -> None:
        if os.getpid() != self._process:
            return
        try:
            self.harvest()
            self._take(numbers, step)
        except Exception as error:
            self.warn_once("report", f"stepwatch.report failed; these numbers are lost ({error!r})")

    def _take(self, numbers: dict[str, Any], step: int | None) -> None:
        at_step = self._session.step if step is None else int(step)
        known: list[tuple[str, float]] = []
        names: list[str] = []
        tensors: list[Any] = []
        self._sizes_are_reported = self._sizes_are_reported or "checkpoint_bytes" in numbers
        for name, value in numbers.items():
            if value is None:
                continue
            try:
                tensor = _scalar_of(value)
                if tensor is not None and tensor.device.type != "cpu":
                    names.append(name)
                    tensors.append(tensor)
                else:
                    known.append((name, float(value if tensor is None else tensor.item())))
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:
                self._warn_value(name, value, error)
        if numbers.get("lr") is None:
            rate = self._learning_rate()
            if rate is not None:
                known.append(("lr", rate))
        if self._peak is not None and numbers.get("flops") is not None:
            known += self._peak.numbers()
        self._session.report(known, at_step)
        if tensors:
            self.late.send(names, tensors, at_step)

    def _warn_value(self, name: str, value: Any, error: Exception) -> None:
        self.warn_once(
            "value " + name,
            f"stepwatch.report: {name} is not a number ({type(value).__name__}: {error}); accepted: numbers and "
            "tensors of one element; it is left out",
        )

    def harvest(self) -> None:
        """Pass on the numbers of devices that have arrived."""
        if not self.late.under_way:
            return
        try:
            for step, numbers in self.late.take():
                self._session.report(numbers, step)
        except Exception as error:
            self.warn_once("late", f"numbers that were reported from a device are lost ({error!r})")
        if self.late.dropped:
            self.warn_once("dropped", "numbers that were reported from a device did not come in time and are lost")

    def enter(self, phase: str, expires: float | timedelta | None) -> Entered | None:
        """Begin a phase; return the argument for `leave`, or None if the phase is unknown."""
        seconds = expires.total_seconds() if isinstance(expires, timedelta) else float(expires or 0)
        if phase not in PHASES or not seconds >= 0:
            self.warn_once(
                "phase " + str(phase),
                f"stepwatch.phase({phase!r}, expires={expires!r}): accepted phases: {', '.join(PHASES)}; accepted "
                "expires: seconds, at least 0; the phase is unchanged",
            )
            return None
        before = self._session.set_phase(phase, seconds)
        if before is None:  # of the session of a copy
            return None
        return before, written_bytes() if phase == "checkpoint" else None

    def leave(self, before: Entered | None) -> None:
        """Restore the phase before `enter`. A phase "checkpoint" without an error has its size reported."""
        if before is None:
            return
        phase, written_before = before
        self._session.restore_phase(phase)
        if written_before is not None and sys.exc_info()[0] is None:
            self._report_size(written_before)

    def _report_size(self, written_before: int) -> None:
        written = written_bytes()
        if written is None or self._sizes_are_reported or os.getpid() != self._process:
            return
        if written - written_before >= CHECKPOINT_BYTES_MIN:
            self._session.report([("checkpoint_bytes", float(written - written_before))], max(0, self.last_step))

    def enter_part(self, part: int) -> int:
        """Begin a part of the step, by its number; return the one before, for another call."""
        return self._session.enter_part(part) or 0  # None: of the session of a copy

    def checkpoint(self, step: int | None = None) -> None:
        """Report a complete checkpoint; None: of the last finished step."""
        self._session.report_checkpoint(self.last_step if step is None else int(step))

    def exception(self, kind: str, message: str, stack: str, fingerprint: str, ends_run: bool) -> None:
        """Report an exception."""
        self._session.report_exception(kind, message, stack, fingerprint, ends_run)

    def ends_by_signal(self) -> None:
        """Report that the process ends because it was interrupted."""
        self._session.report_end(True)

    def warn_once(self, key: str, text: str) -> None:
        """Log a text for the user, once for each key."""
        if key not in self._warned:
            self._warned.add(key)
            self._session.warn(text)


def _scalar_of(value: Any) -> Any:
    """Return the local one-element tensor of a torch tensor; None if the value is not a tensor."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    from stepwatch.devices.engine import _local

    local = _local(value)
    if local.numel() != 1:
        raise ValueError(f"a tensor of {local.numel()} elements was reported; accepted: one element")
    return local
