"""Reports of the real trainers: losses and rates by step, evaluations and checkpoints."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import python_programs
from cases import PYTHONPATH

STEPS = 4
CONFIG = {"targets": {}, "dynamic_on": False}


def save_lines(path: Path) -> None:
    """Save the lines of the job of this process for the test."""
    import stepwatch

    deadline = time.monotonic() + 60
    while not stepwatch.jobs():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (found,) = stepwatch.jobs()
    path.write_text(json.dumps(found.beats()["beats"]))


def hf_trainer(folder: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    import stepwatch
    import torch

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, num_key_value_heads=2, max_position_embeddings=16, **sizes))
    data = [{"input_ids": each, "labels": each} for each in torch.arange(160).reshape(-1, 8) % 31]

    class Watching(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
            self.monitor = stepwatch.watch(model, optimizer, folder / "config.json", output_dir=folder / "out")

        def on_train_end(self, *_: Any, **__: Any) -> None:
            save_lines(folder / "lines.json")
            self.monitor.close()

    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        use_cpu=True,
        max_steps=STEPS,
        per_device_train_batch_size=2,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        report_to=[],
        disable_tqdm=True,
        seed=1,
    )
    Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:4], callbacks=[Watching()]).train()


def lightning_trainer(folder: Path) -> None:
    import lightning

    import stepwatch
    import torch

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(5, 1)

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            loss = self.net(batch).pow(2).mean()
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
            self.log("val_loss", self.net(batch).pow(2).mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_train_start(self) -> None:
            config = folder / "config.json"
            self.monitor = stepwatch.watch(self, self.optimizers(), config, output_dir=folder / "out")

        def on_train_end(self) -> None:
            save_lines(folder / "lines.json")
            self.monitor.close()

    rows = torch.utils.data.DataLoader([torch.ones(3, 5)] * STEPS, batch_size=None)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=STEPS,
        val_check_interval=2,
        log_every_n_steps=1,
        logger=lightning.pytorch.loggers.CSVLogger(str(folder)),
        callbacks=[lightning.pytorch.callbacks.ModelCheckpoint(str(folder), every_n_train_steps=2)],
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(Module(), rows, rows)


TRAINERS = {"transformers": hf_trainer, "lightning": lightning_trainer}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_reports_its_losses_evaluations_and_checkpoints_without_a_line_of_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    run = python_programs.run([__file__, name, str(tmp_path)], env={**os.environ, "PYTHONPATH": PYTHONPATH})
    assert run.returncode == 0, run.stdout + run.stderr
    lines = json.loads((tmp_path / "lines.json").read_text())
    beats = [line["beat"] for line in lines if "beat" in line]
    losses = {beat["step"]: beat["loss"] for beat in beats if "loss" in beat}
    assert list(losses) == list(range(STEPS))
    assert all(isinstance(loss, float) and loss > 0 for loss in losses.values())
    assert {beat["lr"] for beat in beats if "loss" in beat} == {0.01}
    phases = [beat["phase"] for beat in beats]
    changes = [phase for before, phase in zip(["", *phases], phases) if phase != before]
    assert changes.count("eval") == 2
    assert changes.count("checkpoint") == 2
    assert changes[-1] == "train"
    saved = [line["event"]["step"] for line in lines if line.get("event", {}).get("kind") == "checkpoint"]
    assert saved == [1, 3]


if __name__ == "__main__":
    work: Callable[[Path], None] = TRAINERS[sys.argv[1]]
    work(Path(sys.argv[2]))
