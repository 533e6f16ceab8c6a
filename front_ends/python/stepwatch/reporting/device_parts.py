"""Times of parts of a step on a CUDA device, from events that are read when they are over."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from stepwatch.reporting.step_parts import COMMUNICATION, INNER_PARTS, REST

# Limit of events of one step; a step with more has no times.
_EVENTS_MAX = 8192
# Limit of steps whose events are not over; one more drops the oldest.
_STEPS_MAX = 8


@dataclass
class _Marks:
    """The changes of the part in one step, each with the event at which it came into force."""

    parts: list[int] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    step: int = -1
    unknown: set[int] = field(default_factory=set)  # parts


class DeviceParts:
    """Divides the time of a device's stream among parts. Enqueues events and never waits for the device.

    Times are those between events in the stream of the first one, so they contain the time in which the device has no
    work. A step has no times if its parts change on another stream or while a graph is captured; communication that
    runs on another stream has none.

    Parameters
    ----------
    cuda : object, optional
        Has `Event`, `current_stream` and `is_current_stream_capturing`; None: torch.cuda.

    Attributes
    ----------
    under_way : deque
        Steps whose times are not known yet. Always the same deque, so that the end of a step can check it cheaply.
    part : int
        The part in force.
    """

    def __init__(self, cuda: Any = None) -> None:
        self.under_way: deque[_Marks] = deque()
        self.part = REST
        self._cuda = cuda
        self._device: Any = None
        self._stream: Any = None
        self._marks = _Marks()
        self._is_spoilt = False
        self._free: list[Any] = []

    def set_device(self, device: Any) -> None:
        """Measure the streams of a device; what is under way on another one is dropped."""
        self._cuda = self._cuda or sys.modules["torch"].cuda
        if device != self._device:
            self._device = device
            self.under_way.clear()
            self._free.clear()
        self._begin()

    def _begin(self, is_spoilt: bool = False) -> None:
        self._free += self._marks.events
        self._marks, self._stream, self.part, self._is_spoilt = _Marks(), None, REST, is_spoilt

    def spoil(self) -> None:
        """Give the running step no times."""
        self._is_spoilt = True

    def enter(self, part: int) -> int:
        """Begin a part of the running step, where the current stream is; return the one before."""
        before = self.part
        if part == before or self._is_spoilt:
            self.part = part
            return before
        try:
            self._mark(part)
        except Exception:  # the device has failed, which the program's next call reports
            self.part, self._is_spoilt = part, True
        return before

    def _mark(self, part: int) -> None:
        stream = self._cuda.current_stream(self._device)
        if part == COMMUNICATION and self._stream is not None and stream != self._stream:
            self._marks.unknown.add(part)  # the stream of the training does not wait here
            return
        self.part = part
        self._stream = self._stream or stream
        marks = self._marks
        if stream != self._stream or len(marks.events) >= _EVENTS_MAX or self._cuda.is_current_stream_capturing():
            self._is_spoilt = True
            return
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record(stream)
        marks.parts.append(part)
        marks.events.append(event)

    def end_step(self, step: int) -> None:
        """End the running step.

        Parameters
        ----------
        step : int
            Its number.
        """
        is_cut = self.part != REST  # in the middle of a part, whose end then belongs to the next step
        if is_cut or self._is_spoilt or not self._marks.events:
            self._begin(is_cut)
            return
        self._marks.step = step
        self.under_way.append(self._marks)
        self._marks = _Marks()
        self._begin()
        if len(self.under_way) > _STEPS_MAX:
            self.under_way.popleft()  # its events are pending: not used again

    def take(self) -> list[tuple[int, list[tuple[str, float]]]]:
        """Return the steps that are over on the device: step, names of parts and seconds. Does not wait."""
        found = []
        try:
            while self.under_way and self.under_way[0].events[-1].query():
                marks = self.under_way.popleft()
                found.append((marks.step, _seconds_of(marks)))
                self._free += marks.events
        except Exception:  # as in `enter`
            self.under_way.clear()
            self._free.clear()
        return found


def _seconds_of(marks: _Marks) -> list[tuple[str, float]]:
    seconds: dict[str, float] = {}
    for part, event, after in zip(marks.parts, marks.events, marks.events[1:]):
        if part in INNER_PARTS and part not in marks.unknown:
            name = INNER_PARTS[part]
            seconds[name] = seconds.get(name, 0.0) + max(0.0, event.elapsed_time(after)) * 1e-3
    return list(seconds.items())
