"""Logs of training frameworks, passed to the monitor of the optimizer that they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting import hf_trainer, lightning_trainer, megatron_log
from stepwatch.reporting.reporter import Reporter

# Each replaces functions of its framework if the job has imported it.
_FRAMEWORKS: tuple[Callable[[Patches, Callable[[Any], Reporter | None]], None], ...] = (
    hf_trainer.watch,
    lightning_trainer.watch,
    megatron_log.watch,
)


class TrainerLogs:
    """Observes the frameworks that the job has imported.

    Parameters
    ----------
    reporter_of : callable
        Given an optimizer, returns the reporter of the monitor that watches it, or None; given None, the reporter of
        the only monitor.
    """

    def __init__(self, reporter_of: Callable[[Any], Reporter | None]) -> None:
        self._patches = Patches()
        self._reporter_of = reporter_of

    def look(self) -> None:
        """Find frameworks that were imported since the last call."""
        for watch in _FRAMEWORKS:
            watch(self._patches, self._reporter_of)

    def remove(self) -> None:
        """Restore the replaced functions."""
        self._patches.remove()
