"""The operators that measure tensors on one device.

These operators never wait for the device, use a random generator, or change a tensor of the training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from stepwatch.devices.zeros import are_below

# Measured statistics, one bit each, in the order of the results.
NORM, SUM, MIN, MAX, ZEROS, NANS, INFS, AGREEMENT = (1 << bit for bit in range(8))
COLUMNS = (NORM, SUM, MIN, MAX, ZEROS, NANS, INFS, AGREEMENT)
_NAMES = {
    NORM: "norm",
    SUM: "mean",
    MIN: "min and max",
    MAX: "min and max",
    ZEROS: "zeros",
    NANS: "nans",
    INFS: "infs",
    AGREEMENT: "the agreement of signs",
}

# At least _FEW tensors of equal length up to _SMALL are stacked and measured together: a copy of a small tensor costs
# less than separate launches of its operators. _TOGETHER limits the elements at a time; in CPU memory they fit the
# second-level cache.
_SMALL = 1 << 14
_FEW = 4
_TOGETHER = 1 << 22
_TOGETHER_ON_CPU = 1 << 18
# Elements widened at once in CPU memory: torch's own sums in a wider type are not vectorised there.
_CHUNK = 1 << 16
_CHUNKED = 1 << 13

_FAILURES = (torch.cuda.OutOfMemoryError, getattr(torch, "AcceleratorError", ()))

_EIGHT_BITS = tuple(getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name))

# For each column the numbers of all tensors, in one vector or one by one; None if the device has no operator for them.
Numbers = list["torch.Tensor | list[torch.Tensor] | None"]


class Operators:
    """Measures tensors of one device. If it lacks an operator, another one with the same result is used.

    Parameters
    ----------
    sample : torch.Tensor
        A tensor on the device, with at least one element.
    report : callable
        Called once for each statistic that the device has no operator for, with its name, the dtype and the reason.

    Attributes
    ----------
    wide : torch.dtype
        Dtype of sums: float64, or float32 if the device has no float64.
    """

    def __init__(self, sample: torch.Tensor, report: Callable[[str, torch.dtype, Exception], None]) -> None:
        self.wide = torch.float64 if _has_double(sample) else torch.float32
        self._is_cpu = sample.device.type == "cpu"
        self._report = report
        self._chosen: dict[tuple[str, torch.dtype], int] = {}

    def measure(
        self, tensors: Sequence[torch.Tensor], columns: int, below: float
    ) -> Iterator[tuple[list[int], Numbers]]:
        """Measure tensors of one dtype.

        Parameters
        ----------
        tensors : sequence of torch.Tensor
            Not empty, each with at least one element.
        columns : int
            The statistics to measure.
        below : float
            The value of `zeros.threshold`: smaller magnitudes count as zeros.

        Yields
        ------
        (list of int, Numbers)
            Positions of tensors, and their numbers. Each position occurs once.
        """
        if len(tensors) == 1:
            yield [0], self._reduce_each(tensors, columns, below)
            return
        together_max = _TOGETHER_ON_CPU if self._is_cpu else _TOGETHER
        alone: list[int] = []
        for length, places in _by_length(tensors).items():
            if length > _SMALL or len(places) < _FEW:
                alone += places
                continue
            many = max(_FEW, together_max // length)
            for first in range(0, len(places), many):
                some = places[first : first + many]
                rows = self._together([tensors[place] for place in some])
                if rows is None:
                    alone += some
                else:
                    yield some, self._reduce(rows, 1, columns, below)
        small = [place for place in alone if tensors[place].numel() < _CHUNKED]
        large = [place for place in alone if tensors[place].numel() >= _CHUNKED]
        for places in (small, large) if self._is_cpu else (alone,):
            if places:
                yield places, self._reduce_each([tensors[place] for place in places], columns, below)

    def agreement(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        """Sum the products of the signs of two tensors of one shape; the sign of NaN is 0.

        Parameters
        ----------
        a, b : torch.Tensor

        Returns
        -------
        torch.Tensor or None
            One int64; None if the device has no operator for it.
        """
        return self._first(
            AGREEMENT,
            a.dtype,
            lambda: (_signs(a) * _signs(b)).sum(dtype=torch.int64),
            lambda: (_signs(a, torch.int32) * _signs(b, torch.int32)).sum(),
        )

    def _together(self, tensors: list[torch.Tensor]) -> torch.Tensor | None:
        key = ("together", tensors[0].dtype)
        if key in self._chosen:
            return None
        try:
            shape = tensors[0].shape
            if any(tensor.shape != shape for tensor in tensors):
                tensors = [tensor.reshape(-1) for tensor in tensors]
            return _readable(torch.stack(tensors)).reshape(len(tensors), -1)
        except Exception as error:  # devices raise any type
            if not _is_failure(error):
                self._chosen[key] = 0
            return None

    def _reduce_each(self, tensors: Sequence[torch.Tensor], columns: int, below: float) -> Numbers:
        tensors = [_readable(tensor) for tensor in tensors]
        found: dict[int, list[torch.Tensor] | None] = {}
        if len(tensors) > 1 and tensors[0].is_floating_point() and not self._goes_by_chunks(tensors):
            if columns & NORM and (norms := self._norms(tensors)) is not None:
                found[NORM] = list(norms)
            if columns & MIN and (pairs := self._pairs(tensors)) is not None:
                found[MIN], found[MAX] = ([pair[i] for pair in pairs] for i in range(2))
        rest = columns & ~sum(found)
        rows = [self._reduce(tensor, None, rest, below) for tensor in tensors] if rest else []
        for column, numbers in zip([column for column in COLUMNS if rest & column], zip(*rows)):
            found[column] = None if any(number is None for number in numbers) else list(numbers)
        return [found[column] for column in COLUMNS if columns & column]

    def _goes_by_chunks(self, tensors: Sequence[torch.Tensor]) -> bool:
        return self._is_cpu and any(tensor.numel() >= _CHUNKED for tensor in tensors)

    def _pairs(self, tensors: Sequence[torch.Tensor]) -> list[Sequence[torch.Tensor]] | None:
        key = ("pairs", tensors[0].dtype)
        if key in self._chosen:
            return None
        try:
            return [torch.aminmax(tensor) for tensor in tensors]
        except Exception as error:  # devices raise any type
            if not _is_failure(error):
                self._chosen[key] = 0
            return None

    def _norms(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor] | None:
        key = ("norms", tensors[0].dtype)
        if key in self._chosen:
            return None
        try:
            return torch._foreach_norm(tensors, 2, dtype=self.wide)
        except Exception as error:  # devices raise any type
            if not _is_failure(error):
                self._chosen[key] = 0
            return None

    def _reduce(self, tensor: torch.Tensor, dim: int | None, columns: int, below: float) -> list[torch.Tensor | None]:
        if self._is_cpu and dim is None and tensor.numel() >= _CHUNKED:
            found = _by_chunks(tensor, columns)
        else:
            found = []
            if columns & NORM:
                found.append(self._norm(tensor, dim))
            if columns & SUM:
                found.append(self._sum(tensor, dim))
            if columns & MIN:
                found += self._extremes(tensor, dim)
        if columns & ZEROS:
            found.append(self._count(ZEROS, tensor, dim, lambda: are_below(tensor, below)))
        if columns & NANS:
            ways = (lambda: tensor != tensor, lambda: tensor.isnan())  # noqa: PLR0124
            found.append(self._count(NANS, tensor, dim, *ways))
        if columns & INFS:
            found.append(self._count(INFS, tensor, dim, lambda: _are_infinite(tensor), lambda: tensor.isinf()))
        return found

    def _norm(self, tensor: torch.Tensor, dim: int | None) -> torch.Tensor | None:
        if not tensor.is_floating_point() or self._is_cpu:
            tensor = tensor.to(self.wide)

        def by_squares() -> torch.Tensor:
            wide = tensor.to(self.wide)
            return (wide * wide).sum(dim).sqrt()

        return self._first(
            NORM,
            tensor.dtype,
            lambda: torch.linalg.vector_norm(tensor, 2, dim, dtype=self.wide),
            lambda: torch.linalg.vector_norm(tensor.to(self.wide), 2, dim),
            by_squares,
        )

    def _sum(self, tensor: torch.Tensor, dim: int | None) -> torch.Tensor | None:
        return self._first(
            SUM,
            tensor.dtype,
            lambda: tensor.sum(dim, dtype=self.wide),
            lambda: tensor.to(self.wide).sum(dim),
        )

    def _extremes(self, tensor: torch.Tensor, dim: int | None) -> list[torch.Tensor | None]:
        dims = () if dim is None else (dim,)

        def by_two(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
            return tensor.amin(dims), tensor.amax(dims)

        def by_least_and_greatest(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
            if dim is None:
                return tensor.min(), tensor.max()
            return tensor.min(dim).values, tensor.max(dim).values

        def widened() -> torch.Tensor:  # exact; wider integers would be rounded
            if not tensor.is_floating_point() and torch.iinfo(tensor.dtype).bits > 24:
                raise TypeError(f"no operator computes the extremes of {tensor.dtype}")
            return tensor.to(torch.float32)

        ways = [
            lambda: torch.aminmax(tensor, dim=dim),
            lambda: by_two(tensor),
            lambda: by_least_and_greatest(tensor),
            lambda: by_two(widened()),
        ]
        # In CPU memory, aminmax along a dimension is not vectorised.
        if self._is_cpu and tensor.dtype in (torch.float32, torch.float64):
            ways[:2] = ways[1::-1]
        return list(self._first(MIN, tensor.dtype, *ways) or (None, None))

    def _count(
        self, column: int, tensor: torch.Tensor, dim: int | None, *ways: Callable[[], torch.Tensor]
    ) -> torch.Tensor | None:
        return self._first(column, tensor.dtype, *(lambda way=way: way().sum(dim, dtype=torch.int64) for way in ways))

    def _first(self, column: int, dtype: torch.dtype, *ways: Callable[[], Any]) -> Any:
        """Run the first of several ways that the device supports, and remember it. None if it supports none.

        An exception in a way that worked before means that the device fails, not that an operator is missing.
        """
        key = (_NAMES[column], dtype)
        known = self._chosen.get(key)
        trouble: Exception | None = None
        for number in range(known or 0, len(ways)):
            try:
                found = ways[number]()
            except Exception as error:  # devices raise any type
                if _is_failure(error):
                    raise
                trouble = error
            else:
                self._chosen[key] = number
                return found
        if trouble is not None:
            if known is not None:
                raise trouble
            self._report(*key, trouble)
        self._chosen[key] = len(ways)
        return None


def _has_double(sample: torch.Tensor) -> bool:
    try:
        wide = sample.detach().reshape(-1)[:1].to(torch.float64)
        (wide * wide).sum().sqrt()
    except Exception:  # devices raise any type
        return False
    return True


def _is_failure(error: Exception) -> bool:
    """Return whether the device fails or is out of memory, which does not depend on its operators."""
    return isinstance(error, _FAILURES)


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that operators accept: bool as 0 and 1, float8 as float32, which represents it exactly."""
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    return tensor.to(torch.float32) if tensor.dtype in _EIGHT_BITS else tensor


