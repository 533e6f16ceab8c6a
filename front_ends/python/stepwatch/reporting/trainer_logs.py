"""What training frameworks log by themselves, handed on to the monitor of the optimizer that they train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches
from stepwatch.reporting import hf_trainer, lightning_trainer, megatron_log
from stepwatch.reporting.reporter import Reporter

# Each replaces something of its framework if the job has imported it.
_FRAMEWORKS: tuple[Callable[[Patches, Callable[[Any], Reporter | None]], None], ...] = (
    hf_trainer.watch,
    lightning_trainer.watch,
    megatron_log.watch,
)


class TrainerLogs:
    """Listens to the frameworks that the job has imported.

    Parameters
    ----------
    reporter_of : callable
        Given an optimizer, returns the reporter of the monitor that watches it, or None; given None, that of the only
        monitor there is.
    """

    def __init__(self, reporter_of: Callable[[Any], Reporter | None]) -> None:
        self._patches = Patches()
        self._reporter_of = reporter_of

    def look(self) -> None:
        """Look for frameworks that have come since the last look."""
        for watch in _FRAMEWORKS:
            watch(self._patches, self._reporter_of)

    def remove(self) -> None:
        """Put back what was replaced."""
        self._patches.remove()
