"""The rank of this process and its groups."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any


def rank_and_world_size() -> tuple[int, int]:
    """Return rank and world size, from torch.distributed if it is initialised, otherwise from the environment.

    Returns
    -------
    tuple of int
        (0, 1) for a job of one process.
    """
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        try:
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        except ValueError:  # initialised without a default group
            pass
    return _from_environment("RANK", 0), _from_environment("WORLD_SIZE", 1)


def _from_environment(name: str, default: int) -> int:
    text_untrusted = os.environ.get(name, "")
    return int(text_untrusted) if text_untrusted.isdecimal() else default


def writes_reduced_gradient(
    parameter: Any, tp_group: Any, dp_group: Any, holders: Container[int] | None = None
) -> bool:
    """Return whether this rank writes the row of a reduced gradient that is the same on several ranks.

    Parameters
    ----------
    parameter : torch.nn.Parameter
        It has the attribute `tensor_model_parallel` if each rank of `tp_group` holds a different part of it; a DTensor
        contains the information which ranks have the same part.
    tp_group, dp_group : torch.distributed.ProcessGroup or None
        The tensor-parallel and the data-parallel group; None: not used.
    holders : container of int, optional
        The ranks of the job with the same part as this one; other ranks of `dp_group` have different parts.

    Returns
    -------
    bool
    """
    if not all(placement.is_replicate() for placement in getattr(parameter, "placements", ())):
        return all(group is None or _is_first_of_its_shard(parameter, group) for group in (tp_group, dp_group))
    if dp_group is not None and _is_copy(dp_group, holders):
        return False
    return tp_group is None or is_not_tensor_parallel_duplicate(parameter, tp_group)


def _is_copy(dp_group: Any, holders: Container[int] | None) -> bool:
    import torch

    if holders is None:
        return is_data_parallel_duplicate(dp_group)
    ranks = torch.distributed.get_process_group_ranks(dp_group)
    own_rank = torch.distributed.get_rank()
    return own_rank != next((rank for rank in ranks if rank in holders), own_rank)


def _is_first_of_its_shard(parameter: Any, group: Any) -> bool:
    """Return whether this rank is the first of a group with its part of a DTensor."""
    import torch

    mesh = parameter.device_mesh.mesh
    own_rank = torch.distributed.get_rank()
    sharded = [dim for dim, placement in enumerate(parameter.placements) if not placement.is_replicate()]
    coordinates = {int(mesh[tuple(at)]): [int(at[dim]) for dim in sharded] for at in (mesh >= 0).nonzero()}
    own = coordinates.get(own_rank)
    # A rank outside the mesh has a copy of the model, in its own mesh.
    return own_rank == next(
        rank for rank in torch.distributed.get_process_group_ranks(group) if coordinates.get(rank, own) == own
    )


def is_not_tensor_parallel_duplicate(param: Any, tp_group: Any) -> bool:
    """Return whether a parameter differs on each rank of the group, or this is the group's first rank."""
    import torch

    return bool(getattr(param, "tensor_model_parallel", False)) or torch.distributed.get_rank(group=tp_group) == 0


def is_data_parallel_duplicate(dp_group: Any) -> bool:
    """Return whether another rank, the first of the group, holds the same data."""
    import torch

    return torch.distributed.get_rank(group=dp_group) != 0


def stage_and_mates(process_group: Any) -> tuple[int, list[int]]:
    """Return the position of this rank in a pipeline group, and the ranks that share its alarms.

    Parameters
    ----------
    process_group : torch.distributed.ProcessGroup or None
        Any other object counts as None.

    Returns
    -------
    tuple of int and list of int
        The ranks of the group; without a group 0 and all ranks of the job.
    """
    import torch

    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        if isinstance(process_group, distributed.ProcessGroup):
            return distributed.get_rank(group=process_group), distributed.get_process_group_ranks(process_group)
    return 0, list(range(rank_and_world_size()[1]))
