"""Functions of frameworks during which the run does something else than training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting.reporter import Reporter


def in_phase(patches: Patches, owner: Any, name: str, phase: str, reporter_of_call: Callable[..., Any]) -> None:
    """Have the run in a phase while a function runs. A checkpoint that was saved is told as complete.

    Parameters
    ----------
    patches : Patches
        Keeps what is replaced.
    owner : module, type or None
        Where the function stands; nothing happens if it does not.
    name : str
        Of the function.
    phase : str
        As `stepwatch.phase` takes it.
    reporter_of_call : callable
        Given the arguments of a call, returns the Reporter to tell, or None.
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


# What raises here ends here: a framework's work is not to fail by us.
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
