"""Torch's operators measure the values of that moment, whatever happens next."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
from jobs import rows, value
from on_slow_device import DEVICE, forgotten, slow_device  # noqa: F401
from other_devices_cases import job
from torch_engine_test import watching

import torch


class Overwriting(torch.optim.Optimizer):
    """An optimizer that leaves nothing of the weights and the gradients, of any shape, as it was."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.fill_(7.0)
            if parameter.grad is not None:
                parameter.grad.fill_(-7.0)


class Weights(torch.nn.Module):
    """One weight for each way in which tensors are measured: a single number, one element, small ones, a large one."""

    def __init__(self) -> None:
        super().__init__()
        for number, shape in enumerate([(), (1,), (1, 1), (5,), (5,), (5,), (5,), (6,), (20000,)]):
            self.register_parameter(f"w{number}", torch.nn.Parameter(torch.full(shape, 2.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.parameters():
            x = x + (weight * 3).sum()
        return x


@pytest.mark.parametrize("place", ["cpu", slow_device.NAME])
def test_tensors_that_are_overwritten_right_after_were_measured_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("STEPWATCH_ENGINE", "torch")
    model = Weights() if place == "cpu" else slow_device.moved(Weights())
    optimizer = Overwriting(model.parameters())
    config = {"param_distribution": True, "wg_distribution": True, "ops": ["min", "max", "mean", "id"]}
    with watching(tmp_path, model, optimizer, **config):
        DEVICE.stall()
        model(torch.zeros(()).to(place)).backward()
        optimizer.step()
        DEVICE.resume()
    expected = {"param_origin": 2, "grad_reduced": 3, "param_updated": 7}
    found = {
        kind: {float(row[stat]) for row in rows(tmp_path, kind) for stat in ("min", "max", "mean")} for kind in expected
    }
    assert found == {kind: {float(number)} for kind, number in expected.items()}
    assert all(len(rows(tmp_path, kind)) == len(list(model.parameters())) for kind in expected)


def test_an_activation_that_the_next_module_overwrites_was_measured_before(tmp_path: Path) -> None:
    class Zeroing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.zero_()

    model = torch.nn.Sequential(torch.nn.Identity(), Zeroing())
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(slow_device.moved(model).parameters(), lr=0.1)
    with watching(tmp_path, model, optimizer, xy_distribution=True), torch.no_grad():
        DEVICE.stall()
        model(torch.ones(3, 3).to(slow_device.NAME))
        optimizer.step()
        DEVICE.resume()
    table = rows(tmp_path, "actv", 0)
    assert [value(table, name, "max") for name in ("0.output", "1.input", "1.output")] == [1, 1, 0]


def test_a_measured_tensor_is_not_kept_until_its_numbers_are_sent(tmp_path: Path) -> None:
    model, optimizer = job()
    kept: list[Any] = []
    model[0].register_forward_hook(lambda module, args, output: kept.append(weakref.ref(output)))
    with watching(tmp_path, model, optimizer, xy_distribution=True):
        DEVICE.stall()
        with torch.no_grad():
            model(torch.ones(5, 4).to(slow_device.NAME))
        assert [reference() for reference in kept] == [None]
        optimizer.step()
        DEVICE.resume()
    assert value(rows(tmp_path, "actv", 0), "0.output", "norm") > 0
