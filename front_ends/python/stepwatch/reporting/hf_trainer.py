"""Logs, evaluations and checkpoints of the Trainer of transformers, from its own callbacks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting.phases import in_phase
from stepwatch.reporting.quietly import quietly
from stepwatch.reporting.reporter import Reporter

_CALLBACKS = "transformers.trainer_callback"
_TRAINERS = "transformers.trainer"
# Names in its logs that differ from those of a beat.
_NAMES = {"learning_rate": "lr", "num_input_tokens_seen": "tokens"}


def watch(patches: Patches, reporter_of: Callable[[Any], Reporter | None]) -> None:
    """Observe every Trainer, if the job has imported transformers.

    Parameters
    ----------
    patches : Patches
        Records the replaced functions.
    reporter_of : callable
        As in `TrainerLogs`.
    """
    trainer = getattr(sys.modules.get(_TRAINERS), "Trainer", None)
    in_phase(patches, trainer, "_save_checkpoint", "checkpoint", lambda self, *_, **__: reporter_of(self.optimizer))
    handler = getattr(sys.modules.get(_CALLBACKS), "CallbackHandler", None)
    if handler is None or patches.has(handler, "on_log"):
        return
    evaluating: dict[int, tuple[Reporter, Any]] = {}

    def logged(self: Any, logs: dict[str, Any]) -> None:
        reporter = reporter_of(getattr(self, "optimizer", None))
        if reporter is None or not any(name in logs for name in ("loss", "grad_norm", "learning_rate")):
            return
        numbers = {_NAMES.get(name, name): value for name, value in logs.items() if not isinstance(value, str)}
        reporter.report(numbers, max(reporter.last_step, 0))

    def predicting(self: Any) -> None:
        reporter = None if id(self) in evaluating else reporter_of(getattr(self, "optimizer", None))
        if reporter is not None:
            evaluating[id(self)] = reporter, reporter.enter("eval", None)

    def evaluated(self: Any) -> None:
        reporter, before = evaluating.pop(id(self), (None, None))
        if reporter is not None:
            reporter.leave(before)

    _before(patches, handler, "on_log", lambda self, args, state, control, logs, *_: logged(self, logs))
    _before(patches, handler, "on_prediction_step", lambda self, *_: predicting(self))
    # An evaluation that raises or is aborted ends with the next step at the latest.
    for name in ("on_evaluate", "on_predict", "on_step_begin"):
        _before(patches, handler, name, lambda self, *_: evaluated(self))


def _before(patches: Patches, owner: Any, name: str, work: Callable[..., None]) -> None:
    original = vars(owner).get(name)
    if original is None:
        return
    listen = quietly(work)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        listen(*args, *kwargs.values())
        return original(*args, **kwargs)

    patches.put(owner, name, call)
