"""Trainings with DeepSpeed's engine, and what it shows its users of its tensors: the oracle of its tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from job import Job
from nets import Net, loss_of

OVERFLOWS = 4  # the loss of this step, where asked for


def as_on_a_cpu(fp16: bool = False) -> None:
    """Let DeepSpeed train on a CPU without compiling anything, and if asked in a type that it knows of GPUs alone."""
    import deepspeed

    # It would be compiled first, and sums tensors of two ranks on one host.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if fp16:  # the CPU's product of matrices in fp16 is slow, not wrong
        deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True


def engine_of(
    job: Job,
    net: torch.nn.Module,
    stage: int,
    zero: Any = None,
    decays: bool = False,
    optimizer: Any = None,
    **config: Any,
) -> Any:
    """Return a training engine, and its optimizer, which leads the one given."""
    import deepspeed

    as_on_a_cpu("fp16" in config)
    groups: Any = net.parameters()
    if decays:  # as trainers of transformers do it
        groups = [
            {"params": [each for each in net.parameters() if each.ndim > 1], "weight_decay": 0.1},
            {"params": [each for each in net.parameters() if each.ndim == 1], "weight_decay": 0.0},
        ]
    engine, optimizer, _, _ = deepspeed.initialize(
        model=net,
        optimizer=optimizer or torch.optim.AdamW(groups, lr=0.01),
        config={
            "train_micro_batch_size_per_gpu": 6,
            "gradient_accumulation_steps": job.micro_batches,
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, **(zero or {})},
            "gradient_clipping": 0.0,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            **config,
        },
    )
    return engine, optimizer


def deepspeed(
    job: Job, stage: int, bf16: bool = False, hands_in: str = "optimizer", overflows: bool = False, **config: Any
) -> None:
    """Train with an engine, and hand in the engine, the optimizer that it returned, or the one inside of that."""
    if bf16:
        config["bf16"] = {"enabled": True}
    engine, optimizer = engine_of(job, Net(), stage, **config)
    model = engine if hands_in == "engine" else engine.module
    if job.oracle is not None:
        job.oracle.watch_modules([model])
        # ZeRO 1 of fp16 adds up in fp16, where torch does as well.
        job.oracle.watch_gradients(model.named_parameters(), sums=stage > (1 if "fp16" in config else 0))
    job.watch(
        model, {"engine": engine, "optimizer": optimizer, "inner": getattr(optimizer, "optimizer", None)}[hands_in]
    )
    dtype = next(model.parameters()).dtype
    for step in job.steps():
        for micro in job.micro_steps():
            loss = loss_of(engine(job.batch(micro, 6, 5).to(dtype)))
            engine.backward(loss * (float("inf") if overflows and step == OVERFLOWS else 1))
            job.loss(loss)
            is_last = micro == job.micro_batches - 1
            if job.oracle is not None and is_last:
                record_before(job, model, optimizer, stage)
            engine.step()
            if job.oracle is not None and is_last and not getattr(optimizer, "overflow", False):
                record_weights(job, "param_updated", model, stage)
    job.weights(*weights_of(model, stage))
    engine.destroy()


def coalescing(job: Job, stage: int) -> None:
    """Train with an engine that reduces once what several backward passes have left."""
    engine, optimizer = engine_of(job, Net(), stage, gradient_accumulation_steps=1)
    model = engine.module
    if job.oracle is not None:
        job.oracle.watch_modules([model])
        job.oracle.watch_gradients(model.named_parameters(), sums=True)
    job.watch(model, engine)
    for _ in job.steps():
        with engine.coalesce_grad_reduction():
            for micro in job.micro_steps():
                loss = loss_of(engine(job.batch(micro, 6, 5)))
                engine.backward(loss)
                job.loss(loss)
        if job.oracle is not None:
            record_before(job, model, optimizer, stage)
        engine.step()
        if job.oracle is not None:
            record_weights(job, "param_updated", model, stage)
    job.weights(*weights_of(model, stage))
    engine.destroy()


def weights_of(model: torch.nn.Module, stage: int) -> list[torch.Tensor]:
    from deepspeed.utils import safe_get_full_fp32_param

    return [safe_get_full_fp32_param(p) if stage == 3 else p for _, p in trained(model)]


def trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]


def record_weights(job: Job, kind: str, model: torch.nn.Module, stage: int) -> None:
    """Record weights: in stage 3, where ranks hold a part of each, the whole or the part."""
    assert job.oracle is not None
    for name, parameter in trained(model):
        if stage == 3:
            whole = whole_weight(parameter)
            job.oracle.record(kind, name, [whole, part_of(whole, parameter, stage)])
        else:
            job.oracle.record(kind, name, parameter)


def whole_weight(parameter: torch.Tensor) -> torch.Tensor:
    """Return a weight that ranks share, of the type in which it takes part in the network."""
    from deepspeed.utils import safe_get_full_fp32_param

    whole = safe_get_full_fp32_param(parameter)
    return whole.to(parameter.dtype)


def record_before(job: Job, model: torch.nn.Module, optimizer: Any, stage: int) -> None:
    """Record what the step finds, by what DeepSpeed gives its users: the whole of a tensor, or this rank's part."""
    from deepspeed.utils import safe_get_full_grad

    assert job.oracle is not None
    record_weights(job, "param_origin", model, stage)
    for name, parameter in trained(model):
        whole = parameter.grad if stage == 0 else safe_get_full_grad(parameter)
        # BF16_Optimizer reduces the whole of it on all ranks.
        part = None if hasattr(parameter, "_hp_grad") else part_of(whole, parameter, stage)
        job.oracle.record("grad_reduced", name, [whole, part])
        for kind in ("exp_avg", "exp_avg_sq"):
            whole = moment_of(optimizer, parameter, kind, stage)
            if whole is not None:
                job.oracle.record(kind, name, [whole, part_of(whole, parameter, stage)])


