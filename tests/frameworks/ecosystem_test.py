"""Libraries on plain torch: torchtitan's containers, torchao's optimizers, torchtune, PEFT and timm."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of


def loop(job: Job, model: Any, optimizer: Any, loss: Callable[[], torch.Tensor]) -> None:
    for _ in job.steps():
        found = loss()
        found.backward()
        job.loss(found)
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


def torchtitan_containers(job: Job, checkpoint: bool = False) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torchtitan.components.optimizer import default_adamw

    model = Net()
    if checkpoint:
        for number, block in enumerate(model.blocks):
            model.blocks[number] = checkpoint_wrapper(block)
    optimizers = default_adamw(lr=0.01)
    optimizers.implementation = "for-loop"
    optimizer = optimizers.build(model_parts=[model])
    job.watch_plainly(model, optimizer.optimizers[0], skip=["CheckpointWrapper"])
    job.watch(model, optimizer)
    loop(job, model, optimizer, lambda: loss_of(model(job.batch(0, 6, 5))))


def torchao_8bit(job: Job) -> None:
    from torchao.optim import AdamW8bit

    # The moments of the larger layer alone are quantised: it has 4096 elements.
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
    optimizer = AdamW8bit(model.parameters(), lr=0.01)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    loop(job, model, optimizer, lambda: loss_of(model(job.batch(0, 6, 64))))


def peft_lora(job: Job) -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(Net(), LoraConfig(r=4, target_modules=["up", "down"], lora_dropout=0.0))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    loop(job, model, optimizer, lambda: loss_of(model(job.batch(0, 6, 5))))


def torchtune_llama(job: Job) -> None:
    # The last torchtune asks for this module where torchao had it once.
    workflow = "torchao.quantization.quantize_.workflows.nf4.nf4_tensor"
    sys.modules["torchao.dtypes.nf4tensor"] = importlib.import_module(workflow)
    from torchtune.models.llama3 import llama3

    model = llama3(vocab_size=32, num_layers=2, num_heads=2, num_kv_heads=2, embed_dim=16, max_seq_len=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    loop(job, model, optimizer, lambda: loss_of(model(job.tokens(0, 2, 8))))


def torchtune_recipe(job: Job) -> None:
    """Train as torchtune's recipes do: losses are sums over tokens, gradients are divided by how many there were.

    What they use of `torchtune.training` is written out: of torchao it asks for what there is no more.
    """
    workflow = "torchao.quantization.quantize_.workflows.nf4.nf4_tensor"
    sys.modules["torchao.dtypes.nf4tensor"] = importlib.import_module(workflow)
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    from torchtune.models.llama3 import llama3
    from torchtune.modules import TransformerSelfAttentionLayer
    from torchtune.modules.loss import CEWithChunkedOutputLoss

    model = llama3(vocab_size=32, num_layers=2, num_heads=2, num_kv_heads=2, embed_dim=16, max_seq_len=16)
    loss_fn = CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss_fn.num_output_chunks)
    apply_activation_checkpointing(model, check_fn=lambda each: isinstance(each, TransformerSelfAttentionLayer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    job.watch_plainly(model, optimizer, skip=["CheckpointWrapper"])
    job.watch(model, optimizer)
    for _ in job.steps():
        count = 0
        for micro in job.micro_steps():
            tokens = job.tokens(micro, 2, 8)
            loss = loss_fn(model(tokens), tokens.roll(-1, 1)) * tokens.numel()
            loss.backward()
            job.loss(loss)
            count += tokens.numel()
        for parameter in model.parameters():
            parameter.grad *= 1 / count
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    job.weights(*model.parameters())


class _Anything(type):
    """A class that has whatever attribute it is asked for."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class TorchvisionStandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets timm import torchvision, which it needs for images alone and which is built for CUDA."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: Any) -> None:
        def make(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return _Anything(name, (torch.nn.Module,), {})

        module.__getattr__ = make


def timm_vit(job: Job, optimizer_name: str) -> None:
    sys.meta_path.append(TorchvisionStandIn())
    import timm.optim
    from timm.models.vision_transformer import VisionTransformer
    from timm.utils import ModelEmaV3

    model = VisionTransformer(img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=3)
    optimizer = timm.optim.create_optimizer_v2(model, opt=optimizer_name, lr=0.01, weight_decay=0.05)
    average = ModelEmaV3(model)
    job.watch_plainly(model, optimizer)
    job.watch(model, optimizer)
    for _ in job.steps():
        loss = loss_of(model(job.batch(0, 4, 3, 16, 16)))
        loss.backward()
        job.loss(loss)
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
    job.weights(*average.module.parameters())


EAGER = {"TORCHDYNAMO_DISABLE": "1"}  # its step compiles itself

CASES = [
    Case("torchtitan-containers", torchtitan_containers, ranks=1),
    Case("torchtitan-containers-checkpoint", lambda job: torchtitan_containers(job, checkpoint=True), ranks=1),
    Case("torchao-8bit", torchao_8bit, ranks=1, environment=EAGER),
    Case("torchtune-llama", torchtune_llama, ranks=1),
    Case("torchtune-recipe", torchtune_recipe, ranks=1, micro_batches=2),
    Case("peft-lora", peft_lora, ranks=1),
    Case("timm-adamw", lambda job: timm_vit(job, "adamw"), ranks=1),
    Case("timm-lamb", lambda job: timm_vit(job, "lamb"), ranks=1),
]


class TestEcosystem(CaseTests):
    cases = CASES
