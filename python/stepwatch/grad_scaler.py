"""Steps that a gradient scaler skips because gradients overflowed: they are steps as well, without an update."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class ScalerSteps:
    """Tells of `GradScaler.step(optimizer)` calls that did not call the optimizer.

    Parameters
    ----------
    before, after : callable
        Called with the optimizer, before and after `GradScaler.step` ran with it.
    """

    def __init__(self, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
        self._classes: list[tuple[type, Any, Any]] = []
        for scaler in _scaler_classes():
            self._wrap(scaler, before, after)

    def _wrap(self, scaler: type, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
        original = scaler.__dict__["step"]

        @functools.wraps(original)
        def step(scaler_object: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before(optimizer)
            result = original(scaler_object, optimizer, *args, **kwargs)
            after(optimizer)
            return result

        scaler.step = step  # type: ignore[attr-defined]
        self._classes.append((scaler, original, step))

    def remove(self) -> None:
        """Give the classes their own `step` back, unless somebody has replaced ours since."""
        for scaler, original, ours in reversed(self._classes):
            if scaler.__dict__.get("step") is ours:
                scaler.step = original  # type: ignore[attr-defined]
        self._classes.clear()


def _scaler_classes() -> list[type]:
    import torch

    found = []
    for path in ("amp.GradScaler", "cuda.amp.GradScaler", "cuda.amp.grad_scaler.GradScaler"):
        scaler: Any = torch
        for name in path.split("."):
            scaler = getattr(scaler, name, None)
        if isinstance(scaler, type) and "step" in scaler.__dict__ and scaler not in found:
            found.append(scaler)
    return found
