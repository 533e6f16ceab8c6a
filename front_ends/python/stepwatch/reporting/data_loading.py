"""The time that the training thread waits for a torch DataLoader."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from stepwatch.hooks.eager_calls import eager
from stepwatch.hooks.patches import Patches
from stepwatch.reporting.step_parts import DATA

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter


class DataLoading:
    """Counts the time of `next` on the iterators of torch's DataLoader as the part "data" of steps.

    Parameters
    ----------
    reporters : callable
        Returns the reporters of the open monitors. Only calls on the thread that opened a monitor count.
    """

    def __init__(self, reporters: Callable[[], Iterable[Reporter]]) -> None:
        self._reporters = reporters
        self._patches = Patches()

    def watch(self) -> None:
        """Replace the method of torch's class; a repeated call has no effect."""
        iterator = getattr(sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter", None)
        original = None if iterator is None else vars(iterator).get("__next__")
        if original is None or self._patches.has(iterator, "__next__"):
            return
        begin, end = eager(self._begin), eager(_end)

        @functools.wraps(original)
        def following(self: Any) -> Any:
            entered = begin()
            try:
                return original(self)
            finally:
                end(entered)

        self._patches.put(iterator, "__next__", following)

    def _begin(self) -> list[tuple[Reporter, int]]:
        thread = threading.get_ident()
        return [(each, each.enter_part(DATA)) for each in self._reporters() if each.thread == thread]

    def remove(self) -> None:
        """Restore the method."""
        self._patches.remove()


def _end(entered: list[tuple[Reporter, int]]) -> None:
    for reporter, before in entered:
        reporter.enter_part(before)
