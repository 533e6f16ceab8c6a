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
    """The functions that a `StepClock` calls.

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
    caught : callable
        As in `StepCalls`.
    """

    before_update: Callable[[int, Reading], None]
    after_update: Callable[[int], None]
    end_step: Callable[[bool], None]
    is_quiet: Callable[[], bool]
    end_quiet_step: Callable[[], None]
    caught: Callable[[Exception], None]


@dataclass
class _Followed:
    """One optimizer that is followed."""

    adapter: OptimizerAdapter
    step: FollowedStep
    inside: StepsInside | None
    ends_step: bool
    is_of_model: bool  # it had parameters of the model when it was added


class StepClock:
    """Follows the `step` of optimizers, numbered from 0; that of the first ends the training step.

    An optimizer that is added later for parameters of the first one ends steps as well, and so does one that is added
    when the model has none of the first one's parameters any more.

    Parameters
    ----------
    events : StepEvents
        The functions that it calls.
    """

    def __init__(self, events: StepEvents) -> None:
        self._events = events
        self._followed: list[_Followed] = []
        self._scaler: ScalerSteps | None = None
        self._calls_before_scaler: dict[int, int] = {}  # id of a followed step -> its calls

    @property
    def adapters(self) -> list[OptimizerAdapter]:
        """What is followed, by number."""
        return [each.adapter for each in self._followed]

    def add(self, optimizer: Any, is_reduced: bool, parameters: set[int]) -> None:
        """Follow one more optimizer, unless it is followed already.

        Parameters
        ----------
        optimizer : object
            With a method `step` that can be replaced, or a wrapper around one.
        is_reduced : bool
            Whether gradients are reduced when a step begins, whatever the optimizer is.
        parameters : set of int
            The ids of the model's parameters.

        Raises
        ------
        TypeError
            If it has none.
        """
        adapter = adapter_of(optimizer)
        if all(adapter.optimizer is not each.step.optimizer for each in self._followed):
            self._follow(adapter, is_reduced, parameters)
        if self._scaler is None:
            self._scaler = ScalerSteps(self._before_scaler, self._after_scaler)

    def _follow(self, adapter: OptimizerAdapter, is_reduced: bool, parameters: set[int]) -> None:
        own = _parameters_of(adapter)
        clocks = [each for each in self._followed if each.ends_step]
        gone = [each for each in clocks if each.is_of_model and not _parameters_of(each.adapter) & parameters]
        ends_step = len(gone) == len(clocks) or any(own & _parameters_of(each.adapter) for each in clocks)

        def before(reading: Reading) -> None:
            self._events.before_update(self._followed.index(followed), reading)

        def after(has_updated: bool) -> None:
            if has_updated:
                self._events.after_update(self._followed.index(followed))
            if ends_step:
                self._events.end_step(has_updated)

        optimizer = adapter.optimizer
        calls = StepCalls(
            before=before,
            after=after,
            is_quiet=self._events.is_quiet,
            after_quiet=self._events.end_quiet_step if ends_step else lambda: None,
            caught=self._events.caught,
            was_skipped=adapter.was_skipped,
        )
        parts = [part for part in adapter.parts if part is not optimizer and takes_step_hooks(part)]
        kind = HookedStep if takes_step_hooks(optimizer) else ReplacedStep
        step = kind(optimizer, calls, bool(parts) and not is_reduced and not adapter.is_understood)
        step.takes_inside = len(parts) == 1
        begins = step.note_inside if adapter.is_understood else step.on_inside
        inside = StepsInside(parts, begins, step.on_end_inside) if parts else None
        followed = _Followed(adapter, step, inside, ends_step, bool(own & parameters))
        # One whose parameters are gone, or are all updated by the new one, is not kept alive for steps that are over.
        replaced = [each for each in clocks if each.step.count > 0 and _parameters_of(each.adapter) <= own]
        for old in [each for each in clocks if each in gone or each in replaced] if ends_step else []:
            self._let_go(old)
            self._followed.remove(old)
        self._followed.insert(0 if ends_step else len(self._followed), followed)

    @staticmethod
    def _let_go(followed: _Followed) -> None:
        if followed.inside is not None:
            followed.inside.remove()
        followed.step.remove()

    @property
    def has_stepped(self) -> bool:
        """Whether a step of any of them has begun."""
        return any(each.step.count > 0 for each in self._followed)

    def _before_scaler(self, optimizer: Any) -> None:
        followed = self._followed_of(optimizer)
        if followed is not None:
            self._calls_before_scaler[id(followed)] = followed.step.count

    def _after_scaler(self, optimizer: Any) -> None:
        followed = self._followed_of(optimizer)
        if followed is not None and self._calls_before_scaler.pop(id(followed), None) == followed.step.count:
            followed.step.skip()

    def _followed_of(self, optimizer: Any) -> _Followed | None:
        for each in self._followed:
            if any(optimizer is part for part in (each.adapter.optimizer, *each.adapter.parts)):
                return each
        return None

    def remove(self) -> None:
        """Let all optimizers go, in reverse order. Safe to call twice."""
        if self._scaler is not None:
            self._scaler.remove()
            self._scaler = None
        for followed in reversed(self._followed):
            self._let_go(followed)
        self._followed.clear()


def _parameters_of(adapter: OptimizerAdapter) -> set[int]:
    return {id(parameter) for group in adapter.groups() for parameter in group["params"]}
