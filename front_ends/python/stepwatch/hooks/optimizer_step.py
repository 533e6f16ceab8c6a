"""The end of a training step: a wrapper around `step` of one optimizer object."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

_MOMENTS = {"exp_avg", "exp_avg_sq"}
# Wrappers inside of each other that are looked through.
_WRAPPERS = 4


class OptimizerStep:
    """Calls `before` and `after` around every `optimizer.step`, until it is removed.

    The gradients are read in `before`: with a closure that is after its first evaluation, which computes them.

    Parameters
    ----------
    optimizer : object
        Anything with a method `step`. Only this object is changed, not its class.
    before, after : callable
        Called without arguments. `after` is not called if the step raises. What `before` raises reaches the trainer.
    is_quiet, after_quiet : callable
        `after_quiet` is called instead of both, after the step, while `is_quiet` returns True.
    """

    def __init__(
        self,
        optimizer: Any,
        before: Callable[[], None],
        after: Callable[[], None],
        is_quiet: Callable[[], bool],
        after_quiet: Callable[[], None],
    ) -> None:
        self.optimizer = optimizer
        self.calls = 0
        self._before = before
        self._after = after
        self._is_quiet = is_quiet
        self._after_quiet = after_quiet
        self._active = True
        try:
            self._own_step = vars(optimizer).get("step")  # set on the object itself, by an LR scheduler for instance
            self._original = optimizer.step
            self._put_on(self._original)
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"cannot follow the steps of {type(optimizer).__name__}: its step cannot be replaced ({error});"
                " accepted is an object with a method step and a __dict__, such as any torch.optim.Optimizer"
            ) from None

    def _put_on(self, original: Any) -> None:
        def step(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if owner is not self.optimizer:  # of a copy of the optimizer, which takes along what is set on it
                return getattr(original, "__func__", original)(owner, *args, **kwargs)
            return self._run(args, kwargs)

        functools.update_wrapper(step, getattr(original, "__func__", original))
        step._stepwatch_owner = self  # type: ignore[attr-defined]
        # A bound method, as LR schedulers expect that wrap it in their turn.
        self._patched = types.MethodType(step, self.optimizer)
        self.optimizer.step = self._patched

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._active:
            return self._original(*args, **kwargs)
        self.calls += 1
        if self._is_quiet():
            result = self._original(*args, **kwargs)
            self._after_quiet()
            return result
        closure = args[0] if args else kwargs.get("closure")
        if not callable(closure):  # some optimizers take other things there
            self._before()
        elif args:
            args = (self._reading_after(closure), *args[1:])
        else:
            kwargs = {**kwargs, "closure": self._reading_after(closure)}
        result = self._original(*args, **kwargs)
        self._after()
        return result

    def _reading_after(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        first = True

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            nonlocal first
            loss = closure(*args, **kwargs)
            if first:
                first = False
                self._before()
            return loss

        return functools.update_wrapper(evaluate, closure)

    def remove(self) -> None:
        """Give the optimizer its own `step` back; what others have wrapped since stays inside and does nothing."""
        self._active = False
        outer = _owner_of(vars(self.optimizer).get("step"))
        if outer is self:
            if self._own_step is None:
                del self.optimizer.step
            else:
                self.optimizer.step = self._own_step
            return
        # Another monitor has come since: it goes on without this one.
        while outer is not None:
            inner = _owner_of(outer._own_step)
            if inner is self:
                outer._own_step, outer._original = self._own_step, self._original
            outer = inner


def _owner_of(step: Any) -> OptimizerStep | None:
    # The mark alone proves nothing: functools.wraps copies it to the wrappers of others.
    owner = getattr(step, "_stepwatch_owner", None)
    return owner if owner is not None and owner._patched is step else None


def with_state(optimizer: Any) -> Any:
    """Find what keeps the parameter groups and the state: an optimizer, or the one that it wraps as `.optimizer`.

    Parameters
    ----------
    optimizer : object

    Returns
    -------
    object
        The object itself if it lists no parameter groups and wraps nothing that does.
    """
    found = optimizer
    for _ in range(_WRAPPERS):
        if hasattr(found, "param_groups"):
            return found
        found = getattr(found, "optimizer", None)
    return optimizer


def updates_without_moments(optimizer: Any) -> bool:
    """Say whether an optimizer updates parameters of which it keeps no moments.

    Parameters
    ----------
    optimizer : object
        After its first update, with the gradients of the next one.

    Returns
    -------
    bool
        Parameters without a gradient do not count: they are not updated. FSDP1 gives none to a rank that has no part
        of the parameter. Neither do those that have no state yet beside others with moments: this is their first
        update, in a branch that was not taken before. True if the optimizer does not list its parameters.
    """
    groups = getattr(optimizer, "param_groups", None)
    if groups is None:
        return True
    state = getattr(optimizer, "state", {})
    updated = (
        parameter
        for group in groups
        for parameter in group["params"]
        if parameter.grad is not None or getattr(parameter, "main_grad", None) is not None
    )
    without = [own for own in (state.get(parameter) or {} for parameter in updated) if not _MOMENTS & set(own)]
    if not without or any(without):
        return bool(without)
    return not any(_MOMENTS & set(own) for own in state.values())
