"""DeepSpeed's engine with ZeRO 0 to 3, in fp32 and bf16."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of


def deepspeed(
    job: Job, stage: int, bf16: bool = False, hands_in: str = "optimizer", zero: Any = None, **config: Any
) -> None:
    import deepspeed

    # It would be compiled first, and sums tensors of two ranks on one host.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    engine, optimizer, _, _ = deepspeed.initialize(
        model=(net := Net()),
        optimizer=torch.optim.AdamW(net.parameters(), lr=0.01),
        config={
            "train_micro_batch_size_per_gpu": 6,
            "gradient_accumulation_steps": job.micro_batches,
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, **(zero or {})},
            "gradient_clipping": 0.0,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "bf16": {"enabled": bf16},
            **config,
        },
    )
    model = engine if hands_in == "engine" else engine.module
    if job.oracle is not None:
        job.oracle.watch_modules([model])
        job.oracle.watch_gradients(model.named_parameters(), sums=stage > 0)
    job.watch(model, engine if hands_in == "engine" else optimizer)
    for _ in job.steps():
        for micro in job.micro_steps():
            x = job.batch(micro, 6, 5)
            loss = loss_of(engine(x.bfloat16() if bf16 else x))
            engine.backward(loss)
            job.loss(loss)
            is_last = micro == job.micro_batches - 1
            if job.oracle is not None and is_last:
                record_before(job, model, optimizer, stage)
            engine.step()
            if job.oracle is not None and is_last:
                record_weights(job, "param_updated", model, stage)
    job.weights(*weights_of(model, stage))
    engine.destroy()


def accelerated(job: Job, stage: int) -> None:
    import deepspeed
    from accelerate import Accelerator, DeepSpeedPlugin
    from accelerate.state import AcceleratorState, GradientState

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", rank=job.rank, world_size=job.ranks)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    config = {
        "train_micro_batch_size_per_gpu": 6,
        "gradient_accumulation_steps": job.micro_batches,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
    }
    accelerator = Accelerator(
        gradient_accumulation_steps=job.micro_batches,
        deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config),
    )
    net = Net()
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=0.01))
    if job.oracle is not None:
        job.oracle.watch_modules([model])
        job.oracle.watch_gradients(model.named_parameters(), sums=True)
        update = optimizer.optimizer.step

        def step() -> None:
            record_before(job, model, optimizer.optimizer, stage)
            update()
            record_weights(job, "param_updated", model, stage)

        optimizer.optimizer.step = step  # `accelerator.backward` takes it
    job.watch(model, optimizer)
    for _ in job.steps():
        for micro in job.micro_steps():
            with accelerator.accumulate(model):
                loss = loss_of(model(job.batch(micro, 6, 5)))
                accelerator.backward(loss)
                job.loss(loss)
                optimizer.step()
                optimizer.zero_grad()
    job.weights(*weights_of(model, stage))
    model.destroy()


def weights_of(model: torch.nn.Module, stage: int) -> list[torch.Tensor]:
    from deepspeed.utils import safe_get_full_fp32_param

    return [safe_get_full_fp32_param(p) if stage == 3 else p for p in model.parameters()]


def record_weights(job: Job, kind: str, model: torch.nn.Module, stage: int) -> None:
    """Record weights: in stage 3, where ranks hold a part of each, the whole or the part."""
    from deepspeed.utils import safe_get_full_fp32_param

    assert job.oracle is not None
    for name, parameter in model.named_parameters():
        if stage == 3:
            whole = safe_get_full_fp32_param(parameter)
            job.oracle.record(kind, name, [whole, part_of(whole, parameter, stage)])
        else:
            job.oracle.record(kind, name, parameter)


def record_before(job: Job, model: torch.nn.Module, optimizer: Any, stage: int) -> None:
    """Record what the step finds, by what DeepSpeed gives its users: the whole of a tensor, or this rank's part."""
    from deepspeed.utils import safe_get_full_grad

    assert job.oracle is not None
    record_weights(job, "param_origin", model, stage)
    for name, parameter in model.named_parameters():
        whole = parameter.grad if stage == 0 else safe_get_full_grad(parameter)
        # BF16_Optimizer reduces the whole of it on all ranks.
        part = None if hasattr(parameter, "_hp_grad") else part_of(whole, parameter, stage)
        job.oracle.record("grad_reduced", name, [whole, part])
        for kind in ("exp_avg", "exp_avg_sq"):
            if job.oracle.step == 0:
                continue
            whole = moment_of(optimizer, parameter, kind, stage)
            job.oracle.record(kind, name, [whole, part_of(whole, parameter, stage)])


