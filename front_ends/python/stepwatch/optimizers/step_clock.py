"""A clock of training steps, driven by the optimizers, by a gradient scaler, or by the program."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwatch._core import IterationRule
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.frameworks.table import adapter_of
from stepwatch.optimizers.followed_step import FollowedStep, Reading, StepCalls
from stepwatch.optimizers.grad_scaler import ScalerSteps
from stepwatch.optimizers.hooked_step import HookedStep, StepsInside, takes_step_hooks
from stepwatch.optimizers.replaced_step import ReplacedStep
from stepwatch.reporting.step_parts import REST

BY_HAND = "end_step"  # stands for an optimizer


@dataclass(frozen=True)
class StepEvents:
    """The functions that a `StepClock` calls.

    Attributes
    ----------
    before_update : callable
        Called with the number of an optimizer and a `Reading`, once per step of the optimizer.
    after_update : callable
        Called with the number of an optimizer that has updated.
    abandoned_update : callable
        Called with the number of an optimizer whose update has raised.
    end_step : callable
        Called at the end of a training step, with whether any optimizer has updated.
    is_quiet : callable
        While it returns True, `end_quiet_step` is called in place of all others.
    end_quiet_step : callable
        Called at the end of a training step.
    repeats_closure : callable
        As in `StepCalls`.
    left_out : callable
        Called with the number of an optimizer that training steps do not wait for until it steps again.
    caught, enter_part : callable
        As in `StepCalls`.
    """

    before_update: Callable[[int, Reading], None]
    after_update: Callable[[int], None]
    abandoned_update: Callable[[int], None]
    end_step: Callable[[bool], None]
    is_quiet: Callable[[], bool]
    end_quiet_step: Callable[[], None]
    repeats_closure: Callable[[bool], None]
    left_out: Callable[[int], None]
    caught: Callable[[Exception], None]
    enter_part: Callable[[int], int]


@dataclass(eq=False)
class _Followed:
    """One followed optimizer."""

    adapter: OptimizerAdapter
    step: FollowedStep
    inside: StepsInside | None
    member: int  # its number in the rule
    is_of_model: bool  # it had parameters of the model when it was added
    number: int = 0


class StepClock:
    """Follows the `step` of optimizers, numbered from 0, and ends training steps.

    A training step is an iteration of the training loop: `IterationRule` decides when it ends. Optimizers that are
    added later replace one that has stepped if they cover all its parameters in the model, alone or together, or if the
    model no longer contains any of its parameters. If they cover all its parameters that are trained at the moment,
    training steps do not wait for the old one until it steps again.

    Parameters
    ----------
    events : StepEvents
        The functions to call.
    clock : object, optional
        The optimizer that ends steps; `BY_HAND`: only `end_by_hand` ends them; None: all optimizers together.
    """

    def __init__(self, events: StepEvents, clock: Any = None) -> None:
        self._events = events
        self._clock = clock
        self._followed: list[_Followed] = []
        self._rule = IterationRule()
        if _is_by_hand(clock):
            self._rule.leave_to_program()
        self._has_updated = False  # in this training step
        self._scaler: ScalerSteps | None = None
        self._calls_before_scaler: dict[int, int] = {}  # id of a followed step -> its calls

    @property
    def adapters(self) -> list[OptimizerAdapter]:
        """The adapters of the followed optimizers, by number."""
        return [each.adapter for each in self._followed]

    def add(self, optimizer: Any, parameters: set[int]) -> None:
        """Follow another optimizer, unless it is followed already.

        Parameters
        ----------
        optimizer : object
            With a method `step` that can be replaced, or a wrapper around one.
        parameters : set of int
            The ids of the model's parameters.

        Raises
        ------
        TypeError
            The optimizer has no such method.
        """
        adapter = adapter_of(optimizer)
        if all(adapter.optimizer is not each.step.optimizer for each in self._followed):
            self._follow(adapter, parameters)
            if self._clock is not None and any(self._clock is each for each in (optimizer, *_objects_of(adapter))):
                self._rule.name_clock(self._followed_of(adapter.optimizer).member)
        if self._scaler is None:
            self._scaler = ScalerSteps(self._before_scaler, self._after_scaler)

    def _follow(self, adapter: OptimizerAdapter, parameters: set[int]) -> None:
        own = _parameters_of(adapter)

        def before(reading: Reading) -> None:
            self._events.before_update(followed.number, reading)

        def after(has_updated: bool) -> None:
            if has_updated:
                self._has_updated = True
                self._events.after_update(followed.number)
            if self._ends_step(followed):
                self._after_backward(self._end_step)

        def after_quiet() -> None:
            if self._ends_step(followed):
                self._after_backward(self._events.end_quiet_step)

        optimizer = adapter.optimizer
        calls = StepCalls(
            before=before,
            after=after,
            abandoned=lambda: self._events.abandoned_update(followed.number),
            is_quiet=self._events.is_quiet,
            after_quiet=after_quiet,
            repeats_closure=self._events.repeats_closure,
            caught=self._events.caught,
            was_skipped=adapter.was_skipped,
            enter_part=self._events.enter_part,
        )
        parts = [part for part in adapter.parts if part is not optimizer and takes_step_hooks(part)]
        kind = HookedStep if takes_step_hooks(optimizer) else ReplacedStep
        # A custom step may do more before the update: zero gradients, compute them, clip or reduce them.
        reads_inside = bool(parts) and (adapter.may_reduce_itself or not adapter.is_understood)
        step = kind(optimizer, calls, reads_inside)
        step.takes_inside = len(parts) == 1
        begins = step.on_inside if reads_inside else step.note_inside
        inside = StepsInside(parts, begins, step.on_end_inside) if parts else None
        followed = _Followed(adapter, step, inside, self._rule.add(), bool(own & parameters))
        # An optimizer without parameters in the model, or whose parameters are all updated by new ones, is not kept
        # alive for past steps.
        new = [each.adapter for each in self._followed if each.step.count == 0]
        own = own.union(*map(_parameters_of, new))
        old = [each for each in self._followed if _is_over(each, own, parameters)]
        place = self._followed.index(old[0]) if old and not new else len(self._followed) - len(old)
        for each in old:
            self._rule.remove(each.member)
            self._let_go(each)
            self._followed.remove(each)
        for each in self._followed:
            if each.step.count > 0 and each.is_of_model and _trained_of(each.adapter, parameters) <= own:
                self._rule.leave_out(each.member)
        self._followed.insert(place, followed)
        self._look_at_shares()

    def _look_at_shares(self) -> None:
        owned = [_parameters_of(each.adapter) for each in self._followed]
        owners = Counter(itertools.chain.from_iterable(owned))
        for number, (followed, own) in enumerate(zip(self._followed, owned)):
            followed.number = number
            self._rule.set_takes_turns(followed.member, bool(own) and all(owners[each] > 1 for each in own))

    def _ends_step(self, followed: _Followed) -> bool:
        ends = self._rule.updated(followed.member)
        for member in self._rule.take_left_out() if len(self._followed) > 1 else ():
            for each in self._followed:
                if each.member == member:
                    self._events.left_out(each.number)
        return ends

    def _after_backward(self, end: Callable[[], None]) -> None:
        # Optimizers that step in the backward pass: later parts of the pass belong to the same step.
        if len(self._followed) > 1 and _is_in_backward():

            def end_after_pass() -> None:
                self._events.enter_part(REST)  # the pass is over, though its call has not returned
                end()

            _queue_callback(end_after_pass)
        else:
            end()

    def _end_step(self) -> None:
        has_updated, self._has_updated = self._has_updated, False
        self._events.end_step(has_updated)

    def end_by_hand(self) -> None:
        """End the training step; from the first call on, only this method ends it."""
        if not self._rule.end_by_hand():
            return
        if self._events.is_quiet():
            self._events.end_quiet_step()
        else:
            self._end_step()

    @staticmethod
    def _let_go(followed: _Followed) -> None:
        if followed.inside is not None:
            followed.inside.remove()
        followed.step.remove()

    @property
    def has_stepped(self) -> bool:
        """Whether a step of any followed optimizer has begun."""
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
            if any(optimizer is part for part in _objects_of(each.adapter)):
                return each
        return None

    def remove(self) -> None:
        """Stop following all optimizers, in reverse order. Safe to call twice."""
        if self._scaler is not None:
            self._scaler.remove()
            self._scaler = None
        for followed in reversed(self._followed):
            self._let_go(followed)
        self._followed.clear()


def _is_by_hand(clock: Any) -> bool:
    return isinstance(clock, str) and clock == BY_HAND


def _is_over(followed: _Followed, own: set[int], parameters: set[int]) -> bool:
    """Return whether another optimizer with the parameters `own` replaces a followed one."""
    theirs = _parameters_of(followed.adapter)
    if followed.is_of_model:
        theirs &= parameters
    elif not theirs:
        return False
    return theirs <= own if followed.step.count > 0 else not theirs


def _objects_of(adapter: OptimizerAdapter) -> list[Any]:
    return [adapter.optimizer, *adapter.parts]


def _is_in_backward() -> bool:
    import torch

    return torch._C._current_graph_task_id() != -1  # type: ignore[no-any-return]


def _queue_callback(end: Callable[[], None]) -> None:
    import torch

    torch.autograd.Variable._execution_engine.queue_callback(end)


def _parameters_of(adapter: OptimizerAdapter) -> set[int]:
    return {id(parameter) for group in adapter.groups() for parameter in group["params"]}


def _trained_of(adapter: OptimizerAdapter, parameters: set[int]) -> set[int]:
    trained = (each for group in adapter.groups() for each in group["params"] if each.requires_grad)
    return {id(each) for each in trained} & parameters
