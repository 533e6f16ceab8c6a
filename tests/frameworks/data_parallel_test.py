"""A plain loop, DistributedDataParallel and ZeroRedundancyOptimizer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of


def loop(job: Job, model: Any, optimizer: Any, autocast: bool = False) -> None:
    no_sync = getattr(model, "no_sync", nullcontext)
    for _ in job.steps():
        for micro in job.micro_steps():
            with nullcontext() if micro == job.micro_batches - 1 else no_sync():
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    loss = loss_of(model(job.batch(micro, 6, 5)))
                loss.backward()
            job.loss(loss)
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


def plain(job: Job, autocast: bool = False, checkpoint: str = "") -> None:
    model = Net(checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    loop(job, model, optimizer, autocast)


def ddp(job: Job, **options: Any) -> None:
    model = torch.nn.parallel.DistributedDataParallel(Net(), **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    loop(job, model, optimizer)


def zero_redundancy(job: Job) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = torch.nn.parallel.DistributedDataParallel(Net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    job.watch_plainly(model, optimizer)
    if job.oracle is not None:  # the moments of this rank's share are in the optimizer inside
        for name, parameter in model.named_parameters():
            record_moments(job, optimizer, name, parameter)
    job.watch(model, optimizer)
    loop(job, model, optimizer)


def record_moments(job: Job, optimizer: Any, name: str, parameter: torch.Tensor) -> None:
    assert job.oracle is not None
    oracle = job.oracle

    def before(*_: Any) -> None:
        for kind in ("exp_avg", "exp_avg_sq"):
            if kind in optimizer.optim.state.get(parameter, {}):
                oracle.record(kind, name, optimizer.optim.state[parameter][kind])

    optimizer.register_step_pre_hook(before)


CASES = [
    Case("plain", plain, ranks=1),
    Case("plain-accumulating", plain, ranks=1, micro_batches=3),
    Case("plain-autocast", lambda job: plain(job, autocast=True), ranks=1),
    Case("plain-checkpoint", lambda job: plain(job, checkpoint="reentrant"), ranks=1),
    Case("plain-checkpoint-without-reentry", lambda job: plain(job, checkpoint="other"), ranks=1),
    Case("ddp", ddp),
    Case("ddp-accumulating", ddp, micro_batches=2),
    Case("ddp-bucket-view", lambda job: ddp(job, gradient_as_bucket_view=True), micro_batches=2),
    Case("zero-redundancy", zero_redundancy),
]


class TestDataParallel(CaseTests):
    cases = CASES
