"""Tensors on a device that no engine of ours reads: all rows, and no step that waits for the device."""

from __future__ import annotations

import csv
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from jobs import rows, sgd_job, write_config
from on_slow_device import DEVICE, forgotten, slow_device  # noqa: F401
from torch.utils._python_dispatch import TorchDispatchMode
from torch_engine_test import ALL, EVERYTHING, EXACT, KINDS, differences

import stepwatch
import torch

STEPS = 3


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)
    )


def watched(directory: Path, model: torch.nn.Module, optimizer: Any, **config: Any) -> stepwatch.Watch:
    directory.mkdir(exist_ok=True)
    path = write_config(directory / "config.json", **{"ops": ALL, **EVERYTHING, **config})
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=directory)


def steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer, place: str, count: int = STEPS) -> None:
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        model(torch.randn(5, 4, generator=generator).to(place)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def on_cpu(directory: Path, **config: Any) -> dict[str, list[dict[str, str]]]:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with watched(directory / "cpu", model, optimizer, **config):
        steps(model, optimizer, "cpu")
    return {kind: rows(directory / "cpu", kind) for kind in KINDS}


def job() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = slow_device.moved(network())
    return model, torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)


def wrong_rows(directory: Path, tolerance: float = 1e-5, **config: Any) -> dict[str, list[str]]:
    """Compare the rows in a directory with those of the same training in CPU memory, which rounds in its own way."""
    expected = on_cpu(directory, **config)
    assert all(expected.values())
    exact = [key for key in EXACT if key not in ("min", "max", "abs_max")]
    found = {kind: differences(expected[kind], rows(directory / "slow", kind), tolerance, exact) for kind in KINDS}
    return {kind: wrong for kind, wrong in found.items() if wrong}


class NoWaiting(TorchDispatchMode):
    """Lists what is dispatched, and refuses every operator that makes the host wait for the device."""

    REFUSED = ("item", "_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique", "allclose")

    def __init__(self) -> None:
        super().__init__()
        self.copies_off = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        kwargs = kwargs or {}
        if any(isinstance(each, torch.Tensor) and each.device.type == slow_device.NAME for each in args):
            assert name not in self.REFUSED
            if name == "_to_copy" and kwargs.get("device") is not None:
                assert kwargs["device"].type == slow_device.NAME
            if name == "copy_" and args[0].device.type == "cpu":
                assert args[2:] == (True,) or kwargs.get("non_blocking")
                self.copies_off += 1
        return func(*args, **kwargs)


def ledgers(directory: Path) -> list[dict[str, Any]]:
    """Return the account of each plan."""
    (manifest,) = directory.glob("*-rank0-*/manifest.json")
    return [plan["ledger"] for plan in json.loads(manifest.read_text())["plans"]]


def is_complete(ledger: dict[str, Any]) -> bool:
    """Tell whether every row that was seen is written."""
    return 0 < ledger["produced"] == ledger["written"]


def is_balanced(ledger: dict[str, Any]) -> bool:
    """Tell whether every row that was seen is written, or counted as dropped."""
    return 0 < ledger["produced"] == ledger["written"] + sum(ledger["dropped"].values())


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    """Return the output until now."""
    out = capfd.readouterr()
    return out.out + out.err


def test_rows_are_those_of_the_same_training_in_cpu_memory(tmp_path: Path) -> None:
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer):
        steps(model, optimizer, slow_device.NAME)
    assert wrong_rows(tmp_path) == {}
    assert [is_complete(ledger) for ledger in ledgers(tmp_path / "slow")] == [True]


def test_no_step_waits_for_the_device_and_one_copy_brings_the_numbers_of_a_step(tmp_path: Path) -> None:
    model, optimizer = job()
    monitor = watched(tmp_path / "slow", model, optimizer)
    DEVICE.stall()
    with NoWaiting() as operators:
        steps(model, optimizer, slow_device.NAME)
    assert DEVICE.waits == []
    assert DEVICE.copies == operators.copies_off == STEPS
    assert rows(tmp_path / "slow", "param_origin") == []  # nothing has arrived
    DEVICE.resume()
    monitor.close()
    # Numbers that were under way for longer than 5 s are dropped.
    assert [is_balanced(ledger) for ledger in ledgers(tmp_path / "slow")] == [True]


def test_the_end_of_a_run_brings_the_numbers_that_nobody_has_sent_off(tmp_path: Path) -> None:
    model, optimizer = job()
    monitor = watched(tmp_path / "slow", model, optimizer)
    steps(model, optimizer, slow_device.NAME, 1)
    model(torch.ones(5, 4).to(slow_device.NAME))  # of a step that nobody ends
    monitor.close()
    assert [is_complete(ledger) for ledger in ledgers(tmp_path / "slow")] == [True]
    assert {row["step"] for row in rows(tmp_path / "slow", "actv")} == {"0", "1"}


def test_the_end_of_a_run_waits_for_the_numbers_that_are_under_way(tmp_path: Path) -> None:
    model, optimizer = sgd_job(slow_device.moved(torch.nn.Linear(2, 2)))
    config = write_config(tmp_path / "config.json", param_distribution=True)
    monitor = stepwatch.watch(model, optimizer, config, dynamic=False, output_dir=tmp_path)
    DEVICE.stall()
    optimizer.step()
    arriving = threading.Thread(target=DEVICE.resume)
    arriving.start()
    monitor.close()
    arriving.join()
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True]


