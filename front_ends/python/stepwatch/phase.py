"""The phase of the run, as the training loop reports it."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stepwatch.kept_in_models import KeptInModels
from stepwatch.reporting.found import reporter_in_use

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter


class phase(KeptInModels, contextlib.ContextDecorator):
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
        self._name = name
        self._expires = expires
        self._entered: list[tuple[Reporter | None, Any]] = []  # several if the decorated function is recursive

    def _of_copies(self) -> dict[str, Any]:
        return {"_entered": []}

    def __reduce__(self) -> Any:
        return contextlib.nullcontext, ()

    def __enter__(self) -> phase:
        reporter = reporter_in_use()
        before = None if reporter is None else reporter.enter(self._name, self._expires)
        self._entered.append((reporter, before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        reporter, before = self._entered.pop()
        if reporter is not None:
            reporter.leave(before)
