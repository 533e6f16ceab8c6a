"""Asynchronous copies of numbers from devices, collected in later steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwatch.page_pool import PagePool, is_written

if TYPE_CHECKING:
    import torch

# Limit of pending reports; one more drops the oldest.
_REPORTS_MAX = 64
_CELLS_MIN = 8


@dataclass
class _Report:
    names: list[str]
    step: int
    page: torch.Tensor  # in host memory; a mark fills cells that are not written yet
    source: torch.Tensor  # kept until it is copied


class LateNumbers:
    """Copies 0-d tensors from their devices, one copy for each report and device, and returns the numbers later.

    Use it from the training thread only.

    Attributes
    ----------
    under_way : deque
        Reports that have not arrived yet. Always the same deque, so that the end of a step can check it cheaply.
    dropped : int
        Numbers that had not arrived when their place was needed.
    """

    def __init__(self) -> None:
        self.under_way: deque[_Report] = deque()
        self._pages = PagePool(_CELLS_MIN)
        self.dropped = 0

    def send(self, names: Sequence[str], tensors: Sequence[torch.Tensor], step: int) -> None:
        """Copy tensors of one element, in the stream that produces them.

        Parameters
        ----------
        names : sequence of str
        tensors : sequence of torch.Tensor
            Tensors of one element each, on devices.
        step : int
            The step that the numbers belong to.
        """
        from stepwatch.devices.engine import _undisturbed

        places: dict[Any, list[int]] = {}
        for place, tensor in enumerate(tensors):
            places.setdefault(tensor.device, []).append(place)
        for device, own in places.items():
            with _undisturbed(device):
                source = _joined([tensors[place].detach().reshape(()) for place in own])
                page = self._pages.take(len(own), source.dtype)
                page[: len(own)].copy_(source, non_blocking=True)
            self.under_way.append(_Report([names[place] for place in own], step, page, source))
        while len(self.under_way) > _REPORTS_MAX:
            self.dropped += len(self.under_way.popleft().names)

    def take(self) -> list[tuple[int, list[tuple[str, float]]]]:
        """Return the reports whose numbers have all arrived: step, names and numbers. Does not wait."""
        found = []
        for _ in range(len(self.under_way)):
            report = self.under_way.popleft()
            numbers = report.page[: len(report.names)]
            if not is_written(numbers):
                self.under_way.append(report)
                continue
            found.append((report.step, list(zip(report.names, numbers.tolist()))))
            self._pages.give_back(report.page)
        return found


def _joined(scalars: list[torch.Tensor]) -> torch.Tensor:
    """Return the scalars in one tensor of doubles, or of floats if the device has no doubles."""
    import torch

    try:
        return torch.stack([scalar.to(torch.float64) for scalar in scalars])
    except (RuntimeError, TypeError):
        return torch.stack([scalar.to(torch.float32) for scalar in scalars])
