"""The trainers of transformers and Lightning with DeepSpeed: the monitor is put on in a callback."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from deepspeed_jobs import as_on_a_cpu, record_before, record_weights, weights_of
from job import Job
from nets import Net, loss_of


def watch_steps(job: Job, model: torch.nn.Module, optimizer: Any, stage: int) -> None:
    """Let the oracle watch a model, and the optimizer that its engine calls."""
    if job.oracle is None:
        return
    job.oracle.watch_modules([model])
    job.oracle.watch_gradients(model.named_parameters(), sums=True)
    update = optimizer.step

    def step() -> None:
        record_before(job, model, optimizer, stage)
        update()
        record_weights(job, "param_updated", model, stage)

    optimizer.step = step


def hf_trainer(job: Job, stage: int, **arguments: Any) -> None:
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback

    from hf_arguments import arguments_of

    as_on_a_cpu()
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=32, num_key_value_heads=2, max_position_embeddings=16, **sizes)
    data = [{"input_ids": each, "labels": each} for each in torch.arange(1600).reshape(-1, 8) % 31]

    class Watching(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **given: Any) -> None:
            optimizer = given["optimizer"]
            watch_steps(job, model, optimizer.optimizer, stage)
            job.watch(model, optimizer)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            job.end_step()

    class Told(Trainer):
        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().training_step(*args, **kwargs)
            job.loss(loss)
            return loss

    torch.manual_seed(1)
    trainer = Told(
        model=LlamaForCausalLM(config),
        args=arguments_of(
            job,
            optim="adamw_torch",
            deepspeed={
                "train_micro_batch_size_per_gpu": "auto",
                "gradient_accumulation_steps": "auto",
                "gradient_clipping": "auto",
                "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
                "zero_allow_untested_optimizer": True,
            },
            **arguments,
        ),
        train_dataset=data,
        callbacks=[Watching()],
    )
    trainer.train()
    job.weights(*weights_of(trainer.model, stage))
    trainer.deepspeed.destroy()


def lightning(job: Job, stage: int, hands_in_wrapped: bool) -> None:
    import lightning
    import lightning.pytorch.strategies.deepspeed as strategies
    from lightning.pytorch.accelerators import CPUAccelerator

    from lightning_trainer import trainer_of

    as_on_a_cpu()
    # It takes devices of CUDA alone, by their numbers.
    strategies.CUDAAccelerator = CPUAccelerator
    CPUAccelerator.get_parallel_devices = staticmethod(lambda count: [torch.device("cpu", i) for i in range(count)])

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            loss = loss_of(self.net(batch))
            job.loss(loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

        def on_train_start(self) -> None:
            (optimizer,) = self.trainer.optimizers
            watch_steps(job, self.net, optimizer, stage)
            job.watch(self.net, self.optimizers() if hands_in_wrapped else optimizer)

        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            if (batch_idx + 1) % job.micro_batches == 0:
                job.end_step()

    generator = torch.Generator().manual_seed(3)
    batches = [torch.randn(6, 5, generator=generator) for _ in range(2 * job.number_of_steps * job.micro_batches)]
    zero = {"stage": stage, "stage3_param_persistence_threshold": 0}
    module = Module()
    strategy = strategies.DeepSpeedStrategy(
        process_group_backend="gloo",
        config={
            "train_micro_batch_size_per_gpu": 6,
            "zero_optimization": zero,
            "zero_allow_untested_optimizer": True,
        },
    )
    trainer = trainer_of(job, strategy, max_steps=job.number_of_steps, accumulate_grad_batches=job.micro_batches)
    trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
    job.weights(*weights_of(module, stage))


CASES = [
    Case("hf-trainer-deepspeed-2", lambda job: hf_trainer(job, 2), micro_batches=2),
    Case("hf-trainer-deepspeed-3", lambda job: hf_trainer(job, 3), micro_batches=2),
    Case("lightning-deepspeed-2", lambda job: lightning(job, 2, hands_in_wrapped=False), micro_batches=2),
    Case("lightning-deepspeed-3", lambda job: lightning(job, 3, hands_in_wrapped=True), micro_batches=2),
]
for each in CASES:
    each.environment.update(ACCELERATE_USE_DEEPSPEED="true", DS_ACCELERATOR="cpu")


class TestDeepSpeedTrainers(CaseTests):
    cases = CASES
