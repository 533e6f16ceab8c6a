"""Passes of the autograd engine, observed from Python."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from stepwatch.hooks.patches import Patches
from stepwatch.reporting.step_parts import BACKWARD


class Listener(Protocol):
    """Measures passes."""

    def enter(self, part: int) -> int | None:
        """Begin a part; return the argument for `leave`."""

    def leave(self, before: int | None) -> None:
        """Restore the part before."""


class BackwardPasses:
    """Calls listeners at the begin and the end of each call of the engine, also if it raises.

    All of torch's functions (`Tensor.backward`, `autograd.backward`, `autograd.grad`) and those of frameworks call the
    engine that `torch.autograd.Variable` holds. While there are listeners, it is an object of a class derived from the
    engine's, which passes each call on. Passes that C++ starts are not seen.
    """

    def __init__(self) -> None:
        self._listeners: list[weakref.ref[Listener]] = []
        self._patches = Patches()
        self._engines: tuple[Any, Any] = (None, None)  # torch's, and the one that passes its calls on

    def add(self, listener: Listener) -> None:
        """Call a listener from now on, as long as it exists. Safe to call twice."""
        self.discard(listener)
        if not self._listeners:
            self._replace()
        self._listeners.append(weakref.ref(listener, self._forget))

    def discard(self, listener: Listener) -> None:
        """Do not call a listener any more."""
        self._keep([each for each in self._listeners if each() is not listener])

    def _forget(self, gone: weakref.ref[Listener]) -> None:
        self._keep([each for each in self._listeners if each is not gone])

    def _keep(self, listeners: list[weakref.ref[Listener]]) -> None:
        self._listeners = listeners
        if not listeners:
            self._patches.remove()

    def _replace(self) -> None:
        import torch

        owner = torch.autograd.Variable
        original = vars(owner).get("_execution_engine")
        if original is None:
            return
        if self._engines[0] is not original:
            self._engines = (original, self._engine_around(original))
        self._patches.put(owner, "_execution_engine", self._engines[1])

    def _engine_around(self, original: Any) -> Any:
        passes = self

        class ReportedEngine(type(original)):  # type: ignore[misc]
            def run_backward(self, *args: Any, **kwargs: Any) -> Any:
                entered = [(each, each.enter(BACKWARD)) for each in passes._alive()]
                try:
                    return original.run_backward(*args, **kwargs)
                finally:
                    for each, before in reversed(entered):
                        each.leave(before)

        return ReportedEngine()

    def _alive(self) -> list[Listener]:
        return [listener for each in self._listeners if (listener := each()) is not None]
