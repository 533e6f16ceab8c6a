"""Helpers and settings that scripts for msProbe import or replace."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["NAN_TENSOR_ON_DEVICE", "device", "get_nan_tensor", "get_param_struct"]

# `get_nan_tensor` makes its tensor on this device, and stores it here. The monitor uses neither.
device: str = "cpu"
NAN_TENSOR_ON_DEVICE: torch.Tensor | None = None


def get_nan_tensor() -> torch.Tensor:
    """Return a 0-d tensor of NaN; every call returns the same tensor."""
    global NAN_TENSOR_ON_DEVICE
    if NAN_TENSOR_ON_DEVICE is None:
        NAN_TENSOR_ON_DEVICE = torch.tensor(torch.nan, device=device)
    return NAN_TENSOR_ON_DEVICE


def get_param_struct(param: Any) -> dict[Any, str]:
    """Describe a module's input or output as module_struct.json does.

    Parameters
    ----------
    param
        A tensor, a tuple or list, or anything else.

    Returns
    -------
    dict
        "config" -> "tensor", "tuple[2]", "list[2]" or the class; "tensor", or the position in a tuple or list, ->
        "size=(2, 3), dtype=torch.float32" or the class.
    """
    if isinstance(param, torch.Tensor):
        return {"config": "tensor", "tensor": _described(param)}
    if isinstance(param, (tuple, list)):
        kind = "tuple" if isinstance(param, tuple) else "list"
        return {"config": f"{kind}[{len(param)}]", **{i: _described(value) for i, value in enumerate(param)}}
    return {"config": str(type(param))}


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"size={tuple(value.shape)}, dtype={value.dtype}"
    return str(type(value))
