"""Values of the monitor as tensors of MindSpore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_OF_THE_TENSOR = ("min", "max", "abs_max")
_COUNTS = ("nans", "infs")


def metrics_of(values: dict[str, Any], statistics: Sequence[str] = ()) -> dict[str, Any]:
    """Turn the numbers of one row into 0-d tensors.

    Parameters
    ----------
    values : dict
        Statistic -> number, `shape` -> list, `dtype` -> text; empty if the tensor was missing.
    statistics : sequence of str
        The statistics that are NaN for a missing tensor.

    Returns
    -------
    dict
        Statistic -> 0-d tensor: counts int64, extremes in the dtype of the measured tensor, others float64; `shape` ->
        tuple, `dtype` -> mindspore dtype. NaN for a missing tensor, and for a shape or dtype that differs between
        joined calls.
    """
    import mindspore
    from mindspore import Tensor

    if not values:
        return {name: Tensor(float("nan"), mindspore.float64) for name in statistics}
    measured = getattr(mindspore, str(values.get("dtype", "")).partition(".")[2], mindspore.float32)
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "shape":
            found[name] = tuple(value) if isinstance(value, list) else value
        elif name == "dtype":
            found[name] = measured if isinstance(value, str) else value
        elif name in _OF_THE_TENSOR:
            found[name] = Tensor(value, measured)
        else:
            found[name] = Tensor(value, mindspore.int64 if name in _COUNTS else mindspore.float64)
    return found


def statistics_of(tensor: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Measure a tensor now, in the caller's thread, with numpy.

    Parameters
    ----------
    tensor : mindspore.Tensor
    names : tuple of str
        Any of norm, mean, min, max; others are skipped.

    Returns
    -------
    dict
        Statistic -> 0-d tensor of float64; NaN for an empty tensor.
    """
    import mindspore
    import numpy

    values = numpy.asarray(tensor.asnumpy()).astype(numpy.float64)
    functions = {"norm": numpy.linalg.norm, "mean": numpy.mean, "min": numpy.min, "max": numpy.max}
    return {
        name: mindspore.Tensor(
            float(functions[name](values.ravel())) if values.size else float("nan"), mindspore.float64
        )
        for name in names
        if name in functions
    }
