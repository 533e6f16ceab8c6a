"""Search for DeepSpeed's optimizer around a user's optimizer, which then contains only copies of parts."""

from __future__ import annotations

import gc
import sys
from typing import Any

_CLASSES = {
    "DeepSpeedZeroOptimizer",
    "DeepSpeedZeroOptimizer_Stage3",
    "BF16_Optimizer",
    "FP16_UnfusedOptimizer",
    "FP16_Optimizer",
}


def leader_of(optimizer: Any) -> Any:
    """Find the optimizer of DeepSpeed that wraps an optimizer.

    Parameters
    ----------
    optimizer : object
        A torch optimizer or any other object.

    Returns
    -------
    object
        The optimizer; None if no optimizer of DeepSpeed wraps it.
    """
    if "deepspeed" not in sys.modules or not _holds_copies(optimizer):
        return None
    # The inner optimizer has no reference to its wrapper. A walk over all objects takes about 0.1 s, once.
    kinds: dict[type, bool] = {}
    for each in gc.get_objects():
        kind = type(each)
        if kind not in kinds:
            kinds[kind] = _is_leader(kind)
        if kinds[kind] and getattr(each, "optimizer", None) is optimizer:
            return each
    return None


def _holds_copies(optimizer: Any) -> bool:
    """Return whether an optimizer updates no parameter of a model."""
    import torch

    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list) or not groups:
        return False
    return not any(isinstance(each, torch.nn.Parameter) for group in groups for each in group.get("params", ()))


def _is_leader(kind: type) -> bool:
    return any(base.__name__ in _CLASSES and base.__module__.startswith("deepspeed.") for base in kind.__mro__)
