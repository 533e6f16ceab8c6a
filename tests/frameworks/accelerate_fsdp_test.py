"""FSDP through accelerate, which supports it on devices alone: here the CPU passes for one."""

from __future__ import annotations

import copy
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of
from oracle import Replica, clean


def accelerated(job: Job, version: int, hands_in_prepared: bool, **options: Any) -> None:
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=job.micro_batches)
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=version,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["Block"],
        cpu_ram_efficient_loading=False,
        **options,
    )
    shard_on_cpu(accelerator, plugin)
    model: Any = Net()
    plain = copy.deepcopy(model)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    skip = ["CheckpointWrapper", "FSDPCheckpointWrapper"]
    job.watch_plainly(model, optimizer.optimizer, gradients=False, skip=skip)
    replica = Replica(job.oracle, plain) if job.oracle is not None else None
    job.watch(model, optimizer if hands_in_prepared else optimizer.optimizer)
    for _ in job.steps():
        if replica is not None:
            replica.take(whole(model))
        for micro in job.micro_steps():
            x = job.batch(micro, 6, 5)
            with accelerator.accumulate(model):
                loss = loss_of(model(x))
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            job.loss(loss)
            if replica is not None:
                (loss_of(replica.model(x)) / job.micro_batches).backward()
    job.weights(*model.parameters())


def shard_on_cpu(accelerator: Any, plugin: Any) -> None:
    """Let accelerate shard as a plugin says, as if the CPU were a device."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    # Each object of these classes takes its state from here.
    PartialState._shared_state.update(distributed_type=DistributedType.FSDP, device=torch.device("cpu"))
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.device = torch.device("cpu")
    accelerator.state.fsdp_plugin = plugin


def whole(model: Any) -> dict[str, Any]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    if not isinstance(model, FullyShardedDataParallel):
        return {clean(name): parameter.full_tensor().detach() for name, parameter in model.named_parameters()}
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        return {clean(name): parameter.detach().clone() for name, parameter in model.named_parameters()}


CASES = [
    Case("accelerate-fsdp1", lambda job: accelerated(job, 1, True, use_orig_params=True), micro_batches=2),
    Case("accelerate-fsdp2", lambda job: accelerated(job, 2, True), micro_batches=2),
    Case("accelerate-fsdp2-checkpointing", lambda job: accelerated(job, 2, False, activation_checkpointing=True)),
]


class TestAccelerateFsdp(CaseTests):
    cases = CASES
