"""torch.compile of a whole model, of its blocks, and of the optimizer's step; the compiler is Dynamo alone."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of


def compiled(job: Job, what: str) -> None:
    torch._dynamo.reset()
    model: Any = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    graphs = {"model": [""], "blocks": ["blocks.0", "blocks.1"]}.get(what, [])
    if job.oracle is not None:  # which looks at the same model and optimizer as they are written
        what = ""
    if what == "model":
        model = torch.compile(model, backend="eager")
    if what == "blocks":
        model.blocks[0].compile(backend="eager")
        model.blocks[1] = torch.compile(model.blocks[1], backend="eager")
    job.watch_plainly(model, optimizer, graphs=graphs)
    job.watch(model, optimizer)
    step = torch.compile(optimizer.step, backend="eager") if what == "step" else optimizer.step
    for _ in job.steps():
        loss = loss_of(model(job.batch(0, 6, 5)))
        loss.backward()
        job.loss(loss)
        step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


CASES = [
    Case("compiled-model", lambda job: compiled(job, "model"), ranks=1),
    Case("compiled-blocks", lambda job: compiled(job, "blocks"), ranks=1),
    Case(
        "compiled-step",
        lambda job: compiled(job, "step"),
        ranks=1,
        rtol=1e-3,  # a step that is compiled rounds otherwise than the oracle's
    ),
]


class TestCompile(CaseTests):
    cases = CASES
