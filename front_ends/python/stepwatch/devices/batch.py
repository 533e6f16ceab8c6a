"""Numbers of many tensors, gathered on their device and copied to the host at once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from stepwatch.devices.operators import AGREEMENT, COLUMNS, INFS, MAX, MIN, NANS, ZEROS, Numbers
from stepwatch.devices.pages import Pages

_COUNTS = ZEROS | NANS | INFS | AGREEMENT


class _Group:
    """Tensors of one dtype with the same columns: for each column vectors, followed by single numbers."""

    def __init__(self, count: int) -> None:
        self.tickets: list[int] = []
        self.vectors: list[list[torch.Tensor]] = [[] for _ in range(count)]
        self.single_tickets: list[int] = []
        self.singles: list[list[torch.Tensor]] = [[] for _ in range(count)]


class Batch:
    """Measured numbers on one stream of a device that are not sent yet.

    Parameters
    ----------
    device : torch.device
    stream : object
        The stream is None if the device has only one.
    wide : torch.dtype
        Dtype of numbers that are not counts.

    Attributes
    ----------
    device : torch.device
    """

    def __init__(self, device: torch.device, stream: Any, wide: torch.dtype) -> None:
        self.device = device
        self._stream = stream
        self._wide = wide
        self._groups: dict[tuple[torch.dtype, int], _Group] = {}

    def add(self, dtype: torch.dtype, columns: int, tickets: Sequence[int], numbers: Numbers) -> None:
        """Add tensors of one dtype.

        Parameters
        ----------
        dtype : torch.dtype
        columns : int
            The requested columns.
        tickets : sequence of int
            One for each tensor.
        numbers : Numbers
            For each column, the numbers of each tensor.
        """
        there = [(column, found) for column, found in zip(_columns_in(columns), numbers) if found is not None]
        key = (dtype, sum(column for column, _ in there))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(len(there))
        if any(isinstance(found, list) for _, found in there):
            group.single_tickets += tickets
            for own, (_, found) in zip(group.singles, there):
                own += found
        else:
            group.tickets += tickets
            for own, (_, found) in zip(group.vectors, there):
                own.append(found)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self._groups

    def on_its_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which work is queued after the gathered numbers."""
        if self._stream is None:
            return contextlib.nullcontext()
        module = getattr(torch, self.device.type)
        if current_stream(self.device) == self._stream:
            return contextlib.nullcontext()
        return module.stream(self._stream)

    def send(self, pages: Pages) -> Exception | None:
        """Queue a copy of all numbers to one page and publish the page. Does not wait.

        Parameters
        ----------
        pages : Pages

        Returns
        -------
        Exception or None
            The reason why the numbers were copied one by one.
        """
        groups, self._groups = self._groups, {}
        sections, count = [], 0
        for (dtype, columns), group in groups.items():
            tickets = group.tickets + group.single_tickets
            sections.append((count, columns, tickets))
            count += len(tickets) * sum(self._parts(column, dtype) for column in _columns_in(columns))
        page, trouble = pages.take(count, self._wide), None
        sources: Any = None
        if count > 0:
            try:
                sources = self._brought_together(groups)
                page[:count].copy_(sources, non_blocking=True)
            except Exception as error:  # devices raise any type
                trouble, sources = error, self._copied_one_by_one(groups, page)
        pages.publish(page, count, sources, sections)
        return trouble

    def _brought_together(self, groups: dict[tuple[torch.dtype, int], _Group]) -> torch.Tensor:
        cells: list[torch.Tensor] = []
        for (dtype, columns), group in groups.items():
            for column, vectors, singles in zip(_columns_in(columns), group.vectors, group.singles):
                whole = [*vectors, torch.stack(singles)] if singles else vectors
                of_column = whole[0] if len(whole) == 1 else torch.cat(whole)
                cells += self._split(of_column, self._parts(column, dtype))
        return cells[0] if len(cells) == 1 else torch.cat(cells)

    def _copied_one_by_one(
        self, groups: dict[tuple[torch.dtype, int], _Group], page: torch.Tensor
    ) -> list[torch.Tensor]:
        sources: list[torch.Tensor] = []
        at = 0
        for (dtype, columns), group in groups.items():
            tickets = len(group.tickets) + len(group.single_tickets)
            for column, vectors, singles in zip(_columns_in(columns), group.vectors, group.singles):
                parts = self._parts(column, dtype)
                within = 0
                for numbers in [*vectors, *(single.reshape(1) for single in singles)]:
                    for number, part in enumerate(self._split(numbers, parts)):
                        first = at + number * tickets + within
                        page[first : first + part.numel()].copy_(part, non_blocking=True)
                        sources.append(part)
                    within += numbers.numel()
                at += parts * tickets
        return sources

    def _parts(self, column: int, dtype: torch.dtype) -> int:
        """Return the number of cells per number."""
        is_single = self._wide == torch.float32
        if column & _COUNTS:
            return 2 if is_single else 1
        if column & (MIN | MAX) and not dtype.is_floating_point:
            return 3 if is_single else 2
        return 1

    def _split(self, numbers: torch.Tensor, parts: int) -> list[torch.Tensor]:
        """Split integers into parts that a cell holds exactly, the highest bits first."""
        if parts == 1:
            return [numbers.to(self._wide)]
        unit = 1 << (24 if self._wide == torch.float32 else 32)
        rest, found = numbers.to(torch.int64), []
        for _ in range(parts - 1):
            above = torch.div(rest, unit, rounding_mode="floor")
            found.append((rest - above * unit).to(self._wide))
            rest = above
        return [rest.to(self._wide), *reversed(found)]


def current_stream(device: torch.device) -> Any:
    """Return the stream on which work for a device is queued, None if there is only one."""
    module = getattr(torch, device.type, None)
    if device.type == "cpu" or not hasattr(module, "current_stream") or not hasattr(module, "stream"):
        return None
    try:
        return module.current_stream(device)
    except TypeError:  # the backend supports only the current device
        return module.current_stream()


def _columns_in(columns: int) -> list[int]:
    return [column for column in COLUMNS if columns & column]
