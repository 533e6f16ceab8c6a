"""Functions of frameworks that set a phase of the run other than training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting.reporter import Reporter


def in_phase(patches: Patches, owner: Any, name: str, phase: str, reporter_of_call: Callable[..., Any]) -> None:
    """Set the phase of the run while a function runs. A saved checkpoint is reported as complete.

    Parameters
    ----------
    patches : Patches
        Records the replaced functions.
    owner : module, type or None
        The owner of the function; if it lacks the function, the call has no effect.
    name : str
        Name of the function.
    phase : str
        As in `stepwatch.phase`.
    reporter_of_call : callable
        Given the arguments of a call, returns the Reporter to use, or None.
    """
    original = None if owner is None else vars(owner).get(name)
    if not callable(original) or patches.has(owner, name):
        return

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        reporter, before = _entered(phase, reporter_of_call, args, kwargs)
        is_done = False
        try:
            result = original(*args, **kwargs)
            is_done = True
            return result
        finally:
            if reporter is not None:
                _leave(reporter, before, saved=is_done and phase == "checkpoint")

    patches.put(owner, name, call)


# Exceptions end here: the monitor must not break the framework.
def _entered(
    phase: str, reporter_of_call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Reporter | None, Any]:
    try:
        reporter = reporter_of_call(*args, **kwargs)
        return reporter, None if reporter is None else reporter.enter(phase, None)
    except Exception:
        return None, None


def _leave(reporter: Reporter, before: Any, saved: bool) -> None:
    try:
        reporter.leave(before)
        if saved:
            reporter.checkpoint()
    except Exception:
        pass
