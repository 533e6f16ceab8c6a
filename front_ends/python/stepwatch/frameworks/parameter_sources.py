"""Mappings from the model's parameters to tensors of a framework, for the native monitor."""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MOMENTS = ("exp_avg", "exp_avg_sq")


class Lookup:
    """A mapping that looks up the value of a parameter on access.

    Parameters
    ----------
    find : callable
        Given a parameter of the model, returns a tensor or a state, or None.
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find = find

    def get(self, parameter: Any, default: Any = None) -> Any:
        """Return the value of a parameter."""
        found = self._find(parameter)
        return default if found is None else found


@functools.cache
def nothing() -> Any:
    """Return this rank's part of a parameter that only other ranks hold: a tensor without elements."""
    import torch

    return torch.empty(0)


def no_moments() -> dict[str, Any]:
    """Return this rank's moments of such a parameter."""
    return dict.fromkeys(MOMENTS, nothing())


def group_of(parameters: Sequence[Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a group of an optimizer with the model's parameters; its other entries stay live."""
    return ChainMap({"params": parameters}, inner)  # type: ignore[arg-type]  # only read


def part_of(tensor: Any, start: int, stop: int) -> Any:
    """Return elements of a tensor, in memory order."""
    return tensor.detach().view(-1)[start:stop]
