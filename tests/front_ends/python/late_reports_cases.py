"""Numbers that are reported from a device: no wait for it, and each belongs to its own step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs import lines_of_job, sgd_job, watched
from on_slow_device import DEVICE, forgotten, slow_device  # noqa: F401

import stepwatch
import torch


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[tuple[stepwatch.Watch, torch.optim.Optimizer]]:
    model, optimizer = sgd_job(lr=0.125)
    with watched(tmp_path, model, optimizer, dynamic=True, dynamic_on=False, targets={}) as monitor:
        yield monitor, optimizer


def losses() -> dict[int, Any]:
    beats = [line["beat"] for line in lines_of_job() if "beat" in line]
    return {beat["step"]: beat["loss"] for beat in beats if "loss" in beat}


def on_device(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype).to(slow_device.NAME)


def test_no_report_waits_for_the_device_and_each_number_belongs_to_its_step(
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
