"""The part of a step, as the training loop reports it."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stepwatch.kept_in_models import KeptInModels
from stepwatch.reporting.found import reporter_in_use
from stepwatch.reporting.step_parts import PARTS

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter


class part(KeptInModels, contextlib.ContextDecorator):
    """Count the time of a block as a part of the training step.

    The step's beat has the sum, so micro-batches add up. Blocks nest: time belongs to the innermost. The updates of
    watched optimizers, and the wait for batches of a torch DataLoader, are counted without this. Never raises: an
    unknown name causes one log line and counts nothing. Without a monitor it does nothing, as `report`. Use it in the
    training thread. A copy is a part as well; a pickle contains `contextlib.nullcontext()` instead.

    Parameters
    ----------
    name : str
        "data" (the thread waits for the next batch) or "optimizer" (an update that no watched optimizer makes).

    Examples
    --------
    >>> with stepwatch.part("data"):  # doctest: +SKIP
    ...     batch = next(batches)
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered: list[tuple[Reporter | None, int]] = []  # several if the decorated function is recursive

    def _of_copies(self) -> dict[str, Any]:
        return {"_entered": []}

    def __reduce__(self) -> Any:
        return contextlib.nullcontext, ()

    def __enter__(self) -> part:
        reporter, before = reporter_in_use(), 0
        number = PARTS.get(self._name)
        if reporter is not None and number is None:
            accepted = ", ".join(PARTS)
            reporter.warn_once(
                "part " + str(self._name),
                f"stepwatch.part({self._name!r}): accepted parts: {accepted}; its time is not counted",
            )
            reporter = None
        elif reporter is not None and number is not None:
            before = reporter.enter_part(number)
        self._entered.append((reporter, before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        reporter, before = self._entered.pop()
        if reporter is not None:
            reporter.enter_part(before)
