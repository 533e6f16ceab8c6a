"""Where a framework keeps tensors of the model's parameters, as the mappings that the native monitor asks."""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MOMENTS = ("exp_avg", "exp_avg_sq")


class Lookup:
    """A mapping that finds what belongs to a parameter when it is asked.

    Parameters
    ----------
    find : callable
        Given a parameter of the model, returns a tensor or a state, or None.
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find = find

    def get(self, parameter: Any, default: Any = None) -> Any:
        """Return what belongs to a parameter."""
        found = self._find(parameter)
        return default if found is None else found


@functools.cache
def nothing() -> Any:
    """Return the part that this rank has of a parameter which belongs to others: a tensor without elements."""
    import torch

    return torch.empty(0)


def no_moments() -> dict[str, Any]:
    """Return the moments that this rank has of such a parameter."""
    return dict.fromkeys(MOMENTS, nothing())


def group_of(parameters: Sequence[Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a group of an optimizer as one of parameters of the model, with whatever else it holds at any time."""
    return ChainMap({"params": parameters}, inner)  # type: ignore[arg-type]  # it is read only


def part_of(tensor: Any, start: int, stop: int) -> Any:
    """Return elements of a tensor, in the order in which they are in memory."""
    return tensor.detach().view(-1)[start:stop]
