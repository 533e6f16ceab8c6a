"""Detects losses that jump, rise steadily, or are no numbers. Each episode is reported once, and its end once."""

from __future__ import annotations

import collections
import math
import statistics

# Losses that the level is made of. While losses fall the few newest are the lower ones, while they rise all are.
_NEWEST = 4
_ALL = 16
_RISE_MIN = 0.02
# After that many losses at a new height, the height is the level.
_EPISODE_MAX = 200


class LossWatch:
    """Judges losses one by one.

    Parameters
    ----------
    limit : float
        The ratio of a loss to its level that is a spike.
    checked : str
        When the losses are judged, for the texts.
    """

    def __init__(self, limit: float = 1.5, checked: str = "at every step") -> None:
        self._limit = limit
        self._checked = checked
        self._losses: collections.deque[float] = collections.deque(maxlen=_ALL)
        self._level: float | None = None  # before the spike; None: there is none
        self._above = 0
        self._is_nonfinite = False

    @property
    def in_episode(self) -> bool:
        """Whether the last loss was part of a reported episode."""
        return self._is_nonfinite or self._level is not None

    def judge(self, step: int, loss: float) -> list[str]:
        """Judge a loss; return the texts to send, mostly none."""
        if not math.isfinite(loss):
            is_new, self._is_nonfinite = not self._is_nonfinite, True
            return [f"The loss is {loss} at step {step} (checked {self._checked})."] if is_new else []
        texts = []
        if self._is_nonfinite:
            self._is_nonfinite = False
            texts.append(f"The loss is a number again: {loss:g} at step {step}.")
        if self._level is not None:
            return texts + self._go_on(step, loss)
        if self._losses:
            level = min(statistics.median(list(self._losses)[-_NEWEST:]), statistics.median(self._losses))
            if loss - level > self._rise_of(level):
                self._level, self._above = level, 1
                texts.append(
                    f"The loss rises at step {step}: from about {level:g} to {loss:g} (checked {self._checked})."
                )
                return texts
        self._losses.append(loss)
        return texts

    def _go_on(self, step: int, loss: float) -> list[str]:
        assert self._level is not None
        level = self._level
        if loss - level <= self._rise_of(level) / 2:
            self._level = None
            self._losses.append(loss)
            return [f"The loss is back at {loss:g} at step {step}, after {self._above} checks above its level."]
        self._above += 1
        if self._above > _EPISODE_MAX:
            self._level = None
            self._losses.clear()
            self._losses.append(loss)
        return []

    def _rise_of(self, level: float) -> float:
        return max((self._limit - 1) * abs(level), _RISE_MIN)
