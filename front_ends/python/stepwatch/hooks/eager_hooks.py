"""Hooks that keep out of what torch compiles or traces."""

from __future__ import annotations

import sys
from typing import Any

import torch
from stepwatch.hooks.own_hook import OwnHook

# Torch knows these functions when it compiles; the first since 2.3, the second before.
is_compiling = getattr(torch.compiler, "is_compiling", None) or getattr(torch._utils, "is_compiling", lambda: False)
_symbolic_trace = sys.modules.get("torch.fx._symbolic_trace")


def is_traced() -> bool:
    """Tell whether torch compiles, exports or traces here, instead of running."""
    return (
        is_compiling()
        or torch._C._get_tracing_state() is not None
        or getattr(_symbolic_trace, "_is_fx_tracing_flag", False)
    )


def is_transformed() -> bool:
    """Tell whether this runs inside of a transform of torch.func, whose tensors are gone when it is over."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class EagerHook(OwnHook):
    """A hook of a module that is not there for torch.compile, torch.export, torch.jit.trace and torch.fx.

    A graph with the hook in it would be another graph: with breaks, or refused, and its numbers would round
    differently.

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
