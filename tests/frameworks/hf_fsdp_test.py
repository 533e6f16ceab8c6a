"""FSDP through the `Trainer` of transformers, which leaves it to accelerate: the CPU has to pass for a device."""

from __future__ import annotations

import copy
from typing import Any

import torch
from accelerate_fsdp_test import shard_on_cpu, whole
from cases import Case, CaseTests
from job import Job
from oracle import Replica


def hf_fsdp(job: Job, version: int, **options: Any) -> None:
    from accelerate import FullyShardedDataParallelPlugin
    from accelerate.state import AcceleratorState, GradientState
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback

    from hf_arguments import arguments_of

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    net = LlamaForCausalLM(LlamaConfig(vocab_size=33, num_key_value_heads=2, max_position_embeddings=16, **sizes))
    replica = Replica(job.oracle, copy.deepcopy(net)) if job.oracle is not None else None
    data = [{"input_ids": each, "labels": each} for each in torch.arange(400).reshape(-1, 8) % 31]

    class Watching(TrainerCallback):
        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
        ) -> None:
            job.watch_plainly(model, optimizer.optimizer, gradients=False)
            job.watch(model, optimizer)

        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if replica is not None:
                replica.take(whole(model))

        def on_step_end(self, *_: Any, **__: Any) -> None:
            job.end_step()

    class Told(Trainer):
        def create_accelerator_and_postprocess(self) -> None:
            options, self.args.fsdp_plugin_args = self.args.fsdp_plugin_args, None
            super().create_accelerator_and_postprocess()
            shard_on_cpu(self.accelerator, FullyShardedDataParallelPlugin(**options))
            self.is_fsdp_enabled = True

        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            loss = super().training_step(model, inputs, num_items_in_batch)
            job.loss(loss)
            if replica is not None:
                self.compute_loss(replica.model, inputs, num_items_in_batch=num_items_in_batch).backward()
            return loss

    trainer = Told(
        model=net,
        args=arguments_of(
            job,
            fsdp=True,
            fsdp_config={"version": version, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], **options},
        ),
        train_dataset=data,
        callbacks=[Watching()],
    )
    trainer.train()
    job.weights(*trainer.model.parameters())


CASES = [
    Case(
        "hf-trainer-fsdp1",
        lambda job: hf_fsdp(job, 1, use_orig_params=True, sync_module_states=False),
        micro_batches=2,
    ),
    Case("hf-trainer-fsdp2", lambda job: hf_fsdp(job, 2), micro_batches=2),
]


class TestHfFsdp(CaseTests):
    cases = CASES
