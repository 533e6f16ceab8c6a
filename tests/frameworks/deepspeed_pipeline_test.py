"""DeepSpeed's pipeline engine: two stages, and stages beside replicas of them."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from deepspeed_jobs import as_on_a_cpu, batches, engine_of, record_before, record_weights
from job import Job
from nets import WIDTH, Block, loss_of


def pipeline(
    job: Job, stages: int, stage: int = 0, hands_in: str = "optimizer", tied: bool = False, **config: Any
) -> None:
    """Train a network of layers, of which each stage has some, by `train_batch`."""
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec

    def layer(width: int, other: int) -> Any:
        return LayerSpec(torch.nn.Linear, width, other)

    def middle() -> Any:
        if tied:
            return TiedLayerSpec("shared", torch.nn.Linear, WIDTH, WIDTH, tied_weight_attr=["weight"])
        return layer(WIDTH, WIDTH)

    as_on_a_cpu()
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    torch.manual_seed(1)
    net = PipelineModule(
        layers=[layer(5, WIDTH), middle(), LayerSpec(Block), LayerSpec(Block), middle(), layer(WIDTH, 3)],
        loss_fn=lambda output, labels: loss_of(output),
        num_stages=stages,
        partition_method="uniform",
    )
    engine, optimizer = engine_of(job, net, stage, **config)
    model = engine if hands_in == "engine" else engine.module
    if job.oracle is not None:
        job.oracle.watch_modules([model], entered=engine.module)  # `train_batch` goes round the engine's own call
        job.oracle.watch_gradients(model.named_parameters(), sums=True)
        update = optimizer.step

        def step(*args: Any, **kwargs: Any) -> None:
            record_before(job, model, optimizer, stage)
            update(*args, **kwargs)
            record_weights(job, "param_updated", model, stage)

        optimizer.step = step
    job.watch(model, engine if hands_in == "engine" else optimizer)
    replica = engine.grid.get_data_parallel_rank()
    dtype = next(model.parameters()).dtype
    for _ in job.steps():
        pairs = ((inputs.to(dtype), labels) for inputs, labels in batches(job, replica))
        job.loss(engine.train_batch(pairs))
    job.weights(*model.parameters())
    engine.destroy()


BF16 = {"bf16": {"enabled": True}}
FP32_SUMS = {"data_types": {"grad_accum_dtype": "fp32"}}

CASES = [
    Case("deepspeed-pipeline", lambda job: pipeline(job, 2), micro_batches=4),
    Case("deepspeed-pipeline-engine-1", lambda job: pipeline(job, 2, 1, hands_in="engine"), micro_batches=2),
    Case("deepspeed-pipeline-tied", lambda job: pipeline(job, 2, tied=True), micro_batches=2),
    Case("deepspeed-pipeline-bf16", lambda job: pipeline(job, 2, 1, **BF16, **FP32_SUMS), micro_batches=2),
]


class TestDeepSpeedPipeline(CaseTests):
    cases = CASES
