"""Virtual time of a trace: seconds since its first line, independent of changes of the observer's clock."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Segment:
    """An interval without changes of the clock: virtual second ``begin`` is ``t`` on the clock."""

    begin: float
    t: float


class Clock:
    """Converts the clock times of answers into virtual seconds.

    Parameters
    ----------
    lines : iterable of str
        The trace.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.segments: list[Segment] = []
        self.end = 0.0
        last_t = 0.0
        step = 0.0
        for text in lines:
            line = json.loads(text)
            t = float(line["t"])
            if not self.segments:
                self.segments.append(Segment(0.0, t))
            else:
                self.end += t - last_t - step
            last_t = t
            event = line.get("event") or {}
            step = 0.0
            if event.get("kind") == "clock_step":
                step = float(event["seconds"])
                self.segments.append(Segment(self.end, t + step))

    def virtual(self, t: float, not_before: float, latest: bool = False) -> float:
        """Return the virtual second of ``t``.

        A clock that is set back shows some ``t`` twice, and an answer does not distinguish them.

        Parameters
        ----------
        t : float
            Time on the clock.
        not_before : float
            The virtual second of the previous line, since answers are in order.
        latest : bool
            Return the last and not the first of several matching seconds.
        """
        candidates = []
        for number, segment in enumerate(self.segments):
            at = segment.begin + t - segment.t
            until = self.segments[number + 1].begin if number + 1 < len(self.segments) else float("inf")
            # A line at the moment of a clock change may have either time.
            if segment.begin - 1e-3 <= at <= until + 1e-3:
                candidates.append(at)
        if not candidates:
            return self.segments[-1].begin + t - self.segments[-1].t
        later = [at for at in candidates if at >= not_before - 1e-3]
        if not later:
            return max(candidates)
        return max(later) if latest else min(later)
