"""Groups of parameters that are added to an optimizer between two steps."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches


class AddedGroups:
    """Calls a function after each `add_param_group` of torch's optimizers, so that the next step has rows of the group.

    Parameters
    ----------
    added : callable
        A method, called with the optimizer; it must not raise. Its object is not kept alive.
    """

    def __init__(self, added: Callable[[Any], None]) -> None:
        self._added = weakref.WeakMethod(added)
        self._patches = Patches()
        weakref.finalize(self, self._patches.remove).atexit = False

    def watch(self) -> None:
        """Start observing. Safe to call twice."""
        from torch.optim import Optimizer

        if self._patches.has(Optimizer, "add_param_group"):
            return
        original, method = Optimizer.add_param_group, self._added

        @functools.wraps(original)
        def add_param_group(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(optimizer, *args, **kwargs)
            added = method()
            if added is not None:
                added(optimizer)
            return result

        self._patches.put(Optimizer, "add_param_group", add_param_group)

    def remove(self) -> None:
        """Stop observing. Safe to call twice."""
        self._patches.remove()
