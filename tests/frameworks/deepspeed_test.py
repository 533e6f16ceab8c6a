"""DeepSpeed's engine with ZeRO 0 to 3, in fp32 and bf16."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of


def deepspeed(job: Job, stage: int, bf16: bool = False, hands_in_engine: bool = False, **config: Any) -> None:
    import deepspeed

    # It would be compiled first, and sums tensors of two ranks on one host.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    engine, optimizer, _, _ = deepspeed.initialize(
        model=(net := Net()),
        optimizer=torch.optim.AdamW(net.parameters(), lr=0.01),
        config={
            "train_micro_batch_size_per_gpu": 6,
            "gradient_accumulation_steps": job.micro_batches,
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
            "gradient_clipping": 0.0,
            "zero_allow_untested_optimizer": True,
            "bf16": {"enabled": bf16},
            **config,
        },
    )
    model = engine if hands_in_engine else engine.module
    if job.oracle is not None:
        job.oracle.watch_modules([model])
        job.oracle.watch_gradients(model.named_parameters(), sums=stage > 0)
    job.watch(model, optimizer)
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


def weights_of(model: torch.nn.Module, stage: int) -> list[torch.Tensor]:
    from deepspeed.utils import safe_get_full_fp32_param

    return [safe_get_full_fp32_param(p) if stage == 3 else p for p in model.parameters()]


def record_weights(job: Job, kind: str, model: torch.nn.Module, stage: int) -> None:
    """Record weights: in stage 3, where ranks hold a part of each, the whole or the part."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_local_fp32_param

    assert job.oracle is not None
    for name, parameter in model.named_parameters():
        if stage == 3:
            job.oracle.record(kind, name, [safe_get_full_fp32_param(parameter), safe_get_local_fp32_param(parameter)])
        else:
            job.oracle.record(kind, name, parameter)


def record_before(job: Job, model: torch.nn.Module, optimizer: Any, stage: int) -> None:
    """Record what the step finds, by what DeepSpeed gives its users: the whole of a tensor, or this rank's part."""
    from deepspeed.utils import safe_get_full_grad

    assert job.oracle is not None
    record_weights(job, "param_origin", model, stage)
    for name, parameter in model.named_parameters():
        whole = parameter.grad if stage == 0 else safe_get_full_grad(parameter)
        job.oracle.record("grad_reduced", name, [whole, part_of(whole, parameter, stage)])
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
        return whole.view(-1)[share * torch.distributed.get_rank() :][:share]
    if parameter._hp_mapping is None:
        return None
    address = parameter._hp_mapping.lp_fragment_address
    return whole.view(-1)[address.start : address.start + address.numel]


MOMENTS = "moments are in flat partitions"
REDUCED = "parameters have no gradient left at the step"
LAST = "what is read is the gradient of the last micro-batch alone"
NO_MOMENTS = {"exp_avg": MOMENTS, "exp_avg_sq": MOMENTS}
STAGE1 = {**NO_MOMENTS, "grad_reduced": REDUCED}
STAGE2 = {**STAGE1, "grad_unreduced": LAST}
WEIGHTS = dict.fromkeys(("param_origin", "param_updated"), "ranks hold no whole parameter between the steps")

CASES = [
    Case("deepspeed-0", lambda job: deepspeed(job, 0), micro_batches=2),
    Case("deepspeed-0-bf16", lambda job: deepspeed(job, 0, bf16=True), micro_batches=2, known=NO_MOMENTS),
    Case("deepspeed-1", lambda job: deepspeed(job, 1), micro_batches=2, known=STAGE1),
    Case("deepspeed-1-engine", lambda job: deepspeed(job, 1, hands_in_engine=True), micro_batches=2, known=STAGE1),
    Case("deepspeed-2", lambda job: deepspeed(job, 2), micro_batches=2, known=STAGE2),
    Case("deepspeed-3", lambda job: deepspeed(job, 3), micro_batches=2, known={**STAGE2, **WEIGHTS}),
]


class TestDeepSpeed(CaseTests):
    cases = CASES
