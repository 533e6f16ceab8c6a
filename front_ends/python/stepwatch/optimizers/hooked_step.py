"""The step of a torch optimizer, observed by torch's step hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.eager_calls import eager
from stepwatch.optimizers.followed_step import FollowedStep, StepCalls


class HookedStep(FollowedStep):
    """Follows the steps of an optimizer that accepts hooks. Other code may replace its `step` meanwhile.

    Parameters
    ----------
    optimizer : object
        An optimizer for which `takes_step_hooks` is true.
    calls, reads_inside
        As in `FollowedStep`.
    """

    def __init__(self, optimizer: Any, calls: StepCalls, reads_inside: bool = False) -> None:
        super().__init__(optimizer, calls, reads_inside)
        self._depth = 0  # nested steps of the same optimizer: a class whose step calls that of its base
        self._handles = [
            optimizer.register_step_pre_hook(eager(self._before)),
            optimizer.register_step_post_hook(eager(self._after)),
        ]

    def _before(self, *given: Any) -> Any:
        return self._safely(self._before_step, *given)

    def _after(self, *given: Any) -> None:
        self._safely(self._after_step, *given)

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if optimizer is not self.optimizer:
            return None
        if self._is_running and _steps_under_way(optimizer) > 1:
            self._depth += 1
            return None
        self._depth = 0
        given = args[1:]
        taken, named = self._begin(given, kwargs)
        return None if taken is given and named is kwargs else ((args[0], *taken), named)

    def _after_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if optimizer is not self.optimizer or not self._is_running:
            return
        if self._depth > 0:
            self._depth -= 1
            return
        self._end()

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


class StepsInside:
    """Reports the begin and end of each step of the optimizers inside another one.

    Parameters
    ----------
    optimizers : list of object
        Optimizers for which `takes_step_hooks` is true.
    begins, ends : callable
        Called without arguments. They must not raise except to end the run.
    """

    def __init__(self, optimizers: list[Any], begins: Callable[[], None], ends: Callable[[], None]) -> None:
        def before(*_: Any) -> None:
            begins()

        def after(*_: Any) -> None:
            ends()

        self._handles = [optimizer.register_step_pre_hook(eager(before)) for optimizer in optimizers]
        self._handles += [optimizer.register_step_post_hook(eager(after)) for optimizer in optimizers]

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def takes_step_hooks(optimizer: Any) -> bool:
    """Return whether torch calls the hooks of an object each time its `step` runs.

    Parameters
    ----------
    optimizer : object

    Returns
    -------
    bool
        False if the object has its own `step`, which may not call the one of the class.
    """
    step = getattr(type(optimizer), "step", None)
    own = getattr(optimizer, "__dict__", {})
    if not getattr(step, "hooked", False) or not isinstance(own.get("_optimizer_step_pre_hooks"), dict):
        return False
    replaced = own.get("step")
    compiled = getattr(replaced, "_torchdynamo_orig_callable", replaced)
    return replaced is None or hasattr(replaced, "_wrapped_by_lr_sched") or getattr(compiled, "__func__", None) is step


def _steps_under_way(optimizer: Any) -> int:
    """Count the active calls of an optimizer's `step` in this thread, by the frames of torch's wrapper."""
    code, count = type(optimizer).step.__code__, 0
    frame = sys._getframe(1)
    while frame is not None:
        count += frame.f_code is code and frame.f_locals.get("self") is optimizer
        frame = frame.f_back
    return count
