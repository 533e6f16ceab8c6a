"""Table of adapters by class, the only place that names classes of frameworks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepwatch.frameworks.deepspeed_leader import leader_of
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.frameworks.reduction import Reduction


class Row(NamedTuple):
    """The class of an object, and the adapter for it.

    Attributes
    ----------
    package : str
        The module of the class, or a parent of it.
    name : str
        Name of the class; "" for every class there.
    adapter : str
        "module:class" below stepwatch.frameworks.
    """

    package: str
    name: str
    adapter: str


# The first row that matches a class, or the nearest of its bases, applies.
OPTIMIZERS = (
    Row("accelerate", "AcceleratedOptimizer", "optimizer_proxies:OptimizerProxy"),
    Row("accelerate", "DeepSpeedOptimizerWrapper", "optimizer_proxies:OptimizerProxy"),
    Row("lightning", "LightningOptimizer", "optimizer_proxies:OptimizerProxy"),
    Row("pytorch_lightning", "LightningOptimizer", "optimizer_proxies:OptimizerProxy"),
    Row("torchtitan", "OptimizersContainer", "optimizer_containers:OptimizerContainer"),
    Row("torch.distributed.optim", "ZeroRedundancyOptimizer", "optimizer_containers:ZeroRedundancy"),
    Row("megatron.core", "MegatronOptimizer", "megatron_optimizer:MegatronOptimizer"),
    Row("deepspeed", "DeepSpeedEngine", "optimizer_proxies:OptimizerProxy"),
    Row("deepspeed", "DeepSpeedZeroOptimizer", "deepspeed_optimizer:Stage12"),
    Row("deepspeed", "DeepSpeedZeroOptimizer_Stage3", "deepspeed_stage3:Stage3"),
    Row("deepspeed", "BF16_Optimizer", "deepspeed_optimizer:Bf16"),
    Row("deepspeed", "FP16_UnfusedOptimizer", "deepspeed_optimizer:Unfused"),
    Row("deepspeed", "FP16_Optimizer", "deepspeed_optimizer:Fused"),
    Row("torchao", "", "torchao_optimizer:QuantisedMoments"),
    Row("torch.optim", "Optimizer", "torch_optimizer:TorchOptimizer"),
)

# Classes of modules whose gradients are reduced before parameter hooks see them.
REDUCTIONS = (
    Row("torch.distributed", "FullyShardedDataParallel", "fsdp1:Fsdp1Reduction"),
    Row("torch.distributed", "FSDPModule", "fsdp2:Fsdp2Reduction"),
    Row("megatron.core", "DistributedDataParallel", "megatron_reduction:MegatronReduction"),
)

# Modules whose parameters have reduced gradients after the backward pass, with any optimizer.
_REDUCERS = (
    Row("torch.nn.parallel", "DistributedDataParallel", ""),
    Row("torch.distributed", "FullyShardedDataParallel", ""),
    Row("torch.distributed", "FSDPModule", ""),
)


def reduces_in_backward(chunks: Sequence[Any]) -> bool:
    """Return whether the backward pass reduces the gradients of each chunk of a model."""
    return bool(chunks) and all(
        any(_row_for(_REDUCERS, type(module)) is not None for module in chunk.modules()) for chunk in chunks
    )


def adapter_of(optimizer: Any) -> OptimizerAdapter:
    """Choose the adapter for the optimizer that the user has passed.

    Parameters
    ----------
    optimizer : object
        A wrapper, or the optimizer inside one.

    Returns
    -------
    OptimizerAdapter
        The adapter of the object that performs the real steps.
    """
    leader = leader_of(optimizer)
    optimizer = optimizer if leader is None else leader
    for _ in range(8):
        adapter = _made(OPTIMIZERS, optimizer, OptimizerAdapter)(optimizer)
        inner = adapter.unwrapped
        if inner is None or inner is optimizer:
            break
        optimizer = inner
    return adapter


def reduction_of(module: Any) -> type[Reduction] | None:
    """Return the adapter of a module whose gradients are reduced out of reach of parameter hooks."""
    return _made(REDUCTIONS, module, None)


def reduction_of_parameter(parameter: Any) -> type[Reduction] | None:
    """Return the same for a parameter flattened by FSDP1, whose module may not have been passed."""
    if not getattr(parameter, "_fsdp_flattened", False):
        return None
    return importlib.import_module("stepwatch.frameworks.fsdp1").Fsdp1Reduction  # type: ignore[no-any-return]


def composed_modules() -> list[Any]:
    """Return the modules of the job that torch has changed in place, such as those of `fully_shard`.

    The user may have passed a module inside one of them.
    """
    state = sys.modules.get("torch.distributed._composable_state")
    return list(getattr(state, "_module_state_mapping", ()))


def _made(rows: Sequence[Row], value: Any, otherwise: Any) -> Any:
    row = _row_for(rows, type(value))
    if row is None:
        return otherwise
    file, _, name = row.adapter.partition(":")
    return getattr(importlib.import_module(f"stepwatch.frameworks.{file}"), name)


def _row_for(rows: Sequence[Row], kind: type) -> Row | None:
    for base in kind.__mro__:
        for row in rows:
            of_package = base.__module__ == row.package or base.__module__.startswith(row.package + ".")
            if of_package and row.name in ("", base.__name__):
                return row
    return None