def moment_of(optimizer: Any, parameter: torch.Tensor, kind: str, stage: int) -> torch.Tensor:
    from deepspeed.utils import safe_get_full_optimizer_state

    if stage > 0:
        return safe_get_full_optimizer_state(parameter, kind)
    if hasattr(optimizer, "fp16_groups"):  # with a copy in fp32 of each parameter
        pairs = zip(optimizer.fp16_groups, optimizer.fp32_groups)
        copies = {id(own): copy for low, high in pairs for own, copy in zip(low, high)}
        return optimizer.optimizer.state[copies[id(parameter)]][kind]
    return optimizer.state[parameter][kind]


def part_of(whole: torch.Tensor | None, parameter: torch.Tensor, stage: int) -> torch.Tensor | None:
    if whole is None or stage == 0:
        return None
    if stage == 3:
        share = parameter.ds_tensor.numel()
        return whole.reshape(-1)[share * torch.distributed.get_rank() :][:share]
    if parameter._hp_mapping is None:
        return whole.new_empty(0)
    address = parameter._hp_mapping.lp_fragment_address
    return whole.view(-1)[address.start : address.start + address.numel]


OFFLOAD = {"offload_optimizer": {"device": "cpu"}}
ACCELERATE = {"ACCELERATE_USE_DEEPSPEED": "true", "DS_ACCELERATOR": "cpu"}
FP32_SUMS = {"data_types": {"grad_accum_dtype": "fp32"}}

CASES = [
    Case("deepspeed-0", lambda job: deepspeed(job, 0), micro_batches=2),
    Case("deepspeed-0-engine", lambda job: deepspeed(job, 0, hands_in="engine"), micro_batches=2),
    Case("deepspeed-0-bf16", lambda job: deepspeed(job, 0, bf16=True), micro_batches=2),
    Case("deepspeed-1", lambda job: deepspeed(job, 1), micro_batches=2),
    Case("deepspeed-1-engine", lambda job: deepspeed(job, 1, hands_in="engine"), micro_batches=2),
    Case("deepspeed-1-overlap", lambda job: deepspeed(job, 1, zero={"overlap_comm": True}), micro_batches=2),
    Case("deepspeed-1-bf16-optimizer", lambda job: deepspeed(job, 1, bf16=True, **FP32_SUMS), micro_batches=2),
    Case("deepspeed-2", lambda job: deepspeed(job, 2), micro_batches=2),
    Case("deepspeed-2-engine", lambda job: deepspeed(job, 2, hands_in="engine")),
    Case("deepspeed-2-offload", lambda job: deepspeed(job, 2, zero=OFFLOAD), micro_batches=2),
    Case("deepspeed-3", lambda job: deepspeed(job, 3), micro_batches=2),
    Case("deepspeed-3-engine", lambda job: deepspeed(job, 3, hands_in="engine"), micro_batches=2),
    Case("deepspeed-3-offload", lambda job: deepspeed(job, 3, zero=OFFLOAD), micro_batches=2),
    Case("accelerate-deepspeed-2", lambda job: accelerated(job, 2), 1, micro_batches=2, environment=ACCELERATE),
]


class TestDeepSpeed(CaseTests):
    cases = CASES
