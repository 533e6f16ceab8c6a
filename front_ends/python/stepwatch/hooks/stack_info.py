"""The call stacks that led to each module."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from stepwatch.hooks.own_hook import OwnHook


class StackBook:
    """Keeps the call stack of the last call of each module.

    A hook walks the frames and reads no file; source lines are looked up when the rows are requested.
    """

    def __init__(self) -> None:
        self._stacks: dict[str, list[tuple[CodeType, int]]] = {}

    def hook(self, name: str) -> Callable[..., None]:
        """Return a hook that keeps the stack of one module, in training and evaluation alike.

        As a forward hook it records the stack that msProbe prints. As a forward pre-hook it records a stack that
        differs in the calling line of torch, also for a module whose forward raises. Inside torch.compile it does
        nothing.

        Parameters
        ----------
        name : str
            Name of the module in the rows.

        Returns
        -------
        callable
            Accepts the arguments of any hook and returns None.
        """
        return _StackHook(self._stacks, name)

    def keep(self, name: str, depth: int) -> None:
        """Keep the current stack of a module.

        Parameters
        ----------
        name : str
        depth : int
            Innermost frames to leave out, beginning with the caller's.
        """
        self._stacks[name] = _frames_from(depth + 1)

    def rows(self) -> list[tuple[str, str]]:
        """Return the call stacks of the modules.

        Returns
        -------
        list of tuple
            (name, text) of the modules that ran, in the order of their first run. The text names the frames, innermost
            first, without frames that have no source, such as ``<string>``.
        """
        return [(name, "".join(map(_text_of, stack))) for name, stack in list(self._stacks.items())]


class _StackHook(OwnHook):
    """Records the stack of the current call."""

    def __init__(self, stacks: dict[str, list[tuple[CodeType, int]]], name: str) -> None:
        from stepwatch.hooks.eager_hooks import is_compiling  # needs torch

        self._stacks = stacks
        self._name = name
        self._is_compiling = is_compiling

    def __call__(self, *_: Any, **__: Any) -> None:
        if not self._is_compiling():
            self._stacks[self._name] = _frames_from(1)


def _frames_from(depth: int) -> list[tuple[CodeType, int]]:
    # Keeps the code and not the frame, which would keep the tensors of its variables alive.
    frame = sys._getframe(depth + 1)
    stack = []
    while frame is not None:
        stack.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return stack


def _text_of(place: tuple[CodeType, int]) -> str:
    code, line = place
    source = linecache.getline(code.co_filename, line)
    if not source:
        return ""
    return f"File {code.co_filename}, line {line}, in {code.co_name}, \n {source.strip()} \n"
