"""Operators."""

from __future__ import annotations

import numpy

from ._tensor import Tensor, made


def matmul_transposed(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right.T."""
    return made(left._array @ right._array.T, (left, lambda g: g @ right._array), (right, lambda g: g.T @ left._array))


def tanh(tensor: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    result = numpy.tanh(tensor._array)
    return made(result, (tensor, lambda g: g * (1 - result * result)))
