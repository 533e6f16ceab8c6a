"""A monitor that is made anew on the same model takes the place of the one before it; others live beside it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from jobs import mlp, rows, sgd_job, train, write_config

import stepwatch
import torch
from stepwatch import TrainerMon


def config_of(tmp_path: Path) -> Path:
    return write_config(tmp_path / "config.json", xy_distribution=True, wg_distribution=True)


def hooks(model: torch.nn.Module) -> int:
    return sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())


@pytest.mark.parametrize("kind", ["watch", "TrainerMon"])
def test_a_cell_that_runs_again_leaves_one_monitor(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job()
    config = config_of(tmp_path)
    counts = []
    for again in range(6):
        output = tmp_path / str(again)
        if kind == "watch":
            stepwatch.watch(model, optimizer, config, dynamic=False, output_dir=output)
        else:
            monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(output))
            TrainerMon(config).set_monitor(model, optimizer)
        train(model, optimizer, 3)
        counts.append((hooks(model), threading.active_count(), len(os.listdir("/proc/self/task"))))
    assert counts[1:] == counts[:1] * 5
    assert capfd.readouterr().out.count("another monitor watches this model already") == 5
    for monitor in stepwatch.watch.__globals__["open_monitors"]():
        monitor.close()
    assert hooks(model) == 0
    for again in range(6):
        assert [row["step"] for row in rows(tmp_path / str(again), "grad_reduced")] == ["0"] * 6 + ["1"] * 6 + ["2"] * 6


def test_monitors_of_other_classes_models_or_on_purpose_live_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "mon"))
    model, other = mlp(), mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = config_of(tmp_path)
    trainer_mon = TrainerMon(config)
    trainer_mon.set_monitor(model, optimizer)
    options: dict[str, Any] = {"config": config, "dynamic": False}
    with (
        stepwatch.watch(model, optimizer, output_dir=tmp_path / "watch", **options),
        stepwatch.watch(model, optimizer, output_dir=tmp_path / "beside", beside=True, **options),
        stepwatch.watch(other, torch.optim.SGD(other.parameters(), lr=0.1), output_dir=tmp_path / "other", **options),
    ):
        train(model, optimizer, 3)
    trainer_mon.close()
    for name in ("mon", "watch", "beside"):
        assert len(rows(tmp_path / name, "grad_reduced", 2)) == 6


def test_a_path_that_is_no_text_is_a_path_like_others(tmp_path: Path) -> None:
    directory = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.mkdir(directory)
    config = os.path.join(directory, "config.json")
    model, optimizer = sgd_job()
    with pytest.raises(FileNotFoundError, match="config.json"):
        TrainerMon(config)
    config_of(Path(directory))
    TrainerMon(config)
    with stepwatch.watch(model, optimizer, config, dynamic=False, output_dir=directory) as monitor:
        train(model, optimizer, 2)
        assert os.fsencode(monitor.status()["output_dir"]).startswith(os.fsencode(directory))
    assert len(rows(Path(directory), "grad_reduced", 1)) == 6
