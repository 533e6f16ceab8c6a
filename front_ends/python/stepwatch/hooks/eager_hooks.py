"""Hooks that are inactive while torch compiles or traces."""

from __future__ import annotations

import sys
from typing import Any

import torch
from stepwatch.hooks.own_hook import OwnHook

# Torch's compiler recognises these functions; the first since 2.3, the second before.
is_compiling = getattr(torch.compiler, "is_compiling", None) or getattr(torch._utils, "is_compiling", lambda: False)
_symbolic_trace = sys.modules.get("torch.fx._symbolic_trace")


def is_traced() -> bool:
    """Return whether torch currently compiles, exports or traces instead of running."""
    return (
        is_compiling()
        or torch._C._get_tracing_state() is not None
        or getattr(_symbolic_trace, "_is_fx_tracing_flag", False)
    )


def is_transformed() -> bool:
    """Return whether the caller is inside a transform of torch.func, whose tensors end with it."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class EagerHook(OwnHook):
    """A module hook that is invisible to torch.compile, torch.export, torch.jit.trace and torch.fx.

    A graph that contains the hook would differ: it would have breaks, or fail to compile, and round its numbers
    differently.

    Parameters
    ----------
    hook : callable
        Called with the arguments from torch. It must not raise; its result is ignored.
    """

    __slots__ = ("_hook",)

    def __init__(self, hook: Any) -> None:
        self._hook = hook

    def __call__(self, *args: Any, **_: Any) -> None:
        """Call the hook if torch runs the module."""
        if not is_traced():
            self._hook(*args)
