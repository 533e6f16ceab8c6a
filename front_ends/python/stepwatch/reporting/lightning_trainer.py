"""Logged numbers, validations and checkpoints of the Trainer of Lightning."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting.phases import in_phase
from stepwatch.reporting.quietly import quietly
from stepwatch.reporting.reporter import Reporter

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_CONNECTOR = ".trainer.connectors.logger_connector.logger_connector"
_TRAINER = ".trainer.trainer"
_EVALUATION = ".loops.evaluation_loop"
# Common names of the logged training loss, the likeliest first.
_LOSSES = ("loss", "train_loss", "train/loss", "training_loss", "train_loss_step", "train/loss_step", "loss_step")


def watch(patches: Patches, reporter_of: Callable[[Any], Reporter | None]) -> None:
    """Observe every Trainer, if the job has imported Lightning.

    Parameters
    ----------
    patches : Patches
        Records the replaced functions.
    reporter_of : callable
        As in `TrainerLogs`.
    """

    def of_trainer(trainer: Any) -> Reporter | None:
        return next((found for each in trainer.optimizers if (found := reporter_of(each)) is not None), None)

    for package in _PACKAGES:
        trainer = getattr(sys.modules.get(package + _TRAINER), "Trainer", None)
        in_phase(patches, trainer, "save_checkpoint", "checkpoint", lambda self, *_, **__: of_trainer(self))
        evaluation = getattr(sys.modules.get(package + _EVALUATION), "_EvaluationLoop", None)
        in_phase(patches, evaluation, "run", "eval", lambda self, *_, **__: of_trainer(self.trainer))
        connector = getattr(sys.modules.get(package + _CONNECTOR), "_LoggerConnector", None)
        original = None if connector is None else vars(connector).get("log_metrics")
        if original is not None and not patches.has(connector, "log_metrics"):
            patches.put(connector, "log_metrics", _listening(original, of_trainer))


def _listening(original: Callable[..., Any], of_trainer: Callable[[Any], Reporter | None]) -> Callable[..., Any]:
    @quietly
    def listen(connector: Any, metrics: dict[str, Any], *_: Any, **__: Any) -> None:
        trainer = connector.trainer
        if not trainer.training or not metrics:
            return
        reporter = of_trainer(trainer)
        if reporter is None:
            return
        numbers = dict(metrics)
        loss = next((name for name in _LOSSES if name in numbers), None)
        if loss is not None:
            numbers["loss"] = numbers[loss]
        reporter.report(numbers, max(reporter.last_step, 0))

    @functools.wraps(original)
    def log_metrics(connector: Any, *args: Any, **kwargs: Any) -> Any:
        listen(connector, *args, **kwargs)
        return original(connector, *args, **kwargs)

    return log_metrics
