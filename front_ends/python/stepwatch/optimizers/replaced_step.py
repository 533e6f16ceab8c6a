"""The step of an optimizer without hooks, observed by replacing the method of the object."""

from __future__ import annotations

import functools
import types
from typing import Any

from stepwatch.hooks.eager_calls import eager
from stepwatch.optimizers.followed_step import FollowedStep, StepCalls


class ReplacedStep(FollowedStep):
    """Follows the steps of any object with a method `step`, which is replaced on this object, not in its class.

    Parameters
    ----------
    optimizer, calls, reads_inside
        As in `FollowedStep`. With a closure the gradients are read after its first evaluation.

    Raises
    ------
    TypeError
        If `step` cannot be replaced.
    """

    def __init__(self, optimizer: Any, calls: StepCalls, reads_inside: bool = False) -> None:
        super().__init__(optimizer, calls, reads_inside)
        self._active = True
        # Code compiled by torch calls these without tracing them.
        self._begins, self._ends = eager(self._begin), eager(self._end)
        try:
            self._own_step = vars(optimizer).get("step")  # set on the object itself, for instance by an LR scheduler
            self._original = optimizer.step
            if self._own_step is None:
                self._original = _step_of_class(optimizer, self._original)
            self._put_on(self._original)
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"cannot follow the steps of {type(optimizer).__name__}: its step cannot be replaced ({error});"
                " accepted: an object with a method step and a __dict__, such as any torch.optim.Optimizer"
            ) from None

    def _put_on(self, original: Any) -> None:
        def step(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if owner is not self.optimizer:  # a copy of the optimizer, whose instance attributes were copied too
                return getattr(original, "__func__", original)(owner, *args, **kwargs)
            return self._run(args, kwargs)

        functools.update_wrapper(step, getattr(original, "__func__", original))
        step._stepwatch_owner = self  # type: ignore[attr-defined]
        # A bound method, as expected by LR schedulers, which wrap it in turn.
        self._patched = types.MethodType(step, self.optimizer)
        self.optimizer.step = self._patched

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._active:
            return self._original(*args, **kwargs)
        args, kwargs = self._safely(self._begins, args, kwargs) or (args, kwargs)
        result = self._original(*args, **kwargs)
        self._safely(self._ends, result)
        return result

    def remove(self) -> None:
        """Restore the optimizer's `step`; if other code has wrapped ours, ours stays inside and becomes inactive."""
        self._active = False
        outer = _owner_of(vars(self.optimizer).get("step"))
        if outer is self:
            if self._own_step is None:
                del self.optimizer.step
            else:
                self.optimizer.step = self._own_step
            return
        # Another monitor has wrapped the step later: it continues without this one.
        while outer is not None:
            inner = _owner_of(outer._own_step)
            if inner is self:
                outer._own_step, outer._original = self._own_step, self._original
            outer = inner


def _step_of_class(optimizer: Any, step: Any) -> Any:
    """Return a function that calls the current step of an object's class, which may be replaced later."""

    def current(owner: Any, *args: Any, **kwargs: Any) -> Any:
        return type(owner).step(owner, *args, **kwargs)

    return types.MethodType(functools.update_wrapper(current, getattr(step, "__func__", step)), optimizer)


def _owner_of(step: Any) -> ReplacedStep | None:
    # The mark alone is not a proof: functools.wraps copies it to other wrappers.
    owner = getattr(step, "_stepwatch_owner", None)
    return owner if owner is not None and owner._patched is step else None
