"""The rule of the core for which numbers count as zeros, for each dtype of torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

_EIGHT_BITS = tuple(getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name))
# Bits of the mantissa, and the smallest exponent.
_FORMATS = {torch.float64: (52, -1022), torch.float32: (23, -126), torch.float16: (10, -14), torch.bfloat16: (7, -126)}


def threshold(dtype: torch.dtype, eps: float, is_exact: bool) -> float:
    """Return a number of the dtype; magnitudes below it count as zero.

    Parameters
    ----------
    dtype : torch.dtype
        Dtype of the tensor.
    eps : float
        As in the config.
    is_exact : bool
        Compare with `eps` itself; False: with `eps` converted to this dtype by torch. If that is 0, exact zeros count.

    Returns
    -------
    float
        0 if no number counts.
    """
    if eps <= 0 or math.isnan(eps):
        return 0.0
    if dtype not in _FORMATS:
        return float(math.ceil(eps)) if dtype not in _EIGHT_BITS else _rounded(eps, torch.float32, math.ceil)
    if is_exact or dtype == torch.float64:
        return _rounded(eps, dtype, math.ceil)
    single = _rounded(eps, torch.float32, round)
    return _rounded(single, dtype, round) or _smallest(dtype)


def are_below(tensor: torch.Tensor, below: float) -> torch.Tensor:
    """Return which magnitudes are below a value of `threshold`.

    Parameters
    ----------
    tensor : torch.Tensor
        A dtype other than bool and the 8-bit ones.
    below : float

    Returns
    -------
    torch.Tensor
        A tensor of bool.
    """
    if tensor.is_floating_point():
        # Some devices treat subnormal numbers as 0.
        if 0 < below <= _smallest(tensor.dtype):
            return tensor == 0
        return (tensor < below) & (tensor > -below)
    if below <= 1:
        return tensor == 0 if below > 0 else tensor != tensor  # noqa: PLR0124
    limits = torch.iinfo(tensor.dtype)
    are_low = tensor < int(below) if below <= limits.max else tensor == tensor  # noqa: PLR0124
    return are_low & (tensor > -int(below)) if -below >= limits.min else are_low


def _rounded(value: float, dtype: torch.dtype, to_integer: Callable[[float], int]) -> float:
    if value == 0 or math.isinf(value):
        return value
    mantissa_bits, least_exponent = _FORMATS[dtype]
    exponent = max(math.frexp(value)[1] - 1, least_exponent)
    # Divided in two steps: the quantum of a small float64 is too small to divide by.
    units = math.ldexp(value, mantissa_bits - exponent)
    rounded = math.ldexp(to_integer(units), exponent - mantissa_bits)
    return rounded if rounded <= torch.finfo(dtype).max else math.inf


def _smallest(dtype: torch.dtype) -> float:
    mantissa_bits, least_exponent = _FORMATS[dtype]
    return math.ldexp(1.0, least_exponent - mantissa_bits)
