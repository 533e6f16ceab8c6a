"""One hook on the gradient of a parameter, which keeps its place among the hooks of others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_INCOMING, _ACCUMULATED = "_backward_hooks", "_post_accumulate_grad_hooks"


class GradientHook:
    """Hangs on a parameter, also while it is frozen: torch calls it in the passes that give it a gradient.

    An incoming hook comes after the hooks of others, which change the gradient. A hook on what is accumulated comes
    before them: they scale it, or update by it and let it go. Both see the gradient that autograd accumulates.

    Parameters
    ----------
    parameter : torch.nn.Parameter
        A leaf.
    hook : callable
        As hook(gradient) if it is incoming, else hook(parameter).
    is_incoming : bool
        Whether it is called before the gradient is accumulated, or after.
    is_swapped : bool
        Whether torch has exchanged the tensor in its place, by which it has lost the hooks that it still lists.
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
            # As torch does it, which refuses a parameter that is frozen at the moment.
            hooks = OrderedDict()
            setattr(parameter, self._place, hooks)
        hooks[id(hook)] = hook
        self._hooks = hooks
        self.keep_place()

    def keep_place(self) -> bool:
        """Go to its place, if others have come since.

        Returns
        -------
        bool
            False if somebody has taken the hook off.
        """
        key = id(self._hook)
        if key not in self._hooks or getattr(self._parameter, self._place) is not self._hooks:
            return False
        if len(self._hooks) > 1:
            self._move(key)
        return True

    def _move(self, key: int) -> None:
        # Torch reads the order in which keys were put in, which `move_to_end` leaves as it is.
        if not self._is_incoming:
            if next(iter(self._hooks)) != key:
                for other in [other for other in self._hooks if other != key]:
                    self._hooks[other] = self._hooks.pop(other)
        elif next(reversed(self._hooks)) != key:
            self._hooks[key] = self._hooks.pop(key)

    def remove(self) -> None:
        """Take the hook off."""
        self._hooks.pop(id(self._hook), None)
        if self._is_incoming and not self._hooks and self._parameter._backward_hooks is self._hooks:
            # Otherwise torch would call into Python for it in every backward pass, for nothing.
            self._parameter._backward_hooks = None
