"""DeepSpeed with a scaled loss: in fp16, and by autocast with a scaler of torch's; a step that overflows is skipped."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case, CaseTests
from deepspeed_jobs import deepspeed
from job import Job


def fp16(job: Job, stage: int, **options: Any) -> None:
    scale = {"enabled": True, "initial_scale_power": 8, "hysteresis": 1}
    deepspeed(job, stage, overflows=True, fp16=scale, **options)


def fp16_fused(job: Job) -> None:
    import deepspeed.runtime.engine as engine

    fused = engine.FusedAdam
    engine.FusedAdam = torch.optim.AdamW  # its own is compiled first; it decides on FP16_Optimizer alone
    try:
        fp16(job, 0)
    finally:
        engine.FusedAdam = fused


def autocast(job: Job, stage: int) -> None:
    scaled = torch.amp.GradScaler
    torch.amp.GradScaler = lambda **options: scaled(**options, init_scale=256.0)
    try:
        deepspeed(job, stage, torch_autocast={"enabled": True, "dtype": "float16"})
    finally:
        torch.amp.GradScaler = scaled


CASES = [
    Case("deepspeed-0-fp16", lambda job: fp16(job, 0), micro_batches=2),
    Case("deepspeed-0-fp16-fused", fp16_fused, micro_batches=2),
    Case("deepspeed-2-fp16", lambda job: fp16(job, 2), micro_batches=2),
    Case("deepspeed-3-fp16", lambda job: fp16(job, 3), micro_batches=2),
    Case("deepspeed-1-autocast", lambda job: autocast(job, 1), micro_batches=2),
]


class TestDeepSpeedScaling(CaseTests):
    cases = CASES
