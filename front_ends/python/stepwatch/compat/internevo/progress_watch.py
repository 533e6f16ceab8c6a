"""Detects a training that makes no progress, from a mark that changes with each step, and the phase of the run."""

from __future__ import annotations

# Intervals without progress that are too many. The first step follows the loading of model and data; evaluations and
# checkpoints are long.
_INTERVALS = {"init": 6.0, "train": 1.0, "eval": 12.0, "checkpoint": 12.0}


class ProgressWatch:
    """Judges the progress from time to time.

    Parameters
    ----------
    interval : float
        Seconds in training without a step that are reported.
    now : float
        The time, of any clock without jumps.
    """

    def __init__(self, interval: float, now: float) -> None:
        self._interval = interval
        self._since = now
        self._mark: tuple[object, ...] | None = None
        self._is_stuck = False

    def judge(self, now: float, phase: str | None, *stamps: object) -> str | None:
        """Return the text to send, mostly None.

        Parameters
        ----------
        now : float
        phase : str or None
            "eval", "checkpoint" or "paused"; None: no such phase.
        *stamps : object
            Change with each step; all None before the first one.
        """
        if phase is None:
            phase = "init" if all(stamp is None for stamp in stamps) else "train"
        mark = (phase, *stamps)
        if mark != self._mark:
            was_stuck, gap = self._is_stuck, now - self._since
            self._mark, self._since, self._is_stuck = mark, now, False
            return f"The training goes on, after {gap:.0f} s without a step." if was_stuck else None
        limit = _INTERVALS.get(phase)
        if limit is None or self._is_stuck or now - self._since < limit * self._interval:
            return None
        self._is_stuck = True
        return f"The training may be stuck: no step for {now - self._since:.0f} s (phase: {phase})."
