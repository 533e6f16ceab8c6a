"""Parameters that the optimizer does not list have their rows as well: it wraps another one, or updates copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, train, write_config

import torch
from stepwatch import TrainerMon

NAMES = {"0.bias", "0.weight", "2.bias", "2.weight", "3.bias", "3.weight"}


class Wrapper:
    """Updates by another optimizer, and lists nothing."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.optimizer = torch.optim.Adam(model.parameters())

    def step(self) -> None:
        self.optimizer.step()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()


class OfCopies:
    """Updates copies in float64, and lists these."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.pairs = [(parameter, parameter.detach().double()) for parameter in model.parameters()]
        self.inner = torch.optim.SGD([copy for _, copy in self.pairs], lr=0.1)
        self.param_groups = self.inner.param_groups

    def step(self) -> None:
        for parameter, copy in self.pairs:
            copy.grad = parameter.grad.double()
        self.inner.step()
        with torch.no_grad():
            for parameter, copy in self.pairs:
                parameter.copy_(copy)

    def zero_grad(self) -> None:
        for parameter, _ in self.pairs:
            parameter.grad = None


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    write_config(tmp_path / "config.json", wg_distribution=True, param_distribution=True, mv_distribution=True)
    return tmp_path


def names(base: Path, kind: str, step: int) -> set[str]:
    return {row["name"] for row in rows(base / "out", kind, step)}


@pytest.mark.parametrize("optimizer", [Wrapper, OfCopies])
def test_weights_and_gradients_of_unlisted_parameters_have_rows(base: Path, optimizer: Any) -> None:
    model = mlp()
    updater = optimizer(model)
    monitor = TrainerMon(base / "config.json")
    monitor.set_monitor(model, updater)
    train(model, updater, 2)
    monitor.close()
    for kind in ("grad_unreduced", "grad_reduced", "param_origin", "param_updated"):
        assert names(base, kind, 1) == NAMES, kind
    before, after = rows(base / "out", "param_updated", 0), rows(base / "out", "param_origin", 1)
    assert [row["norm"] for row in before] == [row["norm"] for row in after]


def test_the_moments_of_a_wrapped_optimizer_are_read(base: Path) -> None:
    model = mlp()
    updater = Wrapper(model)
    monitor = TrainerMon(base / "config.json")
    monitor.set_monitor(model, updater)
    train(model, updater, 2)
    monitor.close()
    assert names(base, "exp_avg", 1) == names(base, "exp_avg_sq", 1) == NAMES


def test_an_optimizer_that_was_not_handed_over_costs_no_rows(base: Path) -> None:
    model = mlp()
    first = torch.optim.Adam(model[0].parameters())
    second = torch.optim.Adam([*model[2].parameters(), *model[3].parameters()])
    monitor = TrainerMon(base / "config.json")
    monitor.set_monitor(model, first)
    train(model, first, 2, before_step=lambda step: second.step())
    monitor.close()
    for kind in ("grad_reduced", "param_origin", "param_updated"):
        assert names(base, kind, 1) == NAMES, kind
    assert names(base, "exp_avg", 1) == {"0.bias", "0.weight"}
