"""The rank of this process and its groups in a job of MindSpore."""

from __future__ import annotations

import os
from typing import Any

_RANK = ("RANK_ID", "MS_NODE_ID", "RANK")
_WORLD = ("RANK_SIZE", "MS_WORKER_NUM", "WORLD_SIZE")


def rank_and_world_size() -> tuple[int, int]:
    """Return rank and world size, from MindSpore's communication if it is initialised, otherwise from the environment.

    Returns
    -------
    tuple of int
        (0, 1) for a job of one process.
    """
    communication = _communication()
    if communication is not None:
        return communication.get_rank(), communication.get_group_size()
    return _from_environment(_RANK, 0), _from_environment(_WORLD, 1)


def _communication() -> Any:
    """Return MindSpore's module of communication, or None if it is not initialised."""
    from mindspore import communication

    try:
        communication.get_rank()
    except (RuntimeError, ValueError, TypeError):
        return None
    return communication


def _from_environment(names: tuple[str, ...], default: int) -> int:
    for name in names:
        text_untrusted = os.environ.get(name, "")
        if text_untrusted.isdecimal():
            return int(text_untrusted)
    return default


def stage_and_mates(process_group: Any) -> tuple[int, list[int]]:
    """Return the position of this rank in a pipeline group, and the ranks that share its alarms.

    Parameters
    ----------
    process_group : str or None
        Name of a group; any other object counts as None.

    Returns
    -------
    tuple of int and list of int
        The ranks of the group; without a group 0 and all ranks of the job.
    """
    communication = _communication() if isinstance(process_group, str) else None
    if communication is None:
        return 0, list(range(rank_and_world_size()[1]))
    size = communication.get_group_size(process_group)
    mates = [communication.get_world_rank_from_group_rank(process_group, rank) for rank in range(size)]
    return communication.get_rank(process_group), mates


def writes_reduced_gradient(parameter: Any, tp_group: Any, dp_group: Any) -> bool:
    """Return whether this rank writes the row of a reduced gradient that is the same on several ranks.

    Parameters
    ----------
    parameter : mindspore.Parameter
        It has the attribute `tensor_model_parallel` if each rank of `tp_group` holds a different part of it.
    tp_group, dp_group : str or None
        Names of the tensor-parallel and the data-parallel group; None: not used.
    """
    communication = _communication()
    if communication is None:
        return True
    if dp_group is not None and communication.get_rank(dp_group) != 0:
        return False
    is_part = bool(getattr(parameter, "tensor_model_parallel", False))
    return tp_group is None or is_part or communication.get_rank(tp_group) == 0
