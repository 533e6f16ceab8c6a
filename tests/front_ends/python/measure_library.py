"""The kernels of the build tree, called from Python on torch's tensors."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_void_p
from pathlib import Path

import torch
from build_tree import BUILD

PATH = Path(
    os.environ.get(
        "STEPWATCH_MEASURE_LIBRARY",
        BUILD / "lib/libstepwatch_measure.so",
    )
)


class Measured(ctypes.Structure):
    """The fields of stepwatch::Statistics."""

    _fields_ = [
        ("numel", c_int64),
        *[(name, c_double) for name in ("norm", "mean", "min", "max", "abs_max", "zeros", "std")],
        *[(name, c_int64) for name in ("nans", "infs", "integral", "min_int", "max_int")],
    ]


class MeasureLibrary:
    """The shared library, loaded."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(PATH))
        extents = POINTER(c_int64)
        self._measure = library.stepwatch_measure
        self._measure.argtypes = [c_void_p, c_char_p, c_int, extents, extents, c_double, c_int, POINTER(Measured)]
        self._agree = library.stepwatch_sign_agreement
        self._batch_create = library.stepwatch_batch_create
        self._batch_create.restype = c_void_p
        self._batch_add = library.stepwatch_batch_add
        self._batch_add.argtypes = [c_void_p, c_void_p, c_char_p, c_int, extents, extents]
        self._batch_measure = library.stepwatch_batch_measure
        self._batch_measure.argtypes = [c_void_p]
        self._batch_get = library.stepwatch_batch_get
        self._batch_get.argtypes = [c_void_p, c_int64, POINTER(Measured)]
        self._batch_delete = library.stepwatch_batch_delete
        self._batch_delete.argtypes = [c_void_p]
        operand = [c_void_p, c_char_p, extents]
        self._agree.argtypes = [*operand, *operand, c_int, extents, POINTER(c_double)]

    def measure(
        self, tensor: torch.Tensor, eps: float = 1e-8, *, exact: bool = False, data: int | None = None
    ) -> Measured:
        """Measure a tensor, or memory at the address `data` that is laid out as the tensor is."""
        found = Measured()
        address = tensor.data_ptr() if data is None else data
        code = self._measure(
            address,
            str(tensor.dtype).encode(),
            tensor.dim(),
            _extents(tensor.shape),
            _extents(tensor.stride()),
            eps,
            exact,
            found,
        )
        assert code == 0, f"status code {code}"
        return found

    def batch(self, tensors: list[torch.Tensor]) -> Batch:
        """Return the tensors as a list that is measured in one call."""
        return Batch(self, tensors)

    def sign_agreement(self, a: torch.Tensor, b: torch.Tensor) -> float:
        """Return the sign agreement of two tensors of one shape."""
        agreement = c_double()
        code = self._agree(*_operand(a), *_operand(b), a.dim(), _extents(a.shape), agreement)
        assert code == 0, f"status code {code}"
        return agreement.value


class Batch:
    """Tensors, kept alive, that the library measures in one call.

    Parameters
    ----------
    library : MeasureLibrary
        Where the calls go.
    tensors : list of torch.Tensor
        CPU tensors of at most 8 dimensions.
    """

    def __init__(self, library: MeasureLibrary, tensors: list[torch.Tensor]) -> None:
        self._library = library
        self._tensors = tensors
        self._handle = library._batch_create()
        for tensor in tensors:
            shape, strides = _extents(tensor.shape), _extents(tensor.stride())
            library._batch_add(
                self._handle, tensor.data_ptr(), str(tensor.dtype).encode(), tensor.dim(), shape, strides
            )

    def __del__(self) -> None:
        self._library._batch_delete(self._handle)

    def measure(self) -> None:
        """Measure all of them, on this thread."""
        self._library._batch_measure(self._handle)

    def __getitem__(self, i: int) -> Measured:
        """Return what was measured of tensor `i`."""
        found = Measured()
        code = self._library._batch_get(self._handle, i, found)
        assert code == 0, f"status code {code}"
        return found


def _extents(values: tuple[int, ...]) -> ctypes.Array:
    return (c_int64 * max(len(values), 1))(*values)


def _operand(tensor: torch.Tensor) -> tuple[int, bytes, ctypes.Array]:
    return tensor.data_ptr(), str(tensor.dtype).encode(), _extents(tensor.stride())
