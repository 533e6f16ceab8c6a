"""The drop-in: constructor, errors, steps, optimizers, edits while training runs, and what is left behind."""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from jobs import (
    EVERYTHING,
    WG,
    XY,
    manifest,
    mlp,
    names,
    rows,
    sgd_job,
    steps_of,
    structure,
    train,
    value,
    watched,
    write_config,
)

import python_programs
import torch
from stepwatch import TrainerMon

pytestmark = pytest.mark.usefixtures("output_in_tmp_path")


def monitored(tmp_path: Path, model: torch.nn.Module, optimizer: Any, **config: Any) -> TrainerMon:
    """Return a drop-in that watches a model."""
    monitor = TrainerMon(write_config(tmp_path / "config.json", **config))
    monitor.set_monitor(model, optimizer)
    return monitor


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ('{"ops": "norm"}', TypeError),
        ('{"xy_distribution": 1}', TypeError),
        ('{"eps": 1}', TypeError),
        ('{"ndigits": 1.5}', ValueError),
        ('{"ndigits": null}', ValueError),
        ('{"ndigits": 21}', ValueError),
        ('{"step_count_per_record": 0}', ValueError),
        ('{"step_count_per_record": "1"}', TypeError),
        ('{"append_output": ["a"]}', ValueError),
        ("[1]", Exception),
        ('{"ops": [', Exception),
    ],
)
def test_a_refused_config_raises_what_users_of_msprobe_catch(
    tmp_path: Path, config: str, error: type[Exception]
) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(error, match="line 1, column"):
        TrainerMon(tmp_path / "config.json")


def test_a_missing_config_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent.json"):
        TrainerMon(tmp_path / "absent.json")


@pytest.mark.parametrize("order", ["source", "manual"])
def test_both_orders_of_positional_arguments_are_understood(tmp_path: Path, order: str) -> None:
    model, optimizer = sgd_job()
    monitor = TrainerMon(write_config(tmp_path / "config.json", **WG))
    first = (optimizer, 2) if order == "source" else (2, optimizer)
    monitor.set_monitor(model, *first, None, None, 10)
    train(model, optimizer, 1, micro_batches=2)
    monitor.close()
    assert len(rows(tmp_path, "grad_reduced", 10)) == 6


def test_unusable_numbers_are_replaced_with_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, optimizer = sgd_job()
    monitor = TrainerMon(write_config(tmp_path / "config.json", **WG))
    monitor.set_monitor(model, optimizer, grad_acc_steps=0, start_iteration=-4)
    monitor.close()
    out = capfd.readouterr().out
    assert "[WARNING] grad_acc_steps 0 is not usable" in out
    assert "[WARNING] start_iteration -4 is not usable" in out


@pytest.mark.parametrize(("level", "lines"), [("1", True), ("2", False), ("4", False), ("nonsense", True)])
def test_the_log_level_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], level: str, lines: bool
) -> None:
    monkeypatch.setenv("MSPROBE_LOG_LEVEL", level)
    model, optimizer = sgd_job()
    monitor = monitored(tmp_path, model, optimizer, **WG)
    train(model, optimizer, 1)
    monitor.close()
    out = capfd.readouterr().out
    assert ("[INFO] plan 1 applied: first step 0" in out) == lines
    assert f"({os.getpid()})" in out or not lines
    (plan,) = manifest(tmp_path)["plans"]
    assert (plan["first_step"], plan["last_step"], plan["collected"]) == (0, 0, 1)


def test_generate_metrics_return_the_last_values_under_their_tags(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = monitored(tmp_path, model, optimizer, **XY, **WG)
    train(model, optimizer, 2)
    reduced, unreduced = monitor.generate_wgrad_metrics()
    activations, gradients = monitor.generate_xy_metrics()
    monitor.close()
    table = rows(tmp_path, "grad_reduced", 1)
    assert reduced["0:3.bias/rank0/post_grad"]["norm"] == value(table, "3.bias", "norm")
    assert unreduced["0:3.bias/rank0/acc_grad"]["shape"] == torch.Size([2])
    assert "0:3.output:0/rank0/actv" in activations
    assert "0:3.output:0/rank0/actv_grad" in gradients


def test_print_struct_writes_the_structure_and_ends_the_run(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitored(tmp_path, model, optimizer, print_struct=True)
    with pytest.raises(Exception, match="^exit after first monitor step when print model struct$"):
        train(model, optimizer, 1)
    described = structure(tmp_path)
    assert described["0:3"]["output"] == {"config": "tensor", "tensor": "size=(5, 2), dtype=torch.float32"}
    assert described["0:3"]["output_grad"] == {"config": "tuple[1]", "0": "size=(5, 2), dtype=torch.float32"}


# --- optimizers ---


@pytest.mark.parametrize("first", ["scheduler", "monitor"])
def test_learning_rate_schedulers_work_made_before_or_after(tmp_path: Path, first: str) -> None:
    model, optimizer = sgd_job()
    monitor = TrainerMon(write_config(tmp_path / "config.json", **WG))
    if first == "monitor":
        monitor.set_monitor(model, optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    if first == "scheduler":
        monitor.set_monitor(model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            train(model, optimizer, 1)
            scheduler.step()
    monitor.close()
    train(model, optimizer, 1)
    assert steps_of(tmp_path, "grad_reduced") == [0, 1, 2]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0125)


def test_a_scripted_module_takes_no_hooks_and_the_others_are_watched(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.jit.script(mlp())))
    with watched(tmp_path, model, optimizer, **XY, **WG):
        train(model, optimizer, 2)
    assert names(tmp_path, "actv", 1) == {".input", ".output", "0.input", "0.output"}
    assert "1.3.weight" in names(tmp_path, "grad_reduced", 1)
    assert capfd.readouterr().out.count("does not accept hooks") == 1


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {"capturable": False, "amsgrad": True}])
def test_moments_are_read_whatever_the_form_of_the_optimizer(tmp_path: Path, options: dict[str, bool]) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    with watched(tmp_path, model, optimizer, mv_distribution=True):
        train(model, optimizer, 2)
    assert len(rows(tmp_path, "exp_avg", 1)) == len(rows(tmp_path, "exp_avg_sq", 1)) == 6


