"""Trainings with several optimizers, each for some of the parameters, under accelerate, Lightning and plain DDP."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of


def groups_of(model: torch.nn.Module) -> tuple[list[Any], list[Any]]:
    """Return the matrices, and the rest."""
    parameters = list(model.parameters())
    return [each for each in parameters if each.ndim == 2], [each for each in parameters if each.ndim != 2]


def watch_plainly(job: Job, model: torch.nn.Module, optimizers: Any) -> None:
    """Let the oracle see what each optimizer does to its own parameters."""
    if job.oracle is None:
        return
    named = list(model.named_parameters())
    job.oracle.watch_modules([model])
    job.oracle.watch_gradients(named)
    for optimizer in optimizers:
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        job.oracle.watch_optimizer(optimizer, [(name, each) for name, each in named if id(each) in own])


def accelerated(job: Job) -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=job.micro_batches)
    model: Any = Net()
    matrices, others = groups_of(model)
    plain = [torch.optim.Muon(matrices, lr=0.01), torch.optim.AdamW(others, lr=0.01)]
    model, *optimizers = accelerator.prepare(model, *plain)
    watch_plainly(job, model, plain)
    job.watch(model, optimizers)
    for _ in job.steps():
        for micro in job.micro_steps():
            with accelerator.accumulate(model):
                loss = loss_of(model(job.batch(micro, 6, 5)))
                job.loss(loss)
                accelerator.backward(loss)
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
    job.weights(*model.parameters())


def lightning(job: Job) -> None:
    import lightning

    from lightning_trainer import trainer_of

    class Module(lightning.LightningModule):
        automatic_optimization = False

        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> None:
            loss = loss_of(self.net(batch))
            job.loss(loss)
            self.manual_backward(loss)
            for optimizer in self.optimizers():
                optimizer.step()
                optimizer.zero_grad()

        def configure_optimizers(self) -> Any:
            matrices, others = groups_of(self)
            return torch.optim.SGD(matrices, lr=0.01, momentum=0.9), torch.optim.AdamW(others, lr=0.01)

        def on_train_start(self) -> None:
            watch_plainly(job, self.net, self.trainer.optimizers)
            job.watch(self.net, self.optimizers())

        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            job.end_step()

    generator = torch.Generator().manual_seed(3)
    batches = [torch.randn(6, 5, generator=generator) for _ in range(job.ranks * job.number_of_steps)]
    module = Module()
    trainer = trainer_of(job, "ddp", max_epochs=1)
    trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
    job.weights(*module.parameters())


def distributed_loop(job: Job) -> None:
    from transformers import Adafactor

    model = torch.nn.parallel.DistributedDataParallel(Net())
    matrices, others = groups_of(model)
    adafactor, adamw = Adafactor(matrices), torch.optim.AdamW(others, lr=0.01)
    watch_plainly(job, model, [adafactor, adamw])
    job.watch(model, [adamw, adafactor])  # in another order than that of the loop
    for _ in job.steps():
        loss = loss_of(model(job.batch(0, 6, 5)))
        job.loss(loss)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        adafactor.step()
        adamw.step()
        model.zero_grad()
    job.weights(*model.parameters())


CASES = [
    Case("accelerate-muon", accelerated, micro_batches=2),
    Case("lightning-manual", lightning),
    Case("ddp-adafactor", distributed_loop),
]


class TestSeveralOptimizers(CaseTests):
    cases = CASES
