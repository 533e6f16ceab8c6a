"""Values of the monitor as torch objects: tensors, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Statistics with the type of the measured tensor.
_OF_THE_TENSOR = ("min", "max", "abs_max")
_COUNTS = ("nans", "infs")
_SINGLE = ("zeros",)


def metrics_of(values: dict[str, Any], statistics: Iterable[str] = ()) -> dict[str, Any]:
    """Turn the numbers of one row into 0-d tensors.

    Parameters
    ----------
    values : dict
        Statistic -> number, `shape` -> list, `dtype` -> text; empty if the tensor was missing.
    statistics : iterable of str
        The statistics that are NaN for a missing tensor.

    Returns
    -------
    dict
        Statistic -> 0-d tensor on the CPU: `norm`, `mean` and `std` float64, `zeros` float32, `nans` and `infs` int64,
        extremes in the dtype of the measured tensor; `shape` -> torch.Size, `dtype` -> torch.dtype. NaN for a missing
        tensor, and for a shape or dtype that differs between joined calls.
    """
    import torch

    if not values:
        return {name: torch.tensor(torch.nan) for name in statistics}
    measured = getattr(torch, str(values.get("dtype", "")).partition(".")[2], torch.float32)
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "shape":
            found[name] = torch.Size(value) if isinstance(value, list) else value
        elif name == "dtype":
            found[name] = measured if isinstance(value, str) else value
        elif name in _OF_THE_TENSOR:
            found[name] = torch.tensor(value, dtype=measured)
        elif name in _COUNTS:
            found[name] = torch.tensor(value)
        else:
            found[name] = torch.tensor(value, dtype=torch.float32 if name in _SINGLE else torch.float64)
    return found


def statistics_of(tensor: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Measure a tensor now, in the caller's thread, with torch.

    Parameters
    ----------
    tensor : torch.Tensor
    names : tuple of str
        Any of norm, mean, min, max; others are skipped.

    Returns
    -------
    dict
        Statistic -> 0-d tensor on the tensor's device; NaN where torch cannot compute it.
    """
    import torch

    functions = {
        "norm": lambda x: torch.linalg.vector_norm(x.double()),
        "mean": lambda x: x.double().mean(),
        "min": torch.min,
        "max": torch.max,
    }
    found = {}
    with torch.no_grad():
        for name in names:
            if name not in functions:
                continue
            try:
                found[name] = functions[name](tensor)
            except RuntimeError:  # empty, complex
                found[name] = torch.tensor(torch.nan)
    return found
