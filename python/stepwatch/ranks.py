"""Which process of the job this is."""

from __future__ import annotations

import os
from typing import Any


def rank_and_world_size() -> tuple[int, int]:
    """Tell rank and world size, from torch.distributed if it is initialised, otherwise from the environment.

    Returns
    -------
    tuple of int
        (0, 1) for a job of one process.
    """
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return _from_environment("RANK", 0), _from_environment("WORLD_SIZE", 1)


def _from_environment(name: str, default: int) -> int:
    text_untrusted = os.environ.get(name, "")
    return int(text_untrusted) if text_untrusted.isdecimal() else default


def writes_reduced_gradient(parameter: Any, tp_group: Any, dp_group: Any) -> bool:
    """Tell whether this rank writes the row of a parameter's reduced gradient, which is the same on several ranks.

    Parameters
    ----------
    parameter : torch.nn.Parameter
        With the attribute `tensor_model_parallel` if each rank of `tp_group` holds another part of it.
    tp_group, dp_group : torch.distributed.ProcessGroup or None
        The tensor-parallel and the data-parallel group; None: not used.

    Returns
    -------
    bool
    """
    import torch

    if dp_group is not None and torch.distributed.get_rank(group=dp_group) != 0:
        return False
    if tp_group is None or getattr(parameter, "tensor_model_parallel", False):
        return True
    return torch.distributed.get_rank(group=tp_group) == 0
