"""One hook on the gradient of a parameter, which keeps its position among other hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_INCOMING, _ACCUMULATED = "_backward_hooks", "_post_accumulate_grad_hooks"


class GradientHook:
    """A hook on a parameter, also while it is frozen: torch calls it in passes that compute its gradient.

    An incoming hook runs after other hooks, which may change the gradient. A hook on the accumulated gradient runs
    before other hooks, which may scale it, or use it for an update and free it. Both read the gradient that autograd
    accumulates.

    Parameters
    ----------
    parameter : torch.nn.Parameter
        A leaf.
    hook : callable
        As hook(gradient) if it is incoming, else hook(parameter).
    is_incoming : bool
        Whether it is called before the gradient is accumulated, or after.
    is_swapped : bool
        Whether torch has swapped the tensor in place, which removes the hooks that the tensor still lists.
    """

    __slots__ = ("_hook", "_hooks", "_is_incoming", "_parameter", "_place")

    def __init__(
        self, parameter: torch.nn.Parameter, hook: Callable[[Any], None], is_incoming: bool, is_swapped: bool = False
    ) -> None:
        self._parameter = parameter
        self._hook = hook
        self._is_incoming = is_incoming
        self._place = _INCOMING if is_incoming else _ACCUMULATED
        hooks = getattr(parameter, self._place)
        if hooks is None or is_swapped:
            # Registers like torch, which rejects a parameter that is frozen at the moment.
            hooks = OrderedDict()
            setattr(parameter, self._place, hooks)
        hooks[id(hook)] = hook
        self._hooks = hooks
        self.keep_place()

    def keep_place(self) -> bool:
        """Restore the position of the hook if other hooks were added.

        Returns
        -------
        bool
            False if other code has removed the hook.
        """
        key = id(self._hook)
        if key not in self._hooks or getattr(self._parameter, self._place) is not self._hooks:
            return False
        if len(self._hooks) > 1:
            self._move(key)
        return True

    def _move(self, key: int) -> None:
        # Torch uses the insertion order of keys, which `move_to_end` does not change.
        if not self._is_incoming:
            if next(iter(self._hooks)) != key:
                for other in [other for other in self._hooks if other != key]:
                    self._hooks[other] = self._hooks.pop(other)
        elif next(reversed(self._hooks)) != key:
            self._hooks[key] = self._hooks.pop(key)

    def remove(self) -> None:
        """Remove the hook."""
        self._hooks.pop(id(self._hook), None)
        if self._is_incoming and not self._hooks and self._parameter._backward_hooks is self._hooks:
            # Otherwise torch would call into Python for it in every backward pass, without effect.
            self._parameter._backward_hooks = None
