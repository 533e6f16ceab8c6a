"""A stand-in with the shape of MindSpore in PyNative mode, for tests where it is not installed.

It has the names, hooks and orders of calls that Stepwatch relies on, on numpy, with the operators of the tests.
"""

from __future__ import annotations

import numpy

from . import common, nn, ops
from ._tensor import Parameter, Tensor, bfloat16, float16, float32, float64, int64, value_and_grad

__all__ = [
    "Parameter",
    "Tensor",
    "bfloat16",
    "common",
    "float16",
    "float32",
    "float64",
    "int64",
    "nn",
    "ops",
    "value_and_grad",
]
GRAPH_MODE, PYNATIVE_MODE = 0, 1
_context = {"mode": PYNATIVE_MODE}


def get_context(name: str) -> int:
    """Return a setting."""
    return _context[name]


def set_context(**settings: int) -> None:
    """Change settings."""
    _context.update(settings)


def set_seed(seed: int) -> None:
    """Seed the weights of new cells."""
    numpy.random.seed(seed)
