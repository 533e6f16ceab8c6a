"""The numbers of a healthy step: loss, gradient norm, learning rate and loss scale, as functions of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .draw import Draw


@dataclass
class Learning:
    """Learning curves of a model, without noise, which the reader adds.

    Attributes
    ----------
    loss_first, loss_last : float
        Initial loss, and its limit.
    loss_noise : float
        Standard deviation of a step's loss, relative to the loss.
    halving_steps : float
        Approximate number of steps for half of the decline.
    grad_norm : float
        Gradient norm late in training; twice as large at the beginning.
    lr_max, warmup_steps, cycle_steps
        Learning rate: linear warm-up, then a cosine that restarts every ``cycle_steps``.
    """

    loss_first: float = 10.8
    loss_last: float = 2.2
    loss_noise: float = 0.01
    halving_steps: float = 100
    grad_norm: float = 0.8
    grad_noise: float = 0.12
    lr_max: float = 3e-4
    warmup_steps: int = 40
    cycle_steps: int = 5000

    @staticmethod
    def drawn(draw: Draw) -> Learning:
        """Return curves of one of the set's scales: losses about 10, 2 or 0.02."""
        scale = draw.one_of(draw.either((1.0, 1.0, 0.25, 0.006), (1.0, 0.6, 2.5, 0.015)))
        return Learning(
            loss_first=scale * draw.between(8, 12),
            loss_last=scale * draw.between(1.5, 3),
            loss_noise=draw.spread(*draw.either((0.004, 0.03), (0.003, 0.045))),
            halving_steps=draw.spread(*draw.either((40, 300), (25, 600))),
            grad_norm=draw.spread(*draw.either((0.2, 5), (0.02, 30))),
            grad_noise=draw.between(0.05, draw.either(0.2, 0.25)),
            lr_max=draw.spread(1e-5, 2e-3),
            warmup_steps=draw.whole(10, 80),
            cycle_steps=draw.whole(2000, 20000),
        )

    def loss(self, step: int) -> float:
        """Return the loss without noise."""
        return self.loss_last + (self.loss_first - self.loss_last) / (1 + step / self.halving_steps)

    def norm(self, step: int) -> float:
        """Return the gradient norm without noise."""
        return self.grad_norm * (1 + 1 / (1 + step / self.halving_steps))

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step < self.warmup_steps:
            return self.lr_max * (step + 1) / self.warmup_steps
        turn = ((step - self.warmup_steps) % self.cycle_steps) / self.cycle_steps
        return self.lr_max * (0.1 + 0.45 * (1 + math.cos(math.pi * turn)))
