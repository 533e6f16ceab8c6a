"""Configs with other names, targets, or some ranks; and ranks that do not keep step."""

from __future__ import annotations

import time
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of
from pipelines_test import pipeline


def wrapped(job: Job) -> None:
    """Train with DDP around a model of which torch has wrapped one block, and checkpoints another."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    torch._dynamo.reset()
    model: Any = Net()
    model.blocks[0] = torch.compile(model.blocks[0], backend="eager")
    model.blocks[1] = checkpoint_wrapper(model.blocks[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    if job.oracle is not None:
        model.blocks[0] = model.blocks[0]._orig_mod
    job.watch_plainly(parallel, optimizer, skip=["CheckpointWrapper"], graphs=["module.blocks.0"])
    job.watch(parallel, optimizer)
    loop(job, parallel, optimizer)


def inside(job: Job) -> None:
    """Train with DDP, and hand over what is inside."""
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    loop(job, parallel, optimizer)


def apart(job: Job) -> None:
    """Train a model on each rank by itself; the steps of the second rank take thrice as long, and more."""
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    for _ in job.steps():
        time.sleep(0.01 + 0.03 * job.rank)
        loss = loss_of(model(job.batch(0, 6, 5)))
        loss.backward()
        job.loss(loss)
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


def loop(job: Job, model: Any, optimizer: Any) -> None:
    for _ in job.steps():
        loss = loss_of(model(job.batch(0, 6, 5)))
        loss.backward()
        job.loss(loss)
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


TARGETS = {"module.blocks.0": {}, "module.blocks.1._checkpoint_wrapped_module.up": {}}
TARGETED = ("module.blocks.0", "module.blocks.1.up")

CASES = [
    Case("wrapped", wrapped),
    Case("wrapped-names-of-torch", wrapped, config={"stepwatch": {"names": "torch"}}, names_of_torch=True),
    Case(
        "wrapped-targets",
        wrapped,
        config={"targets": TARGETS},
        shows=lambda name: is_below(name, TARGETED),
    ),
    Case("ddp-handed-in-without", inside),
    Case("module-ranks", wrapped, config={"module_ranks": [1]}, silent=[0]),
    Case("ranks-apart", apart, steps=40, runs_apart=True),
    Case(
        "pipeline-stage-without-a-site",
        lambda job: pipeline(job, "Schedule1F1B"),
        micro_batches=4,
        config={"targets": {"head": {}}},
        shows=lambda name: is_below(name, ("head",)),
    ),
]


def is_below(name: str, targets: tuple[str, ...]) -> bool:
    return any(name == target or name.startswith(target + ".") for target in targets)


class TestConfigs(CaseTests):
    cases = CASES
