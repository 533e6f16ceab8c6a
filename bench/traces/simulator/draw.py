"""Seeded draws: the same seed and set give the same trace on every machine and Python."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw(random.Random):
    """A generator of random numbers that knows which of the two sets it draws for.

    Parameters
    ----------
    seed : str
        Names the trace; nothing else decides what is drawn.
    held_out : bool
        Whether ranges are those of the set that nobody tunes on.
    """

    def __new__(cls, seed: str, held_out: bool) -> Draw:
        """Take what ``__init__`` takes, of which the class below knows the seed alone."""
        return super().__new__(cls)

    def __init__(self, seed: str, held_out: bool) -> None:
        super().__init__(seed)
        self.held_out = held_out

    def either(self, tune: T, held_out: T) -> T:
        """Return the value of the set that is drawn for."""
        return held_out if self.held_out else tune

    def between(self, low: float, high: float) -> float:
        """Return a number of the range, each as likely."""
        return low + (high - low) * self.random()

    def spread(self, low: float, high: float) -> float:
        """Return a positive number of the range, each order of magnitude as likely."""
        return math.exp(self.between(math.log(low), math.log(high)))

    def whole(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + int(self.random() * (high - low + 1))

    def one_of(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[int(self.random() * len(choices))]

    def chance(self, probability: float) -> bool:
        """Return true with this probability."""
        return self.random() < probability
