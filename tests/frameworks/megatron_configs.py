"""How Megatron-core reduces gradients and updates weights in the tests."""

from __future__ import annotations

from typing import Any

import torch


def ddp_config(distributed: bool, overlap: bool) -> Any:
    """Return the config of Megatron's DistributedDataParallel.

    Parameters
    ----------
    distributed : bool
        With a DistributedOptimizer.
    overlap : bool
        Whether gradients are reduced, and parameters gathered, while a pass goes on.
    """
    from megatron.core.distributed import DistributedDataParallelConfig

    return DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        use_distributed_optimizer=distributed,
        overlap_grad_reduce=overlap,
        overlap_param_gather=overlap and distributed,
        bucket_size=2000,
    )


def optimizer_config(dtype: torch.dtype, loss_scale: float, distributed: bool, overlap: bool) -> Any:
    """Return the config of Megatron's optimizer for weights of a dtype; the loss scale is that of fp16."""
    from megatron.core.optimizer import OptimizerConfig

    return OptimizerConfig(
        optimizer="adam",
        lr=0.01,
        bf16=dtype is torch.bfloat16,
        fp16=dtype is torch.float16,
        initial_loss_scale=loss_scale,
        params_dtype=dtype,
        use_distributed_optimizer=distributed,
        overlap_param_gather=overlap and distributed,
        clip_grad=1.0,
    )
