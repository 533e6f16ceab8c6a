"""DeepSpeed's engine with ZeRO 0 to 3, in fp32 and bf16, and through accelerate."""

from __future__ import annotations

import torch
from cases import Case, CaseTests
from deepspeed_jobs import as_on_a_cpu, coalescing, deepspeed, record_before, record_weights, weights_of
from job import Job
from nets import Net, loss_of


def accelerated(job: Job, stage: int) -> None:
    from accelerate import Accelerator, DeepSpeedPlugin
    from accelerate.state import AcceleratorState, GradientState

    as_on_a_cpu()
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


OFFLOAD = {"offload_optimizer": {"device": "cpu"}}
OFFLOAD_ALL = {**OFFLOAD, "offload_param": {"device": "cpu"}}
ACCELERATE = {"ACCELERATE_USE_DEEPSPEED": "true", "DS_ACCELERATOR": "cpu"}
FP32_SUMS = {"data_types": {"grad_accum_dtype": "fp32"}}

CASES = [
    Case("deepspeed-0", lambda job: deepspeed(job, 0), micro_batches=2),
    Case("deepspeed-0-bf16", lambda job: deepspeed(job, 0, bf16=True), micro_batches=2),
    Case("deepspeed-1", lambda job: deepspeed(job, 1), micro_batches=2),
    Case("deepspeed-1-overlap", lambda job: deepspeed(job, 1, zero={"overlap_comm": True}), micro_batches=2),
    Case("deepspeed-1-bf16-optimizer", lambda job: deepspeed(job, 1, bf16=True, **FP32_SUMS), micro_batches=2),
    Case("deepspeed-2", lambda job: deepspeed(job, 2), micro_batches=2),
    Case("deepspeed-2-engine", lambda job: deepspeed(job, 2, hands_in="engine")),
    Case("deepspeed-2-offload", lambda job: deepspeed(job, 2, zero=OFFLOAD), micro_batches=2),
    Case("deepspeed-2-inner", lambda job: deepspeed(job, 2, hands_in="inner", decays=True), micro_batches=2),
    Case("deepspeed-3", lambda job: deepspeed(job, 3), micro_batches=2),
    Case("deepspeed-3-engine", lambda job: deepspeed(job, 3, hands_in="engine"), micro_batches=2),
    Case("deepspeed-3-offload", lambda job: deepspeed(job, 3, zero=OFFLOAD_ALL), micro_batches=2),
    Case(
        "deepspeed-3-inner-subgroups",
        lambda job: deepspeed(job, 3, hands_in="inner", decays=True, zero={"sub_group_size": 100}),
        micro_batches=2,
    ),
    Case("deepspeed-1-coalescing", lambda job: coalescing(job, 1), micro_batches=2),
    Case("deepspeed-2-coalescing", lambda job: coalescing(job, 2), micro_batches=2),
    Case("deepspeed-3-coalescing", lambda job: coalescing(job, 3), micro_batches=2),
    Case("accelerate-deepspeed-2", lambda job: accelerated(job, 2), 1, micro_batches=2, environment=ACCELERATE),
]


class TestDeepSpeed(CaseTests):
    cases = CASES
