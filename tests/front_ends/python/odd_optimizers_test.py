"""Optimizers of shapes that no framework here has: what can be right is, what cannot be known is told."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, train, write_config

import stepwatch
import torch

EVERYTHING = {"wg_distribution": True, "mv_distribution": True, "param_distribution": True}


@pytest.fixture(autouse=True)
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("stepwatch.watch"), "rank_and_world_size", lambda: (0, 2))


def watched(tmp_path: Path, model: torch.nn.Module, optimizer: Any) -> stepwatch.Watch:
    path = write_config(tmp_path / "config.json", **EVERYTHING)
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path)


def halve(parameters: Any) -> None:
    """Do what a sum over two ranks with alike data, and its division, would leave behind."""
    for parameter in parameters:
        parameter.grad.mul_(0.5)


class Around:
    """Reduces by hand, and has an optimizer of torch's step that nobody would look for where it is."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.q_x9 = [{"first": (torch.optim.Adam(model.parameters()),)}]

    @property
    def inner(self) -> Any:
        return self.q_x9[0]["first"][0]

    def step(self) -> None:
        halve(self.inner.param_groups[0]["params"])
        self.inner.step()

    def zero_grad(self) -> None:
        self.inner.zero_grad()


def test_a_step_that_somebody_gives_the_class_later_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(Around):
        pass

    model, calls = mlp(), list[Any]()

    def step(self: Any) -> None:
        calls.append(self)
        Around.step(self)

    optimizer = Plain(model)
    with watched(tmp_path, model, optimizer) as monitor:
        train(model, optimizer, 1)
        Plain.step = step  # type: ignore[method-assign]
        train(model, optimizer, 2)
        assert monitor.status()["step"] == 3
    assert len(calls) == 2
