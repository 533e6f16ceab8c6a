"""Pages in which the native side looks for the numbers that devices write there."""

from __future__ import annotations

from typing import Any

import torch
from stepwatch import _core
from stepwatch.page_pool import PagePool

_CELLS_MIN = 256


class Pages:
    """Pages on loan to the native side, which gives them back when all their numbers have come.

    Parameters
    ----------
    native : _core.LatePages
        Looks for numbers in them.
    """

    def __init__(self, native: _core.LatePages) -> None:
        self._native = native
        self._pool = PagePool(_CELLS_MIN)

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a page with room for so many numbers, in which none is written."""
        for page in self._native.take_finished():
            self._pool.give_back(page)
        return self._pool.take(count, dtype)

    def publish(self, page: torch.Tensor, count: int, sources: Any, sections: list[tuple[int, int, list[int]]]) -> None:
        """Have the numbers looked for in a page.

        Parameters
        ----------
        page : torch.Tensor
        count : int
            Of the cells that are being written, from the first on.
        sources : object
            Tensors from which they are copied.
        sections : list of (int, int, list of int)
            The first cell, the columns, and the tickets of tensors of which the same is there, cell by cell.
        """
        self._native.publish(page, count, sources, sections)

    def note(self, text: str) -> None:
        """Tell the user something that needs no action."""
        self._native.note(text)