def test_numbers_of_a_plan_arrive_when_the_next_one_is_in_force(tmp_path: Path) -> None:
    model, optimizer = sgd_job(slow_device.moved(torch.nn.Linear(2, 2)))
    with watched(tmp_path, model, optimizer, ops=["norm"], param_distribution=True) as monitor:
        DEVICE.stall()
        optimizer.step()
        monitor.amend(ops=["max", "nans"])
        optimizer.step()
        DEVICE.resume()
    found: dict[str, set[str]] = {}
    for file in tmp_path.glob("*/param_origin_*.csv"):
        with file.open(newline="") as text:
            for row in csv.DictReader(text):
                found.setdefault("norm" if "norm" in row else "max", set()).add(row["step"])
    assert found == {"norm": {"0"}, "max": {"1"}}
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True, True]


def test_values_that_are_read_in_the_middle_of_a_step_come_from_the_device(tmp_path: Path) -> None:
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer) as monitor:
        model(torch.ones(5, 4).to(slow_device.NAME))
        latest = {name: values for _, name, _, values in monitor.latest("actv")}
        assert latest["0.input"]["max"] == 1
        assert latest["0.input"]["norm"] == pytest.approx(20**0.5)


def test_a_device_without_float64_is_measured_in_float32_and_that_is_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    DEVICE.has_double = False
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer):
        steps(model, optimizer, slow_device.NAME)
    assert wrong_rows(tmp_path, 1e-4) == {}
    assert printed(capfd).count("measured there by torch's operators, in float32: the device has no float64") == 1


@pytest.mark.parametrize(
    "missing",
    [
        {"aminmax", "linalg_vector_norm", "_foreach_norm"},
        {"aminmax", "amin", "amax"},
        {"stack", "cat"},
        {"ne"},
    ],
    ids=lambda names: " ".join(sorted(names)),
)
def test_rows_are_the_same_where_operators_are_missing_that_others_can_stand_for(
    tmp_path: Path, missing: set[str]
) -> None:
    DEVICE.missing = missing
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer):
        with NoWaiting():
            steps(model, optimizer, slow_device.NAME)
    assert wrong_rows(tmp_path) == {}


def test_a_statistic_that_no_operator_gives_is_nan_and_reported_once_and_the_others_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    DEVICE.missing = {"aminmax", "amin", "amax", "min", "max"}
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer, ops=["norm", "mean", "min", "zeros", "nans"]):
        with NoWaiting():
            steps(model, optimizer, slow_device.NAME)
    assert (
        printed(capfd).count("slow has no operator for min and max of torch.float32; the rows of such tensors have")
        == 1
    )
    expected = on_cpu(tmp_path, ops=["norm", "mean", "zeros", "nans"])
    for kind in KINDS[:-1]:  # the last has numbers of its own
        found = rows(tmp_path / "slow", kind)
        assert {row.pop("min") for row in found} <= {"nan"}
        assert differences(expected[kind], found) == []
    assert is_complete(ledgers(tmp_path / "slow")[0])


def test_a_device_that_fails_costs_rows_and_no_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer):
        DEVICE.failing = {"copy_"}
        steps(model, optimizer, slow_device.NAME, 2)
    assert printed(capfd).count("cannot be copied to the host; their rows are dropped as late") == 1
    assert [is_balanced(ledger) for ledger in ledgers(tmp_path / "slow")] == [True]


def weights_after(model: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().raw.clone() for parameter in model.parameters()]


@pytest.mark.parametrize(
    "failing", [{"aminmax", "amin", "amax", "min", "max"}, {"cat", "copy_"}], ids=["operators", "copies"]
)
def test_a_device_that_fails_for_a_step_costs_its_rows_and_the_next_step_has_all(
    tmp_path: Path, failing: set[str], capfd: pytest.CaptureFixture[str]
) -> None:
    bare, bare_optimizer = job()
    steps(bare, bare_optimizer, slow_device.NAME, 3)
    model, optimizer = job()
    with watched(tmp_path, model, optimizer):
        for step in range(3):
            DEVICE.failing = failing if step == 1 else set()
            generator = torch.Generator().manual_seed(7)
            x = [torch.randn(5, 4, generator=generator) for _ in range(step + 1)][-1].to(slow_device.NAME)
            model(x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(weights_after(bare), weights_after(model)))
    (ledger,) = ledgers(tmp_path)
    assert is_balanced(ledger)
    assert sum(ledger["dropped"].values()) > 0
    table = rows(tmp_path, "param_origin")
    assert {row["step"] for row in table} == {"0", "2"}
    assert "nan" not in {row["min"] for row in table}
    lines = printed(capfd)
    assert any(text in lines for text in ("its device failed to measure it", "cannot be copied to the host"))


def test_the_time_that_operators_take_is_shown_as_the_cost_of_measuring(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = job()
    with watched(tmp_path / "slow", model, optimizer):
        steps(model, optimizer, slow_device.NAME)
    shown = re.search(r"measuring took ([0-9.]+) ms a collected step", printed(capfd))
    assert shown is not None
    assert float(shown[1]) > 0
