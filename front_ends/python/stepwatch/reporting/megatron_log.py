"""Arguments of `training_log`, evaluations and checkpoints of Megatron's training loop."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting.phases import in_phase
from stepwatch.reporting.quietly import quietly
from stepwatch.reporting.reporter import Reporter

_MODULES = ("megatron.training.training", "megatron.training")
# Parameters of training_log and their names in a beat; the parameter order differs between versions.
_NAMES = {"learning_rate": "lr", "loss_scale": "loss_scale", "grad_norm": "grad_norm", "params_norm": "params_norm"}


def watch(patches: Patches, reporter_of: Callable[[Any], Reporter | None]) -> None:
    """Observe Megatron's training loop, if the job has imported it.

    Parameters
    ----------
    patches : Patches
        Records the replaced functions.
    reporter_of : callable
        As in `TrainerLogs`.
    """
    for name in _MODULES:
        module = sys.modules.get(name)
        # These functions, like the log, do not identify their optimizer.
        for function, phase in (("evaluate", "eval"), ("save_checkpoint", "checkpoint")):
            in_phase(patches, module, function, phase, lambda *_, **__: reporter_of(None))
        original = None if module is None else vars(module).get("training_log")
        if original is None or patches.has(module, "training_log") or not callable(original):
            continue
        try:
            signature = inspect.signature(original)
        except (TypeError, ValueError):
            continue
        patches.put(module, "training_log", _listening(original, signature, reporter_of))


def _listening(
    original: Callable[..., Any], signature: inspect.Signature, reporter_of: Callable[[Any], Reporter | None]
) -> Callable[..., Any]:
    @quietly
    def listen(*args: Any, **kwargs: Any) -> None:
        reporter = reporter_of(None)  # the log does not identify its optimizer
        if reporter is None:
            return
        given = signature.bind(*args, **kwargs).arguments
        numbers = {name: given.get(parameter) for parameter, name in _NAMES.items()}
        losses = dict(given.get("loss_dict") or {})
        numbers.update({name.replace(" ", "_"): value for name, value in losses.items()})
        if losses:
            numbers["loss"] = losses.get("lm loss", next(iter(losses.values())))
        reporter.report(numbers, max(reporter.last_step, 0))

    @functools.wraps(original)
    def training_log(*args: Any, **kwargs: Any) -> Any:
        listen(*args, **kwargs)
        return original(*args, **kwargs)

    return training_log