def moment_of(optimizer: Any, parameter: torch.Tensor, kind: str, stage: int) -> torch.Tensor | None:
    """Return the whole of a moment; None before the first update."""
    from deepspeed.utils import safe_get_full_optimizer_state

    states = optimizer.state if stage == 0 and not hasattr(optimizer, "fp16_groups") else optimizer.optimizer.state
    if not any(kind in state for state in states.values()):
        return None
    if stage == 3:
        return safe_get_full_optimizer_state(parameter, kind)
    if stage > 0:
        return gathered_moment(optimizer, parameter, kind)
    if hasattr(optimizer, "fp32_groups_flat"):  # with one flat copy of a group
        (own,), (flat,) = optimizer.fp16_groups, optimizer.fp32_groups_flat
        parts = states[flat][kind].split([each.numel() for each in own])
        (part,) = [part for each, part in zip(own, parts) if each is parameter]
        return part
    if hasattr(optimizer, "fp16_groups"):  # with a copy in fp32 of each parameter
        pairs = zip(optimizer.fp16_groups, optimizer.fp32_groups)
        copies = {id(own): copy for low, high in pairs for own, copy in zip(low, high)}
        return states[copies[id(parameter)]][kind]
    return states[parameter][kind]


def gathered_moment(optimizer: Any, parameter: torch.Tensor, kind: str) -> torch.Tensor:
    """Return what `safe_get_full_optimizer_state` should: it knows the first group of an optimizer alone."""
    whole = torch.zeros(parameter.numel())
    mapping = parameter._hp_mapping
    if mapping is not None:
        names = ("single_partition_of_fp32_groups", "fp32_groups_flat_partition")
        (flats,) = [getattr(optimizer, name) for name in names if hasattr(optimizer, name)]
        own, there = mapping.lp_fragment_address, mapping.hp_fragment_address
        moment = optimizer.optimizer.state[flats[mapping.param_group_index]][kind]
        whole[own.start : own.start + own.numel] = moment[there.start : there.start + there.numel]
    torch.distributed.all_reduce(whole, group=parameter._dp_group)
    return whole.view(parameter.shape)


def part_of(whole: torch.Tensor | None, parameter: torch.Tensor, stage: int) -> torch.Tensor | None:
    """Return the part of a tensor that this rank keeps."""
    if whole is None or stage == 0:
        return None
    if stage == 3:
        share = parameter.ds_tensor.ds_numel
        return whole.reshape(-1)[share * torch.distributed.get_rank() :][:share]
    if parameter._hp_mapping is None:
        return whole.new_empty(0)
    address = parameter._hp_mapping.lp_fragment_address
    return whole.view(-1)[address.start : address.start + address.numel]


def batches(job: Job, rank: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the data of one micro-batch after the other of the step that runs, as a pipeline takes them."""
    for micro in job.micro_steps():
        yield job.batch(micro, 6, 5, alike=True) * (rank + 1), torch.ones(6, 3)
