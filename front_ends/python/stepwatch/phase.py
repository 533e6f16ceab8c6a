"""The phase of the run, as the training loop reports it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from stepwatch.reporting.block import Block

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Entered, Reporter


class phase(Block):
    """Set the phase of the run for a block, so that a long evaluation is not reported as a hang.

    Phases nest; the end of the block restores the previous one. Never raises: an unknown name causes one log line and
    changes no phase. Without a monitor it does nothing, as `report`. A copy is a phase as well; a pickle contains
    `contextlib.nullcontext()` instead.

    Parameters
    ----------
    name : str
        "init", "train", "eval", "checkpoint" or "paused".
    expires : float or timedelta, optional
        Seconds after which "paused" no longer protects the run; None: an hour.

    Examples
    --------
    >>> with stepwatch.phase("eval"):  # doctest: +SKIP
    ...     evaluate(model)
    """

    def __init__(self, name: str, expires: float | timedelta | None = None) -> None:
        super().__init__()
        self._name = name
        self._expires = expires

    def _enter(self, reporter: Reporter) -> Entered | None:
        return reporter.enter(self._name, self._expires)

    def _leave(self, reporter: Reporter, before: Entered) -> None:
        reporter.leave(before)
