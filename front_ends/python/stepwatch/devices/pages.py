"""Pages in which devices write numbers and from which the native side reads them."""

from __future__ import annotations

from typing import Any

import torch
from stepwatch import _core
from stepwatch.page_pool import PagePool

_CELLS_MIN = 256


class Pages:
    """Pages lent to the native side, which returns them when all their numbers have arrived.

    Parameters
    ----------
    native : _core.LatePages
        The native reader of the pages.
    """

    def __init__(self, native: _core.LatePages) -> None:
        self._native = native
        self._pool = PagePool(_CELLS_MIN)

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a page with at least `count` unwritten cells."""
        for page in self._native.take_finished():
            self._pool.give_back(page)
        return self._pool.take(count, dtype)

    def publish(self, page: torch.Tensor, count: int, sources: Any, sections: list[tuple[int, int, list[int]]]) -> None:
        """Register a page whose numbers are being written.

        Parameters
        ----------
        page : torch.Tensor
        count : int
            Number of cells that are being written, from the first on.
        sources : object
            Tensors from which the numbers are copied.
        sections : list of (int, int, list of int)
            The first cell, the columns, and the tickets of tensors with these columns, cell by cell.
        """
        self._native.publish(page, count, sources, sections)

    def note(self, text: str) -> None:
        """Log a text for the user that requires no action."""
        self._native.note(text)
