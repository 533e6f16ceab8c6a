"""The numbers that each rank reports of the last step: drawn once per step and rank, so that they repeat unchanged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable

from .draw import Draw
from .shape import Shape

if TYPE_CHECKING:
    from .job import Job

# A bend is called with step, rank and the healthy value, and returns the measured value.
Bend = Callable[[int, int, float], float]
MODULES = ("embed", "layers.{}.attn", "layers.{}.mlp", "layers.{}.norm", "head")


class Measures:
    """The numbers of a job's beats.

    Attributes
    ----------
    bends : dict
        For a reported name, the effect of a fault.
    extra : dict
        Further reported numbers: name to a function of step and rank.
    only_every : int
        Beats of other steps have no numbers.
    """

    def __init__(self, draw: Draw, shape: Shape, job: Job) -> None:
        self.draw = draw
        self.shape = shape
        self.job = job
        self.bends: dict[str, Bend] = {}
        self.extra: dict[str, Callable[[int, int], Any]] = {}
        self.only_every = 1
        self.loss_scale = 65536.0
        self.tokens: Callable[[int], int] = lambda step: shape.tokens
        self.layers = draw.whole(4, 48)
        self._common: dict[str, float] = {}
        self._measured_step = job.step
        self._pace = (shape.step_seconds, 0.0, shape.step_seconds)
        self._kept: dict[int, dict[str, Any]] = {}

    def heal(self) -> None:
        """Drop all bends, as a restart from a good checkpoint does."""
        self.bends.clear()

    def forget(self) -> None:
        """Report no numbers until the next step ends, like a new process."""
        self._common = {}
        self._kept = {}

    def finish_step(self, pace: float, extra: float, whole: float) -> None:
        """Record a finished step: the usual own time, the extra waiting time of all ranks, and the total time."""
        step = self.job.step
        self._pace = (pace, extra, whole)
        self._kept = {}
        if self._common and step % self.shape.log_every:
            return
        self._measured_step = step
        curve = self.shape.learning
        gauss = self.draw.gauss
        self._common = {
            "loss": curve.loss(step) * (1 + curve.loss_noise * gauss(0, 1)),
            "grad_norm": curve.norm(step) * math.exp(curve.grad_noise * gauss(0, 1)),
            "lr": curve.lr(step),
        }

    def redraw(self) -> None:
        """Draw the reported numbers of the last step again, for a phase that reports other ones."""
        self._kept = {}

    def of(self, rank: int) -> dict[str, Any]:
        """Return the reported numbers of a rank's last step."""
        if not self._common or self.job.step % self.only_every:
            return {}
        values = self._kept.get(rank)
        if values is None:
            values = self._kept[rank] = self._measure(rank)
        return values

    def _measure(self, rank: int) -> dict[str, Any]:
        shape, step = self.shape, self._measured_step
        reports = shape.reports
        values: dict[str, Any] = {}
        if "loss" in reports and (rank == 0 or shape.loss_from != "first"):
            loss = self._common["loss"]
            if shape.loss_from == "each":
                loss *= 1 + 1.5 * shape.learning.loss_noise * self.draw.gauss(0, 1)
            values["loss"] = self._bent("loss", step, rank, loss)
        for name in ("grad_norm", "lr"):
            if name in reports:
                values[name] = self._bent(name, step, rank, self._common[name])
        if "tokens" in reports:
            values["tokens"] = self.tokens(step)
        if "step_seconds" in reports:
            pace, extra, whole = self._pace
            own = pace * self.job.slow.get(rank, 1.0) * (1 + shape.jitter * self.draw.gauss(0, 1)) + extra
            values["step_seconds"] = round(min(own, whole), 6)
        if "loss_scale" in reports:
            values["loss_scale"] = self._bent("loss_scale", step, rank, self.loss_scale)
        for extra_name, function in self.extra.items():
            values[extra_name] = function(step, rank)
        return values

    def _bent(self, name: str, step: int, rank: int, value: float) -> Any:
        bend = self.bends.get(name)
        return as_json(bend(step, rank, value) if bend else value)

    def module(self) -> str:
        """Return the name of the module that a rank has possibly entered last."""
        return self.draw.one_of(MODULES).format(self.draw.whole(0, self.layers - 1))


def as_json(value: float) -> Any:
    """Return a number in the format of a trace: six digits, and non-finite values as strings."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.6g}")
