"""Combined transfer of small tensors from devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def numbers_of(tensors: Sequence[torch.Tensor]) -> list[list[Any]]:
    """Fetch the elements of each tensor, with one wait for each device and dtype.

    Parameters
    ----------
    tensors : sequence of torch.Tensor
        Tensors of any shapes.

    Returns
    -------
    list of list
        For each tensor, its elements in order, as Python numbers.
    """
    import torch

    places: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        places.setdefault((tensor.device, tensor.dtype), []).append(i)
    found: list[list[Any]] = [[] for _ in tensors]
    for own in places.values():
        flat = iter(torch.cat([tensors[i].reshape(-1) for i in own]).tolist())
        for i in own:
            found[i] = [next(flat) for _ in range(tensors[i].numel())]
    return found
