"""accelerate, with its own optimizer and with the one inside, and gradient scalers."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of

OVERFLOWS = 4  # the loss of this step


def accelerated(job: Job, hands_in_prepared: bool, scaled: bool = False, adapts: bool = False) -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=job.micro_batches)
    if scaled:
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model: Any = Net()
    if adapts:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=4, target_modules=["up", "down"], lora_dropout=0.0))
    torch_optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    model, optimizer = accelerator.prepare(model, torch_optimizer)
    job.watch_plainly(model, torch_optimizer)
    if job.oracle is not None and scaled:
        record_skipped_steps(job, accelerator.scaler, torch_optimizer, model)
    job.watch(model, optimizer if hands_in_prepared else optimizer.optimizer)
    for step in job.steps():
        for micro in job.micro_steps():
            with accelerator.accumulate(model):
                loss = loss_of(model(job.batch(micro, 6, 5)))
                job.loss(loss)
                accelerator.backward(loss * (float("inf") if scaled and step == OVERFLOWS else 1))
                optimizer.step()
                optimizer.zero_grad()
    job.weights(*model.parameters())


def scaled_loop(job: Job) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    job.watch_plainly(model, optimizer)
    if job.oracle is not None:
        record_skipped_steps(job, scaler, optimizer, model)
    job.watch(model, optimizer)
    for step in job.steps():
        for micro in job.micro_steps():
            loss = loss_of(model(job.batch(micro, 6, 5)))
            job.loss(loss)
            scaler.scale(loss * (float("inf") if step == OVERFLOWS else 1)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    job.weights(*model.parameters())


def record_skipped_steps(job: Job, scaler: Any, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Record a step that the scaler skips: the gradients that made it skip, weights and moments, but no update."""
    assert job.oracle is not None
    oracle, calls = job.oracle, 0
    original = scaler.step

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    def step(given: Any, *args: Any, **kwargs: Any) -> Any:
        before = calls
        result = original(given, *args, **kwargs)
        if calls == before:
            for name, parameter in model.named_parameters():
                if not parameter.requires_grad:
                    continue
                oracle.before_update(name, parameter, optimizer.state.get(parameter, {}))
        return result

    optimizer.register_step_post_hook(count)
    scaler.step = step


CASES = [
    Case("accelerate-inner", lambda job: accelerated(job, False), micro_batches=2),
    Case("accelerate-prepared", lambda job: accelerated(job, True), micro_batches=2),
    Case("accelerate-inner-scaled", lambda job: accelerated(job, False, scaled=True), ranks=1),
    Case("accelerate-prepared-scaled", lambda job: accelerated(job, True, scaled=True), ranks=1),
    Case(
        "accelerate-scaled-lora",
        lambda job: accelerated(job, True, scaled=True, adapts=True),
        micro_batches=2,
    ),
    Case("grad-scaler", scaled_loop, ranks=1),
    Case("grad-scaler-accumulating", scaled_loop, ranks=1, micro_batches=3),
]


class TestAccelerate(CaseTests):
    cases = CASES
