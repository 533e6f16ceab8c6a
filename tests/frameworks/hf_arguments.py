"""The arguments that all trainings by the Trainer of transformers share."""

from __future__ import annotations

from typing import Any

from transformers import TrainingArguments

from job import Job


def arguments_of(job: Job, **more: Any) -> TrainingArguments:
    """Return the arguments of a job on the CPU."""
    return TrainingArguments(
        output_dir=str(job.folder / "trainer"),
        use_cpu=True,
        max_steps=job.number_of_steps,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=job.micro_batches,
        learning_rate=0.01,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        seed=1,
        **more,
    )
