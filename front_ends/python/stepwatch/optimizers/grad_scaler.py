"""Steps that a gradient scaler skips because gradients overflowed; they count as steps without an update."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any


class ScalerSteps:
    """Reports `GradScaler.step(optimizer)` calls that did not call the optimizer.

    The classes are patched while any monitor is registered. They hold weak references, so that an unclosed monitor can
    be destroyed.

    Parameters
    ----------
    before, after : callable
        Called with the optimizer, before and after `GradScaler.step` ran with it. They must not raise except to end the
        run.
    """

    def __init__(self, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
        self.before = before
        self.after = after
        self._patches = [_patch_of(scaler) for scaler in _scaler_classes()]
        for patch in self._patches:
            patch.monitors.add(self)
            weakref.finalize(self, patch.take_off_unused).atexit = False

    def remove(self) -> None:
        """Restore `step` of the classes after the last monitor, unless other code has replaced ours."""
        for patch in self._patches:
            patch.monitors.discard(self)
            patch.take_off_unused()
        self._patches = []


class _Patch:
    """The replaced `step` of one class of scalers."""

    def __init__(self, scaler: Any) -> None:
        self.scaler = scaler
        self.original = original = scaler.__dict__["step"]
        self.monitors: weakref.WeakSet[ScalerSteps] = weakref.WeakSet()

        @functools.wraps(original)
        def step(scaler_object: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            monitors = list(self.monitors)
            for monitor in monitors:
                monitor.before(optimizer)
            result = original(scaler_object, optimizer, *args, **kwargs)
            for monitor in monitors:
                monitor.after(optimizer)
            return result

        step._stepwatch_patch = self  # type: ignore[attr-defined]
        self.step = step
        scaler.step = step

    def take_off_unused(self) -> None:
        """Restore `step` of the class if no monitor is registered and no other code has replaced ours."""
        if not list(self.monitors) and self.scaler.__dict__.get("step") is self.step:
            self.scaler.step = self.original


def _patch_of(scaler: type) -> _Patch:
    """Return the installed patch, or install one."""
    step = scaler.__dict__["step"]
    # The mark alone is not a proof: functools.wraps copies it to other wrappers.
    patch = getattr(step, "_stepwatch_patch", None)
    return patch if patch is not None and patch.step is step else _Patch(scaler)


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
