"""The trainers of transformers and Lightning, which own the loop: the monitor is put on in a callback."""

from __future__ import annotations

import copy
from typing import Any

import torch
from accelerate_fsdp_test import whole
from cases import Case, CaseTests
from job import Job
from nets import Block, Net, loss_of
from oracle import Replica


def hf_trainer(job: Job, **arguments: Any) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback

    from hf_arguments import arguments_of

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=32, num_key_value_heads=2, max_position_embeddings=16, **sizes)
    model = LlamaForCausalLM(config)
    data = [{"input_ids": each, "labels": each} for each in torch.arange(400).reshape(-1, 8) % 31]

    class Watching(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
            job.watch_plainly(model, optimizer.optimizer)
            job.watch(model, optimizer)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            job.end_step()

    class Told(Trainer):
        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().training_step(*args, **kwargs)
            job.loss(loss)
            return loss

    trainer = Told(
        model=model,
        args=arguments_of(
            job,
            **arguments,
        ),
        train_dataset=data,
        callbacks=[Watching()],
    )
    trainer.train()
    job.weights(*model.parameters())


def lightning(job: Job, hands_in_wrapped: bool, sharded: bool = False) -> None:
    import lightning
    from lightning.pytorch.strategies import FSDPStrategy
    from torch.distributed.fsdp import FullyShardedDataParallel

    from lightning_trainer import trainer_of

    class OnCpu(FSDPStrategy):  # Lightning takes the class itself for devices alone, and torch wants the CPU named
        def _setup_model(self, model: Any) -> Any:
            return FullyShardedDataParallel(model, device_id=torch.device("cpu"), **self.kwargs)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            if replica is not None:
                (loss_of(replica.model(batch)) / job.micro_batches).backward()
            loss = loss_of(self.net(batch))
            job.loss(loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

        def on_train_start(self) -> None:
            optimizer = self.trainer.optimizers[0]
            if job.oracle is not None:
                job.oracle.watch_modules([self.net])
                if not sharded:
                    job.oracle.watch_gradients(self.net.named_parameters())
                job.oracle.watch_updates(optimizer, self.net.named_parameters())
            job.watch(self.net, self.optimizers() if hands_in_wrapped else optimizer)

        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if replica is not None and batch_idx % job.micro_batches == 0:
                weights = whole(self.trainer.strategy.model)
                replica.take({name.removeprefix("net."): weight for name, weight in weights.items()})

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            if job.oracle is not None:  # within the closure that the optimizer calls
                for name, parameter in self.net.named_parameters():
                    state = self.trainer.optimizers[0].state.get(parameter, {})
                    job.oracle.before_update(name, parameter, state)

        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            if (batch_idx + 1) % job.micro_batches == 0:
                job.end_step()

    generator = torch.Generator().manual_seed(3)
    batches = [torch.randn(6, 5, generator=generator) for _ in range(2 * job.number_of_steps * job.micro_batches)]
    module = Module()
    replica = Replica(job.oracle, copy.deepcopy(module.net)) if sharded and job.oracle is not None else None
    trainer = trainer_of(
        job,
        OnCpu(auto_wrap_policy={Block}) if sharded else "ddp",
        max_steps=job.number_of_steps,
        accumulate_grad_batches=job.micro_batches,
    )
    trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
    job.weights(*module.parameters())


CASES = [
    Case("hf-trainer", hf_trainer, micro_batches=2),  # the last step of an epoch has one micro-batch only
    Case(
        "hf-trainer-bf16-checkpointing",
        lambda job: hf_trainer(job, bf16=True, gradient_checkpointing=True),
        ranks=1,
        rtol=5e-2,  # the oracle's copies in the graph add up gradients in another order
    ),
    Case("lightning", lambda job: lightning(job, hands_in_wrapped=False)),
    Case(
        "lightning-fsdp",
        lambda job: lightning(job, hands_in_wrapped=True, sharded=True),
        micro_batches=2,
    ),
    Case("lightning-optimizer", lambda job: lightning(job, hands_in_wrapped=True), micro_batches=2),
]


class TestTrainers(CaseTests):
    cases = CASES
