"""The pipeline schedules of torch."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import WIDTH, Block, loss_of

ROWS = 8


class Stage(torch.nn.Module):
    """A part of a model: blocks, behind an embedding or before a head at the ends."""

    def __init__(self, number: int, stages: int) -> None:
        super().__init__()
        self.enter = torch.nn.Linear(5, WIDTH) if number == 0 else None
        self.block = Block()
        self.head = torch.nn.Linear(WIDTH, 3) if number == stages - 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(x if self.enter is None else self.enter(x))
        return x if self.head is None else self.head(x)


def pipeline(job: Job, schedule_name: str, stages_of_a_rank: int = 1, is_v: bool = False) -> None:
    from torch.distributed import pipelining
    from torch.distributed.pipelining import PipelineStage, schedules

    count = job.ranks * stages_of_a_rank
    if is_v:
        numbers = [job.rank, count - 1 - job.rank]
    else:
        numbers = list(range(job.rank, count, job.ranks))
    chunks = []
    for number in range(count):
        stage = Stage(number, count)  # made on every rank, so that the dice fall alike
        if number in numbers:
            chunks.append(stage)
    stages = [PipelineStage(chunk, n, count, torch.device("cpu")) for chunk, n in zip(chunks, sorted(numbers))]
    make = getattr(pipelining, schedule_name, None) or getattr(schedules, schedule_name)
    schedule = make(
        stages if stages_of_a_rank > 1 else stages[0], job.micro_batches, loss_fn=lambda o, t: loss_of(o - t)
    )
    optimizer = torch.optim.AdamW([p for chunk in chunks for p in chunk.parameters()], lr=0.01)
    job.watch_plainly(chunks, optimizer, gradients=False)
    if job.oracle is not None:
        for number, stage in enumerate(stages):
            watch_stage(job, stage, number)
    job.watch(chunks, optimizer)
    is_first, is_last = 0 in numbers, count - 1 in numbers
    for _ in job.steps():
        given = [job.batch(0, ROWS, 5, alike=True)] if is_first else []
        losses: list[torch.Tensor] = []
        options: dict[str, Any] = {"target": job.batch(1, ROWS, 3, alike=True), "losses": losses} if is_last else {}
        schedule.step(*given, **options)
        job.loss(sum(losses) if losses else 0)
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*(p for chunk in chunks for p in chunk.parameters()))


def watch_stage(job: Job, stage: Any, chunk: int) -> None:
    """Record what each micro-batch leaves in the gradients, and look away where torch tries the stage out."""
    assert job.oracle is not None
    oracle = job.oracle
    done: dict[int, int] = defaultdict(int)  # step -> micro-batches whose gradients of weights are there

    def recording(original: Any, gives_weights: bool) -> Any:
        def run(bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
            result = original(bwd_chunk_id, *args, **kwargs)
            if gives_weights and kwargs.get("full_backward", True):
                for name, parameter in stage.submod.named_parameters():
                    oracle.record("grad_unreduced", name, parameter.grad, micro=done[oracle.step], chunk=chunk)
                done[oracle.step] += 1
            return result

        return run

    stage.backward_one_chunk = recording(stage.backward_one_chunk, True)
    stage.backward_weight_one_chunk = recording(stage.backward_weight_one_chunk, True)
    for name in ("_forward_metadata_inference", "_backward_metadata_inference"):
        setattr(stage, name, oracle.unseen(getattr(stage, name)))


CASES = [
    Case("gpipe", lambda job: pipeline(job, "ScheduleGPipe"), micro_batches=4),
    Case("1f1b", lambda job: pipeline(job, "Schedule1F1B"), micro_batches=4),
    Case("interleaved-1f1b", lambda job: pipeline(job, "ScheduleInterleaved1F1B", 2), micro_batches=4),
    Case("zero-bubble", lambda job: pipeline(job, "ScheduleInterleavedZeroBubble", 2), micro_batches=4),
    Case("zero-bubble-in-a-v", lambda job: pipeline(job, "ScheduleZBVZeroBubble", 2, is_v=True), micro_batches=4),
]


class TestPipelines(CaseTests):
    cases = CASES