def test_an_optimizer_that_turns_odd_does_not_stop_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, optimizer = sgd_job()
    optimizer.step = lambda: None  # type: ignore[method-assign]
    with watched(tmp_path, model, optimizer, **WG):
        optimizer.param_groups = [{}]
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert capfd.readouterr().out.count("failed, rows are missing, training goes on: KeyError") == 1


# --- edits while training runs ---


def test_an_edit_starts_a_collection_and_its_end_is_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMIC_MONITOR", "True")
    model, optimizer = sgd_job()
    config = write_config(tmp_path / "config.json", dynamic_on=False, collect_times=2, **WG)
    monitor = TrainerMon(config)
    monitor.set_monitor(model, optimizer)
    outcomes = []

    def edit(step: int) -> None:
        if step == 3:
            config.write_text(config.read_text().replace('"dynamic_on": false', '"dynamic_on": true'))
            outcomes.append(monitor.refresh())

    train(model, optimizer, 8, before_step=edit)
    monitor.close()
    assert outcomes == ["armed"]
    assert {row["step"] for row in rows(tmp_path, "grad_reduced")} == {"4", "5"}
    assert json.loads(config.read_text())["dynamic_on"] is False


def test_a_broken_file_at_the_start_is_a_warning_in_dynamic_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DYNAMIC_MONITOR", "true")
    (tmp_path / "config.json").write_text('{"ops": 3}')
    model, optimizer = sgd_job()
    monitor = TrainerMon(tmp_path / "config.json")
    monitor.set_monitor(model, optimizer)
    train(model, optimizer, 1)
    write_config(tmp_path / "config.json", dynamic_on=True, **WG)
    assert monitor.refresh() == "armed"
    train(model, optimizer, 2)
    monitor.close()
    assert '"ops": found 3' in capfd.readouterr().out
    assert rows(tmp_path, "grad_reduced")


def hooks_of(model: torch.nn.Module) -> list[object]:
    found: list[object] = []
    for module in model.modules():
        found += [list(module._forward_hooks), list(module._forward_pre_hooks), list(module._backward_hooks)]
    for parameter in model.parameters():
        found += [list((parameter._post_accumulate_grad_hooks or {}).values()), parameter._backward_hooks]
    return found


