"""Seeded draws: equal seeds and sets give equal traces on every machine and Python version."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw(random.Random):
    """A random number generator for one of the two sets.

    Parameters
    ----------
    seed : str
        Identifies the trace; it alone determines the draws.
    held_out : bool
        Whether to use the ranges of the held-out set.
    """

    def __new__(cls, seed: str, held_out: bool) -> Draw:
        """Accept the arguments of ``__init__``; the base class accepts only the seed."""
        return super().__new__(cls)

    def __init__(self, seed: str, held_out: bool) -> None:
        super().__init__(seed)
        self.held_out = held_out

    def either(self, tune: T, held_out: T) -> T:
        """Return the value for the selected set."""
        return held_out if self.held_out else tune

    def between(self, low: float, high: float) -> float:
        """Return a number of the range, uniformly distributed."""
        return low + (high - low) * self.random()

    def spread(self, low: float, high: float) -> float:
        """Return a positive number of the range, log-uniformly distributed."""
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
