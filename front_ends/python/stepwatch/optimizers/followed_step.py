"""The steps of one optimizer, from begin to end, independent of how they are observed."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwatch.reporting.step_parts import OPTIMIZER, REST, UNKNOWN


class Reading(enum.Enum):
    """The time at which the tensors of a step are read."""

    IN_DOUBT = enum.auto()  # when `step` is called and it is unknown whether an inner optimizer will update
    AT_BEGIN = enum.auto()  # when `step` is called, or its closure has computed the gradients
    AT_UPDATE = enum.auto()  # when the update itself begins, after any changes to the gradients
    AT_END = enum.auto()  # after `step`; weights may be updated


@dataclass(frozen=True)
class StepCalls:
    """The functions that a followed step calls.

    Attributes
    ----------
    before : callable
        Called with a `Reading` once per step, when its gradients are ready; in the first step possibly earlier, with a
        doubtful reading.
    after : callable
        Called at the end of the step with whether it has updated; not if it raised.
    abandoned : callable
        Called before the next step begins, if this one raised after `before`.
    is_quiet, after_quiet : callable
        If `is_quiet` returns True when a step begins, `after_quiet` is called after the step in place of both.
    repeats_closure : callable
        Called with True before the step evaluates its closure again, and with False after that.
    caught : callable
        Called with exceptions of these functions or this module; it re-raises those that the trainer has to receive.
    was_skipped : callable
        Called with the result of `step`: True if it updated no parameter.
    enter_part : callable
        Called with the number of the part of the training step that begins; returns that of the one before.
    """

    before: Callable[[Reading], None]
    after: Callable[[bool], None]
    abandoned: Callable[[], None]
    is_quiet: Callable[[], bool]
    after_quiet: Callable[[], None]
    repeats_closure: Callable[[bool], None]
    caught: Callable[[Exception], None]
    was_skipped: Callable[[Any], bool] = lambda result: False
    enter_part: Callable[[int], int] = lambda part: REST


class FollowedStep:
    """Tracks the state of one optimizer's step; subclasses define how steps are observed.

    Parameters
    ----------
    optimizer : object
    calls : StepCalls
    reads_inside : bool
        Whether `before` waits until `on_inside` reports a step of an inner optimizer. Once an inner optimizer has
        stepped, a step without an inner step counts as skipped; until then that is unknown, and `before` does not wait
        after the first step.
    """

    def __init__(self, optimizer: Any, calls: StepCalls, reads_inside: bool = False) -> None:
        self.optimizer = optimizer
        self.count = 0
        self._calls = calls
        self._reads_inside = reads_inside
        self._is_running = False
        self._is_quiet = False
        self._is_read = False
        self._is_in_doubt = False  # read, except for gradients that an inner optimizer may receive
        self._waits_for_closure = False
        self._is_left_out = False
        self._has_stepped_inside = False  # in this step
        self._ever_stepped_inside = False
        self._has_waited = False
        self.takes_inside = False  # a step of the only inner optimizer is a step of this one, from any caller
        self._is_of_inside = False  # an inner optimizer steps without a call of this one's `step`
        self._kept: Exception | None = None  # raised to the trainer by the next step
        self._part_before = REST

    def _safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run our part of a call from other code; None if it fails."""
        try:
            return work(*args)
        except Exception as error:
            self._calls.caught(error)
            return None

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Record the begin of a step; return its arguments, with a closure that reports when gradients are ready."""
        is_abandoned = self._is_running
        if is_abandoned:  # the end of the last one was missed, for instance because it has raised
            self._calls.enter_part(UNKNOWN)
        given = self._prepare(args, kwargs)
        before = self._calls.enter_part(OPTIMIZER)
        self._part_before = REST if is_abandoned else before
        return given

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self._kept is not None:
            error, self._kept = self._kept, None
            raise error
        if self._is_running and (self._is_read or self._is_in_doubt) and not self._is_quiet:
            self._calls.abandoned()
        self.count += 1
        self._is_running, self._is_read, self._is_in_doubt = True, False, False
        self._has_stepped_inside = self._waits_for_closure = self._is_left_out = False
        self._is_quiet = self._calls.is_quiet()
        closure = args[0] if args else kwargs.get("closure")
        if callable(closure):  # some optimizers accept other arguments there
            closure = self._timed(closure) if self._is_quiet else self._reading_after(closure)
            return ((closure, *args[1:]), kwargs) if args else (args, {**kwargs, "closure": closure})
        if self._is_quiet:
            return args, kwargs
        if not self._reads_inside or (self._has_waited and not self._ever_stepped_inside):
            self._read(Reading.AT_BEGIN)
        elif not self._ever_stepped_inside:
            self._is_in_doubt = True
            self._calls.before(Reading.IN_DOUBT)
        self._has_waited = True
        return args, kwargs

    def _timed(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Return the closure; its time is none of the update's."""
        enter_part = self._calls.enter_part

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            before = enter_part(REST)
            try:
                return closure(*args, **kwargs)
            finally:
                enter_part(before)

        return functools.update_wrapper(evaluate, closure)

    def _reading_after(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(*args: Any, **kwargs: Any) -> Any:
            if not self._is_read:
                loss = closure(*args, **kwargs)
                self._safely(self._read, Reading.AT_BEGIN)
                return loss
            self._safely(self._calls.repeats_closure, True)
            try:
                return closure(*args, **kwargs)
            finally:
                self._safely(self._calls.repeats_closure, False)

        self._waits_for_closure = True
        return self._timed(functools.update_wrapper(evaluate, closure))

    def _read(self, reading: Reading) -> None:
        if not self._is_read:
            self._is_read = True
            self._calls.before(reading)

    def on_inside(self) -> None:
        """Record that an inner optimizer begins its step."""
        self._safely(self._on_inside)

    def on_end_inside(self) -> None:
        """Record that an inner optimizer has ended its step."""
        if self._is_of_inside:
            self._is_of_inside = False
            self._safely(self._end)

    def _begin_inside(self) -> None:
        # Two-step methods, such as sharpness-aware minimisation, call an inner optimizer from their own methods.
        self._is_of_inside = True
        self._begin((), {})

    def _on_inside(self) -> None:
        if not self._is_running:
            if not self.takes_inside:
                return
            self._begin_inside()
        self._has_stepped_inside = self._ever_stepped_inside = True
        if not self._is_quiet and not self._waits_for_closure:
            self._read(Reading.AT_UPDATE)

    def note_inside(self) -> None:
        """Record the same when no reading waits for it: a gradient scaler has not skipped this step."""
        if not self._is_running and self.takes_inside:
            self._safely(self._begin_inside)
        self._has_stepped_inside = self._is_running

    def _end(self, result: Any = None) -> None:
        self._is_running = False
        self._calls.enter_part(self._part_before)
        if self._is_quiet:
            self._calls.after_quiet()
            return
        if self._ever_stepped_inside and not self._has_stepped_inside and not self._waits_for_closure:
            self._is_left_out = True
        self._read(Reading.AT_BEGIN if self._is_left_out else Reading.AT_END)
        self._calls.after(not self._is_left_out and not self._calls.was_skipped(result))

    def skip(self) -> None:
        """Count a step that was skipped from outside, with the gradients that caused the skip."""
        if self._is_running:  # called during the step, by a wrapper
            if not self._has_stepped_inside:
                self._is_left_out = True
                if not self._is_quiet:
                    self._read(Reading.AT_UPDATE)
            return
        if self._calls.is_quiet():
            self._calls.after_quiet()
            return
        try:
            self._calls.before(Reading.AT_BEGIN)
        except Exception as error:  # the trainer expects it from `step`, not from the code that skipped it
            self._kept = error
        self._calls.after(False)

    def remove(self) -> None:
        """Stop following. Safe to call twice."""
        raise NotImplementedError