def test_hooks_come_off_between_distant_samples(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    bare = hooks_of(model)
    hooked = []
    with watched(tmp_path, model, optimizer, step_interval=5, **XY, **WG):
        train(model, optimizer, 11, before_step=lambda step: hooked.append(hooks_of(model) != bare))
    assert hooked[0] and hooked[5] and hooked[10]
    assert not any(hooked[2:5]) and not any(hooked[7:10])
    for kind in ("actv", "actv_grad", "grad_unreduced"):
        assert steps_of(tmp_path, kind) == [0, 5, 10]


# --- what is left behind ---


def touched(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[object]:
    things: list[object] = [optimizer.__dict__.get("step"), type(optimizer).step, torch.amp.GradScaler.step]
    things += [dict(optimizer._optimizer_step_pre_hooks), dict(optimizer._optimizer_step_post_hooks)]
    things += [(module.__dict__.get("forward"), type(module).__call__) for module in model.modules()]
    return [*things, *hooks_of(model)]


def test_everything_touched_is_restored_at_close(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    before = touched(model, optimizer)
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        train(model, optimizer, 2)
        assert touched(model, optimizer) != before
        assert "step" not in vars(optimizer)
    assert touched(model, optimizer) == before
    train(model, optimizer, 1)
    assert steps_of(tmp_path, "grad_reduced") == [0, 1]


FORKING_JOB = """
import sys, torch
from pathlib import Path
sys.path.insert(0, {tests!r})
from jobs import mlp
from stepwatch import TrainerMon

class Data(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        worker_model(torch.ones(1, 4)).sum().backward()   # a hooked model that the fork has brought along
        return torch.ones(4)

model = worker_model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = TrainerMon("config.json")
monitor.set_monitor(model, optimizer)
torch.set_num_threads(1)
for step in range(3):
    for batch in torch.utils.data.DataLoader(Data(), batch_size=10, num_workers=2, multiprocessing_context="fork"):
        pass
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_data_loader_workers_have_no_monitor(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", xy_distribution=True, **WG)
    job = FORKING_JOB.format(tests=str(Path(__file__).parent))
    done = python_programs.run(["-c", job], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*-rank0-*"))) == 1
    for step in range(3):
        names = [row["name"] for row in rows(tmp_path, "actv", step)]
        assert len(names) == len(set(names)) == 10
    assert done.stdout.count("plan 1 finished") == 1  # at the end of the interpreter, of one process


def test_rows_are_written_when_training_ends_by_an_exception(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", **WG)
    job = FORKING_JOB.format(tests=str(Path(__file__).parent)).split("for step")[0] + (
        "model(torch.ones(2, 4)).sum().backward(); optimizer.step(); raise KeyError('the end')"
    )
    done = python_programs.run(["-c", job], cwd=tmp_path)
    assert "KeyError: 'the end'" in done.stderr
    assert len(rows(tmp_path, "grad_reduced", 0)) == 6


@pytest.mark.parametrize("process_group", [None, "not a group"])
def test_the_mates_of_a_rank_without_a_process_group_are_the_ranks_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process_group: object
) -> None:
    alert = {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 0}}], "dump": True}
    config = write_config(tmp_path / "config.json", alert=alert, collect_times=1, **WG)
    for rank, ranks in ((0, 1), (2, 3)):
        base = tmp_path / f"of_{ranks}"
        monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(base))
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        model, optimizer = sgd_job()
        monitor = TrainerMon(config, process_group=process_group)
        monitor.set_monitor(model, optimizer)
        train(model, optimizer, 1)
        monitor.close()
        assert monitor.group_mates == list(range(ranks))
        assert monitor.pp_stage == 0
        alarms = json.loads((base / f"anomaly_detected/rank{rank}/anomaly.json").read_text())
        assert alarms
        assert all(alarm["group_mates"] == list(range(ranks)) for alarm in alarms.values())


def test_metrics_of_a_missing_gradient_are_nan_for_every_statistic(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = TrainerMon(write_config(tmp_path / "config.json", xy_distribution=True, ops=["norm", "nans"]))
    monitor.set_monitor(model, optimizer)
    train(model, optimizer, 1)
    _, gradients = monitor.generate_xy_metrics()
    monitor.close()
    missing, there = gradients["0:.input:0/rank0/actv_grad"], gradients["0:.output:0/rank0/actv_grad"]
    assert list(missing) == list(there) == ["norm", "nans", "shape", "dtype"]
    assert all(math.isnan(float(number)) for number in missing.values())


def test_metrics_between_backward_and_step_have_the_inputs_without_a_gradient(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = TrainerMon(write_config(tmp_path / "config.json", xy_distribution=True, ops=["norm", "nans"]))
    monitor.set_monitor(model, optimizer)
    model(torch.ones(5, 4)).sum().backward()
    _, between = monitor.generate_xy_metrics()
    optimizer.step()
    _, after = monitor.generate_xy_metrics()
    monitor.close()
    assert between.keys() == after.keys()
    assert math.isnan(float(between["0:.input:0/rank0/actv_grad"]["norm"]))
    assert math.isnan(float(between["0:0.input:0/rank0/actv_grad"]["norm"]))
    assert not math.isnan(float(between["0:2.input:0/rank0/actv_grad"]["norm"]))
    names = [row["name"] for row in rows(tmp_path, "actv_grad", 0)]
    assert sorted(names) == sorted(set(names)), "a row twice"


def test_metrics_between_two_backward_passes_keep_the_gradient_that_comes_second(tmp_path: Path) -> None:
    class Pair(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a * 2, b * 3

    model, optimizer = sgd_job(
        torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "b": torch.nn.Linear(4, 4), "pair": Pair()})
    )
    monitor = TrainerMon(write_config(tmp_path / "config.json", xy_distribution=True, ops=["norm"]))
    monitor.set_monitor(model, optimizer)
    ones = torch.ones(5, 4)
    first, second = model["pair"](model["a"](ones), model["b"](ones))
    first.sum().backward()
    _, between = monitor.generate_xy_metrics()
    second.sum().backward()
    optimizer.step()
    monitor.close()
    assert "0:pair.input_1:0/rank0/actv_grad" not in between
    assert value(rows(tmp_path, "actv_grad", 0), "pair.input_1", "norm") == pytest.approx(math.sqrt(20) * 3)
