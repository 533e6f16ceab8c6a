"""Phases of the training other than steps, so that a long evaluation or checkpoint is not reported as a hang."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import stepwatch.phase  # noqa: F401  # the module; `stepwatch.phase` is its class
from stepwatch.compat import light_monitor
from stepwatch.hooks.patches import Patches
from stepwatch.reporting.found import reporter_in_use

_EVALUATION = "internlm.eval.evaluation"
_CHECKPOINTS = "internlm.checkpoint.checkpoint_manager"

_entered: list[str] = []


def phase_in_progress() -> str | None:
    """Return the innermost phase; None: there is none."""
    return _entered[-1] if _entered else None


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Set the phase of the run for a block, for the tracker, the light monitor and a Stepwatch monitor.

    InternEvo's own evaluations and checkpoints need no call.

    Parameters
    ----------
    name : str
        "eval", "checkpoint" or "paused".
    """
    _entered.append(name)
    light_monitor.send_phase(name)
    try:
        with stepwatch.phase(name):
            yield
    finally:
        _entered.remove(name)
        light_monitor.send_phase(phase_in_progress() or "train")


def watch_internevo(patches: Patches) -> None:
    """Observe InternEvo's evaluations and checkpoints, if the process has imported them.

    Parameters
    ----------
    patches : Patches
        Records the replaced functions.
    """
    evaluation = sys.modules.get(_EVALUATION)
    switch = None if evaluation is None else vars(evaluation).get("switch_evaluation_mode")
    if callable(switch):
        patches.put(evaluation, "switch_evaluation_mode", _around_block(switch))
    manager = getattr(sys.modules.get(_CHECKPOINTS), "CheckpointManager", None)
    save = None if manager is None else vars(manager).get("save_checkpoint")
    if callable(save):
        patches.put(manager, "save_checkpoint", _around_checkpoint(save))


def _around_block(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    @contextlib.contextmanager
    def block(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with phase("eval"), original(*args, **kwargs) as value:
            yield value

    return block


def _around_checkpoint(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        with phase("checkpoint"):
            result = original(*args, **kwargs)
        reporter = reporter_in_use()
        if reporter is not None:
            with contextlib.suppress(Exception):
                reporter.checkpoint()
        return result

    return save
