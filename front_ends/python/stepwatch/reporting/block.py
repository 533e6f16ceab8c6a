"""A block of the training loop that the reporter of the monitor in use enters and leaves."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stepwatch.kept_in_models import KeptInModels
from stepwatch.reporting.found import reporter_in_use

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter


class Block(KeptInModels, contextlib.ContextDecorator):
    """Enter and leave for each `with` statement, or each call of the decorated function.

    Without a monitor it does nothing. A copy is a block as well; a pickle contains `contextlib.nullcontext()` instead.
    """

    def __init__(self) -> None:
        self._entered: list[tuple[Reporter, Any] | None] = []  # several if the decorated function is recursive

    def _enter(self, reporter: Reporter) -> Any:
        """Enter the block; return the state to restore, or None if there is nothing to leave."""
        raise NotImplementedError

    def _leave(self, reporter: Reporter, before: Any) -> None:
        """Restore the state."""
        raise NotImplementedError

    def _of_copies(self) -> dict[str, Any]:
        return {"_entered": []}

    def __reduce__(self) -> Any:
        return contextlib.nullcontext, ()

    def __enter__(self) -> Any:
        reporter = reporter_in_use()
        before = None if reporter is None else self._enter(reporter)
        self._entered.append(None if reporter is None or before is None else (reporter, before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        entered = self._entered.pop()
        if entered is not None:
            self._leave(*entered)
