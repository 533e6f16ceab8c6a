"""The part of a step, as the training loop reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwatch.reporting.block import Block
from stepwatch.reporting.step_parts import PARTS

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter


class part(Block):
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
        super().__init__()
        self._name = name

    def _enter(self, reporter: Reporter) -> int | None:
        number = PARTS.get(self._name)
        if number is None:
            accepted = ", ".join(PARTS)
            reporter.warn_once(
                "part " + str(self._name),
                f"stepwatch.part({self._name!r}): accepted parts: {accepted}; its time is not counted",
            )
            return None
        return reporter.enter_part(number)

    def _leave(self, reporter: Reporter, before: int) -> None:
        reporter.enter_part(before)
