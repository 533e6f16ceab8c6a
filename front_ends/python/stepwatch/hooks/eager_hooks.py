"""Hooks that keep out of what torch compiles or traces."""

from __future__ import annotations

from typing import Any

import torch
from stepwatch import _core

# Torch knows these functions when it compiles; the first since 2.3, the second before.
is_compiling = getattr(torch.compiler, "is_compiling", None) or getattr(torch._utils, "is_compiling", lambda: False)


def is_traced() -> bool:
    """Tell whether torch compiles, exports or traces here, instead of running."""
    return is_compiling() or torch._C._get_tracing_state() is not None


def is_transformed() -> bool:
    """Tell whether this runs inside of a transform of torch.func, whose tensors are gone when it is over."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class EagerHook:
    """A hook of a module that is not there for torch.compile, torch.export and torch.jit.trace.

    A graph with the hook in it would be another graph: with breaks, or refused, and its numbers would round
    differently. In a copy of the model it does nothing.

    Parameters
    ----------
    hook : callable
        Called with whatever torch gives, and never raises; what it returns is not looked at.
    """

    __slots__ = ("_hook",)

    def __init__(self, hook: Any) -> None:
        self._hook = hook

    def __call__(self, *args: Any, **_: Any) -> None:
        """Call the hook where torch runs the module."""
        if not is_traced():
            self._hook(*args)

    def __reduce__(self) -> Any:
        return _core.inert_hook()
