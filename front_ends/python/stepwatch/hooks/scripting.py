"""Removal of hooks during torch.jit.script, which would compile them and fail."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepwatch.hooks.own_hook import is_own
from stepwatch.hooks.patches import Patches

if TYPE_CHECKING:
    import torch


class Scripting:
    """Removes hooks from each module while torch scripts it."""

    def __init__(self) -> None:
        self._patches = Patches()
        weakref.finalize(self, self._patches.remove).atexit = False

    def watch(self) -> None:
        """Start observing. Safe to call twice."""
        recursive = sys.modules.get("torch.jit._recursive")
        original = vars(recursive).get("create_script_module") if recursive is not None else None
        if original is None or self._patches.has(recursive, "create_script_module"):
            return

        @functools.wraps(original)
        def create_script_module(module: Any, *args: Any, **kwargs: Any) -> Any:
            with _without_hooks(module):
                return original(module, *args, **kwargs)

        self._patches.put(recursive, "create_script_module", create_script_module)

    def remove(self) -> None:
        """Stop observing. Safe to call twice."""
        self._patches.remove()


@contextlib.contextmanager
def _without_hooks(root: torch.nn.Module) -> Iterator[None]:
    """Replace hook tables by tables without our hooks; handles of other code refer to the old tables."""
    replaced = []
    for module in root.modules():
        for name in ("_forward_pre_hooks", "_forward_hooks"):
            hooks = vars(module).get(name) or {}
            others = [(key, hook) for key, hook in hooks.items() if not is_own(hook)]
            if len(others) < len(hooks):
                replaced.append((vars(module), name, hooks))
                vars(module)[name] = OrderedDict(others)
    try:
        yield
    finally:
        for attributes, name, hooks in replaced:
            attributes[name] = hooks
