"""Host memory to which devices copy numbers, pinned where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwatch import _core

if TYPE_CHECKING:
    import torch


class PagePool:
    """Reusable pages of cells; a cell contains a mark until a number is written there.

    Use it from one thread.

    Parameters
    ----------
    cells_min : int
        The smallest size of a page.
    """

    def __init__(self, cells_min: int) -> None:
        self._cells_min = cells_min
        self._free: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}
        self._can_pin = True

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a page with at least `count` unwritten cells for doubles or floats."""
        size = max(self._cells_min, 1 << (count - 1).bit_length())
        free = self._free.get((size, dtype))
        page = free.pop() if free else self._new(size, dtype)
        bits, mark = _mark_of(dtype)
        page.view(bits).fill_(mark)
        return page

    def give_back(self, page: torch.Tensor) -> None:
        """Return a page for reuse; no device may still copy to it."""
        self._free.setdefault((page.numel(), page.dtype), []).append(page)

    def _new(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        import torch

        if self._can_pin:
            try:
                return torch.empty(size, dtype=dtype, device="cpu", pin_memory=True)
            except Exception:  # devices raise any type
                self._can_pin = False
        return torch.empty(size, dtype=dtype, device="cpu")


def is_written(numbers: torch.Tensor) -> bool:
    """Return whether a number has been written to each of these cells."""
    bits, mark = _mark_of(numbers.dtype)
    return not bool((numbers.view(bits) == mark).any())


def _mark_of(dtype: torch.dtype) -> tuple[torch.dtype, int]:
    """Return the integer dtype of the same size, and the integer that marks an unwritten cell."""
    import torch

    if dtype == torch.float64:
        return torch.int64, _core.UNWRITTEN[0]
    return torch.int32, _core.UNWRITTEN[1]