def _by_length(tensors: Sequence[torch.Tensor]) -> dict[int, list[int]]:
    lengths: dict[int, list[int]] = {}
    for place, tensor in enumerate(tensors):
        lengths.setdefault(tensor.numel(), []).append(place)
    return lengths


def _are_infinite(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor != tensor  # noqa: PLR0124
    return (tensor == math.inf) | (tensor == -math.inf)


def _signs(tensor: torch.Tensor, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    tensor = _readable(tensor)
    return (tensor > 0).to(dtype) - (tensor < 0).to(dtype)


def _by_chunks(tensor: torch.Tensor, columns: int) -> list[torch.Tensor | None]:
    """Measure norm, sum and extremes in CPU memory, chunk by chunk while each chunk is in the cache."""
    squares, sums, least, greatest = [], [], [], []
    is_whole = not tensor.is_floating_point() or tensor.element_size() < 4  # for these aminmax is the fastest
    room = torch.empty(min(_CHUNK, tensor.numel()), dtype=torch.float64, device="cpu")
    flat = tensor.reshape(-1)
    for chunk in flat.split(_CHUNK) if columns & (NORM | SUM) or not is_whole else ():
        if columns & (NORM | SUM):
            wide = room[: chunk.numel()].copy_(chunk)
            if columns & NORM:
                squares.append(wide.dot(wide))
            if columns & SUM:
                sums.append(wide.sum())
        if columns & MIN and not is_whole:
            least.append(chunk.amin())
            greatest.append(chunk.amax())
    found = [torch.stack(squares).sum().sqrt()] if columns & NORM else []
    if columns & SUM:
        found.append(torch.stack(sums).sum())
    if columns & MIN:
        found += torch.aminmax(flat) if is_whole else (torch.stack(least).amin(), torch.stack(greatest).amax())
    return found
