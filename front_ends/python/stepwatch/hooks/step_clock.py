"""A clock of training steps, driven by the optimizers and by a gradient scaler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwatch.hooks.grad_scaler import ScalerSteps
from stepwatch.hooks.model_index import param_groups_of
from stepwatch.hooks.optimizer_step import OptimizerStep, with_state


@dataclass(frozen=True)
class StepEvents:
    """The functions that a `StepClock` calls. Whatever they raise reaches the trainer.

    Attributes
    ----------
    before_update, after_update : callable
        Called with the number of an optimizer around its `step`.
    end_step : callable
        Called when the first optimizer has updated, or was to update and its gradient scaler has skipped it.
    is_quiet : callable
        While it returns True, `end_quiet_step` is called in place of all others.
    end_quiet_step : callable
        Called when the first optimizer has updated.
    """

    before_update: Callable[[int], None]
    after_update: Callable[[int], None]
    end_step: Callable[[], None]
    is_quiet: Callable[[], bool]
    end_quiet_step: Callable[[], None]


class StepClock:
    """Follows the `step` of optimizers, numbered from 0; that of the first ends the training step.

    Parameters
    ----------
    events : StepEvents
        The functions that it calls.
    """

    def __init__(self, events: StepEvents) -> None:
        self._events = events
        self._steps: list[OptimizerStep] = []
        self._scaler: ScalerSteps | None = None
        self._calls_before_scaler: dict[int, int] = {}  # id of an optimizer -> its calls

    def add(self, optimizer: Any) -> None:
        """Follow one more optimizer, unless it is followed already.

        Parameters
        ----------
        optimizer : object
            With a method `step` that can be replaced.

        Raises
        ------
        TypeError
            If it has none.
        """
        if all(optimizer is not step.optimizer for step in self._steps):
            self._steps.append(self._followed(optimizer, len(self._steps)))
        if self._scaler is None:
            self._scaler = ScalerSteps(self._before_scaler, self._after_scaler)

    def _followed(self, optimizer: Any, number: int) -> OptimizerStep:
        def after() -> None:
            self._events.after_update(number)
            if number == 0:
                self._events.end_step()

        return OptimizerStep(
            optimizer,
            lambda: self._events.before_update(number),
            after,
            self._events.is_quiet,
            self._events.end_quiet_step if number == 0 else lambda: None,
        )

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that hold the state, which wrappers around them may hide."""
        return [with_state(step.optimizer) for step in self._steps]

    def group_sizes(self) -> tuple[int, ...]:
        """Count the parameters of each group of each optimizer: groups may be added in mid-run."""
        return tuple(len(group["params"]) for optimizer in self.optimizers for group in param_groups_of(optimizer))

    def _before_scaler(self, optimizer: Any) -> None:
        for step in self._steps:
            if step.optimizer is optimizer:
                self._calls_before_scaler[id(optimizer)] = step.calls

    def _after_scaler(self, optimizer: Any) -> None:
        before = self._calls_before_scaler.pop(id(optimizer), -1)
        if self._steps and self._steps[0].optimizer is optimizer and self._steps[0].calls == before:
            self._events.end_step()

    def remove(self) -> None:
        """Let all optimizers go, in reverse order. Safe to call twice."""
        if self._scaler is not None:
            self._scaler.remove()
            self._scaler = None
        for step in reversed(self._steps):
            step.remove()
        self._steps.clear()
