"""Observations that are deferred until asynchronous communication is complete."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from stepwatch.hooks.patches import Patches


class PendingWorks:
    """Observations that are due when `wait` of their Work has returned.

    `wait` is replaced on the classes of the works, from the first work of a class to `clear`. If a work is destroyed
    without a wait, its observations and their tensors are released with it.

    Parameters
    ----------
    due : callable
        Called with observations on the thread that waited. It must not raise.
    waiting : tuple of callable
        As for `CommunicationTap`.
    """

    def __init__(
        self,
        due: Callable[[list[Any]], None],
        waiting: tuple[Callable[[], Any], Callable[[Any], None]] = (lambda: None, lambda _: None),
    ) -> None:
        self._due = due
        self._begin, self._end = waiting
        self._patches = Patches()
        self._groups: weakref.WeakKeyDictionary[Any, _Group] = weakref.WeakKeyDictionary()

    def add(self, works: Sequence[Any], observations: list[Any]) -> None:
        """Keep observations until a wait for their works returns.

        Parameters
        ----------
        works : sequence of torch.distributed.Work
            The works of one call. With as many works as observations each has its own (batch_isend_irecv returns one
            for each tensor, or one for all); otherwise all are due after the last work.
        observations : list
        """
        works = list(dict.fromkeys(works))
        if len(works) == len(observations):
            groups = [_Group([observation], 1) for observation in observations]
        else:
            groups = [_Group(observations, len(works))] * len(works)
        for work, group in zip(works, groups):
            self.watch(type(work))
            self._groups[work] = group

    def clear(self) -> None:
        """Discard all pending observations and restore `wait` of the classes."""
        self._patches.remove()
        self._groups.clear()

    def watch(self, kind: type) -> None:
        """Replace `wait` of a class of works. Safe to call twice."""
        owner = next(owner for owner in kind.__mro__ if "wait" in vars(owner))
        if not self._patches.has(owner, "wait"):
            self._patches.put(owner, "wait", self._wrap(vars(owner)["wait"]))

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            entered = self._begin()
            try:
                result = original(work, *args, **kwargs)
            finally:
                self._end(entered)
            if self._groups:
                self._waited(work)
            return result

        return wait

    def _waited(self, work: Any) -> None:
        try:
            group = self._groups.pop(work, None)
        except TypeError:  # a custom Work without a hash: never added
            return
        if group is not None:
            group.works -= 1
            if group.works == 0:
                self._due(group.observations)


class _Group:
    """Observations that are due after waits for a number of works."""

    __slots__ = ("observations", "works")

    def __init__(self, observations: list[Any], works: int) -> None:
        self.observations = observations
        self.works = works
