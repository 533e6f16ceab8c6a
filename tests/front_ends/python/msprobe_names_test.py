"""Names that scripts written for msProbe import besides TrainerMon: checks, helpers, context classes."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import pytest
from jobs import sgd_job, train, write_config

import stepwatch
import torch
from stepwatch import TrainerMon, _core
from stepwatch.core.monitor import utils
from stepwatch.pytorch.monitor import csv2tb, module_hook
from stepwatch.pytorch.monitor.utils import get_nan_tensor, get_param_struct


@pytest.mark.parametrize(
    "name",
    [
        "pytorch",
        "pytorch.monitor.module_hook",
        "pytorch.monitor.csv2tb",
        "core.monitor.anomaly_processor",
        "core.monitor.csv2db",
        "core.monitor.utils",
    ],
)
def test_modules_are_where_msprobe_has_them(name: str) -> None:
    assert importlib.import_module(f"stepwatch.{name}")
    assert importlib.import_module("stepwatch.pytorch").TrainerMon is stepwatch.TrainerMon


def test_the_check_of_ops_knows_every_statistic_of_the_config() -> None:
    assert utils.validate_ops(list(_core.OPS)) == list(_core.OPS)
    assert {"norm", "abs_max"} < set(_core.OPS)
    assert utils.validate_ops(["median", "max"]) == ["max", "shape", "dtype"]
    assert utils.validate_ops([]) == ["norm", "shape", "dtype"]


@pytest.mark.parametrize(
    ("check", "good", "bad", "error"),
    [
        (utils.validate_ndigits, 6, 0.5, ValueError),
        (utils.validate_ranks, [0, 1], [True], TypeError),
        (utils.validate_ranks, [], "0", TypeError),
        (utils.validate_targets, {"fc": {}}, ["fc"], TypeError),
        (utils.validate_print_struct, True, 1, TypeError),
        (utils.validate_xy_distribution, False, "false", TypeError),
        (utils.validate_cc_distribution, {"enable": True}, {"enabled": True}, TypeError),
        (utils.validate_alert, {"rules": []}, {"rules": [{"rule_name": "Other"}]}, TypeError),
        (utils.validate_step_count_per_record, 10, 0, ValueError),
        (utils.validate_append_output, [], ["a", "b", "c"], ValueError),
        (utils.validate_l2_targets, {"linear_hook": []}, {"linear": []}, TypeError),
        (utils.validate_sa_order, "b,s,h,d", "d,h,s,b", TypeError),
    ],
)
def test_a_check_takes_what_the_config_takes(check: Any, good: Any, bad: Any, error: type[Exception]) -> None:
    check(good)
    with pytest.raises(error):
        check(bad)


def test_a_config_without_digits_is_checked_as_none() -> None:
    utils.validate_ndigits(None)


def test_a_checked_config_has_the_values_that_are_used() -> None:
    config: dict[str, Any] = {"ops": ["max", "nonsense"], "start_step": -1, "xy_distribution": True}
    utils.validate_config(config)
    assert config["ops"] == ["max", "shape", "dtype"]
    assert (config["start_step"], config["collect_times"], config["step_interval"]) == (0, 100_000_000, 1)
    assert config["targets"] == {"": {}} and config["all_xy"] is True
    with pytest.raises(TypeError, match='^"eps": found "tiny"'):  # there is no text with lines and columns
        utils.validate_config({"eps": "tiny"})


def test_times_of_directories_are_read_on_a_leap_day_too() -> None:
    assert utils.time_str2time_digit("Feb29_12-00-01") < utils.time_str2time_digit("Mar01_00-00-00")
    with pytest.raises(RuntimeError, match="illegal timestamp"):
        utils.time_str2time_digit("yesterday")
    with pytest.raises(TypeError):
        utils.time_str2time_digit(3)  # type: ignore[arg-type]


def test_structures_are_described_as_in_module_struct_json() -> None:
    assert get_param_struct(torch.ones(2, 3)) == {"config": "tensor", "tensor": "size=(2, 3), dtype=torch.float32"}
    assert get_param_struct((torch.ones(1), 7)) == {
        "config": "tuple[2]",
        0: "size=(1,), dtype=torch.float32",
        1: "<class 'int'>",
    }
    assert torch.isnan(get_nan_tensor()) and get_nan_tensor() is get_nan_tensor()


def test_contexts_can_be_filled_joined_and_emptied() -> None:
    context = module_hook.CommunicationContext()
    context.data = {"a": {"min": [2, 1], "norm": [3.0, 4.0], "nans": [1, 2], "mean": [1.0, 2.0], "dtype": ["x"]}}
    context.aggregate()
    joined = context.data["a"]
    assert (joined["min"], joined["norm"], joined["nans"], joined["mean"]) == (1, 5, 3, 1.5)
    assert math.isnan(joined["dtype"])
    context.data = {"min": {"pre_0": 4}}
    assert TrainerMon.generate_cc_metrics("send", context) == {"min": {"send/pre_0": 4}}
    assert context.data == {}


def test_the_weight_of_a_layer_is_named() -> None:
    assert TrainerMon.get_linear_hook_target(torch.nn.Linear(2, 2)) == "weight"
    assert TrainerMon.get_linear_hook_target(torch.nn.Embedding(2, 2)) == ""
    assert TrainerMon.get_linear_hook_target(torch.nn.LayerNorm(2)) == ""


def test_a_file_of_a_run_that_goes_on_converts_and_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    model, optimizer = sgd_job()
    config = write_config(tmp_path / "config.json", wg_distribution=True, step_count_per_record=3)
    monitor = TrainerMon(config)
    monitor.set_monitor(model, optimizer)
    train(model, optimizer, 10)
    csv2tb.csv2tensorboard_by_step(str(tmp_path / "out"))
    (run,) = (tmp_path / "out").glob("*-rank0-*")
    found = csv2tb.parse_step_fn(run / "grad_reduced_9-11.csv")
    assert list(found["vp0:0.weight"]) == [9]
    assert found["vp0:0.weight"][9]["norm"] > 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (converted,) = (tmp_path / "out").glob("*csv2tensorboard*/rank0/grad_reduced")
    events = EventAccumulator(str(converted))
    events.Reload()
    assert [event.step for event in events.Scalars("vp0:0.weight/norm")] == list(range(10))
    monitor.close()


def test_entries_of_several_files_are_put_together_once() -> None:
    assert csv2tb.update_dict({"a": {"x": 1}}, {"a": {"y": 2}}) == {"a": {"x": 1, "y": 2}}
    with pytest.raises(ValueError, match="duplicate key: x"):
        csv2tb.update_dict({"a": {"x": 1}}, {"a": {"x": 2}})
