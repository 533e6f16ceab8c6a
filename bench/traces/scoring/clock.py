"""Virtual time of a trace: seconds that passed since its first line, whatever the observer's clock was set to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Segment:
    """A stretch in which nobody sets the clock: virtual second ``begin`` stands at ``t`` on the clock."""

    begin: float
    t: float


class Clock:
    """Reads clocks of answers: which virtual second a ``t`` is.

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

        A clock that is set back shows some ``t`` twice, and an answer does not say which of them it means.

        Parameters
        ----------
        t : float
            What the clock shows.
        not_before : float
            The virtual second of the line before, since answers come in order.
        latest : bool
            Of several such seconds that are not before ``not_before``, take the last and not the first.
        """
        candidates = []
        for number, segment in enumerate(self.segments):
            at = segment.begin + t - segment.t
            until = self.segments[number + 1].begin if number + 1 < len(self.segments) else float("inf")
            # A line of the very moment at which the clock is set may carry either time.
            if segment.begin - 1e-3 <= at <= until + 1e-3:
                candidates.append(at)
        if not candidates:
            return self.segments[-1].begin + t - self.segments[-1].t
        later = [at for at in candidates if at >= not_before - 1e-3]
        if not later:
            return max(candidates)
        return max(later) if latest else min(later)
