"""A clock of training steps, driven by the optimizers and by a gradient scaler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.frameworks.table import adapter_of
from stepwatch.hooks.followed_step import FollowedStep, Reading, StepCalls
from stepwatch.hooks.grad_scaler import ScalerSteps
from stepwatch.hooks.hooked_step import HookedStep, StepsInside, takes_step_hooks
from stepwatch.hooks.replaced_step import ReplacedStep


@dataclass(frozen=True)
class StepEvents:
    """The functions that a `StepClock` calls. Whatever they raise reaches the trainer.

    Attributes
    ----------
    before_update : callable
        Called with the number of an optimizer and a `Reading`, once in each of its steps.
    after_update : callable
        Called with the number of an optimizer that has updated.
    end_step : callable
        Called with whether it has updated when the step of the first optimizer is over, or was left out by its
        gradient scaler.
    is_quiet : callable
        While it returns True, `end_quiet_step` is called in place of all others.
    end_quiet_step : callable
        Called when the step of the first optimizer is over.
    """

    before_update: Callable[[int, Reading], None]
    after_update: Callable[[int], None]
    end_step: Callable[[bool], None]
    is_quiet: Callable[[], bool]
    end_quiet_step: Callable[[], None]


class StepClock:
    """Follows the `step` of optimizers, numbered from 0; that of the first ends the training step.

    Parameters
    ----------
    events : StepEvents
        The functions that it calls.

    Attributes
    ----------
    adapters : list of OptimizerAdapter
        What is followed, by number.
    """

    def __init__(self, events: StepEvents) -> None:
        self.adapters: list[OptimizerAdapter] = []
        self._events = events
        self._steps: list[FollowedStep] = []
        self._inside: list[StepsInside] = []
        self._scaler: ScalerSteps | None = None
        self._calls_before_scaler: dict[int, int] = {}  # number of an optimizer -> its calls

    def add(self, optimizer: Any, is_reduced: bool) -> None:
        """Follow one more optimizer, unless it is followed already.

        Parameters
        ----------
        optimizer : object
            With a method `step` that can be replaced, or a wrapper around one.
        is_reduced : bool
            Whether gradients are reduced when a step begins, whatever the optimizer is.

        Raises
        ------
        TypeError
            If it has none.
        """
        adapter = adapter_of(optimizer)
        if all(adapter.optimizer is not step.optimizer for step in self._steps):
            self._follow(adapter, is_reduced)
        if self._scaler is None:
            self._scaler = ScalerSteps(self._before_scaler, self._after_scaler)

    def _follow(self, adapter: OptimizerAdapter, is_reduced: bool) -> None:
        number, optimizer = len(self._steps), adapter.optimizer

        def after(has_updated: bool) -> None:
            if has_updated:
                self._events.after_update(number)
            if number == 0:
                self._events.end_step(has_updated)

        calls = StepCalls(
            before=lambda reading: self._events.before_update(number, reading),
            after=after,
            is_quiet=self._events.is_quiet,
            after_quiet=self._events.end_quiet_step if number == 0 else lambda: None,
            was_skipped=adapter.was_skipped,
        )
        inside = [part for part in adapter.parts if part is not optimizer and takes_step_hooks(part)]
        kind = HookedStep if takes_step_hooks(optimizer) else ReplacedStep
        self._steps.append(kind(optimizer, calls, bool(inside) and not is_reduced and not adapter.is_understood))
        self.adapters.append(adapter)
        if inside:
            step = self._steps[-1]
            self._inside.append(StepsInside(inside, step.note_inside if adapter.is_understood else step.on_inside))

    @property
    def has_stepped(self) -> bool:
        """Whether a step of any of them has begun."""
        return any(step.count > 0 for step in self._steps)

    def group_sizes(self) -> tuple[int, ...]:
        """Count the parameters of each group of each optimizer: groups may be added in mid-run."""
        return tuple(len(group["params"]) for adapter in self.adapters for group in adapter.groups())

    def _before_scaler(self, optimizer: Any) -> None:
        number = self._number_of(optimizer)
        if number is not None:
            self._calls_before_scaler[number] = self._steps[number].count

    def _after_scaler(self, optimizer: Any) -> None:
        number = self._number_of(optimizer)
        if number is not None and self._calls_before_scaler.pop(number, None) == self._steps[number].count:
            self._steps[number].skip()

    def _number_of(self, optimizer: Any) -> int | None:
        for number, adapter in enumerate(self.adapters):
            if any(optimizer is part for part in (adapter.optimizer, *adapter.parts)):
                return number
        return None

    def remove(self) -> None:
        """Let all optimizers go, in reverse order. Safe to call twice."""
        if self._scaler is not None:
            self._scaler.remove()
            self._scaler = None
        for inside in self._inside:
            inside.remove()
        for step in reversed(self._steps):
            step.remove()
        self._inside.clear()
        self._steps.clear()
        self.adapters.clear()
