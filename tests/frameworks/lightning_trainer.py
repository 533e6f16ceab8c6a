"""The arguments that all trainings by the Trainer of Lightning share."""

from __future__ import annotations

from typing import Any

import lightning

from job import Job


def trainer_of(job: Job, strategy: Any, **more: Any) -> lightning.Trainer:
    """Return a trainer of a job on the CPU, which writes nothing."""
    return lightning.Trainer(
        accelerator="cpu",
        devices=job.ranks,
        strategy=strategy,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=job.folder,
        **more,
    )
