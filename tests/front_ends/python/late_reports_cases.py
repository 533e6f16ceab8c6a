"""Numbers that are reported from a device: no wait for it, and each told of its own step when it has come."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs import sgd_job, write_config
from on_slow_device import DEVICE, forgotten, slow_device  # noqa: F401

import stepwatch
import torch


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[stepwatch.Watch, torch.optim.Optimizer]]:
    model, optimizer = sgd_job(lr=0.125)
    path = write_config(tmp_path / "config.json", targets={}, dynamic_on=False)
    # The path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="sw") as sockets:
        monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", sockets)
        with stepwatch.watch(model, optimizer, config=path, dynamic=True, output_dir=tmp_path / "out") as monitor:
            yield monitor, optimizer


def losses() -> dict[int, Any]:
    deadline = time.monotonic() + 20
    while not stepwatch.jobs():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (found,) = stepwatch.jobs()
    lines = found.beats()["beats"]
    return {line["beat"]["step"]: line["beat"]["loss"] for line in lines if "loss" in line.get("beat", {})}


def on_device(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype).to(slow_device.NAME)


def test_no_report_waits_for_the_device_and_each_number_is_told_of_its_step(
    job: tuple[stepwatch.Watch, torch.optim.Optimizer],
) -> None:
    _, optimizer = job
    values = [on_device(2.5), on_device(2.25, torch.bfloat16), on_device(float("nan"))]
    DEVICE.waits.clear()
    DEVICE.stall()
    for value in values:
        stepwatch.report(loss=value, tokens=8)
        optimizer.step()
    assert DEVICE.waits == []
    assert losses() == {}
    DEVICE.resume()
    optimizer.step()
    assert DEVICE.waits == []
    assert losses() == {0: 2.5, 1: 2.25, 2: "nan"}


def test_a_device_without_doubles_gives_its_numbers_as_floats(
    job: tuple[stepwatch.Watch, torch.optim.Optimizer],
) -> None:
    _, optimizer = job
    DEVICE.has_double = False
    stepwatch.report(loss=on_device(0.1))
    optimizer.step()
    optimizer.step()
    assert losses() == {0: float(torch.tensor(0.1))}


def test_a_device_that_never_answers_costs_numbers_and_no_memory_without_a_bound(
    job: tuple[stepwatch.Watch, torch.optim.Optimizer], capfd: pytest.CaptureFixture[str]
) -> None:
    monitor, optimizer = job
    value = on_device(1.0)
    DEVICE.stall()
    for _ in range(200):
        stepwatch.report(loss=value)
        optimizer.step()
    assert len(monitor.reporter.late.under_way) == 64
    assert monitor.reporter.late.dropped == 200 - 64
    DEVICE.resume()
    optimizer.step()
    assert sorted(losses()) == list(range(200 - 64, 200))
    assert "".join(capfd.readouterr()).count("did not come in time") == 1


def test_a_device_that_fails_costs_the_number_and_nothing_else(
    job: tuple[stepwatch.Watch, torch.optim.Optimizer], capfd: pytest.CaptureFixture[str]
) -> None:
    _, optimizer = job
    value = on_device(1.0)
    DEVICE.failing.update(("stack", "cat", "_to_copy", "copy_", "detach", "reshape", "view"))
    for _ in range(3):
        stepwatch.report(loss=value, tokens=4)
        optimizer.step()
    DEVICE.failing.clear()
    assert losses() == {}
    assert "".join(capfd.readouterr()).count("stepwatch.report failed") <= 1
