"""Host memory to which devices copy, pinned where that can be had."""

from __future__ import annotations

from typing import Any

import torch
from stepwatch import _core

_CELLS_MIN = 256


class Pages:
    """Pages of cells, each with a mark until a number is written there. They are filled again and again.

    Parameters
    ----------
    native : _core.LatePages
        Looks for numbers in them.
    """

    def __init__(self, native: _core.LatePages) -> None:
        self._native = native
        self._free: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}
        self._can_pin = True

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a page with room for so many numbers, in which none is written."""
        for page in self._native.take_finished():
            self._free.setdefault((page.numel(), page.dtype), []).append(page)
        size = max(_CELLS_MIN, 1 << (count - 1).bit_length())
        free = self._free.get((size, dtype))
        page = free.pop() if free else self._new(size, dtype)
        if dtype == torch.float64:
            page.view(torch.int64).fill_(_core.UNWRITTEN[0])
        else:
            page.view(torch.int32).fill_(_core.UNWRITTEN[1])
        return page

    def _new(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        if self._can_pin:
            try:
                return torch.empty(size, dtype=dtype, device="cpu", pin_memory=True)
            except Exception:  # whatever the device says
                self._can_pin = False
        return torch.empty(size, dtype=dtype, device="cpu")

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
