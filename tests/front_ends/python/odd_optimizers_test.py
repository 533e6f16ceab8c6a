"""Optimizers of shapes that no framework here has: what can be right is, what cannot be known is told."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, train, value, write_config

import stepwatch
import torch
from stepwatch.frameworks.optimizer_adapter import parts_of

EVERYTHING = {"wg_distribution": True, "mv_distribution": True, "param_distribution": True}
PARAMETERS = 6


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


class InSlots:
    __slots__ = ("__dict__", "inner")

    def __init__(self, model: torch.nn.Module) -> None:
        self.inner = torch.optim.Adam(model.parameters())

    def step(self) -> None:
        halve(self.inner.param_groups[0]["params"])
        self.inner.step()

    def zero_grad(self) -> None:
        self.inner.zero_grad()


@pytest.mark.parametrize("kind", [Around, InSlots])
def test_an_optimizer_of_torchs_is_found_wherever_it_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: Any
) -> None:
    model = mlp()
    optimizer = kind(model)
    with watched(tmp_path, model, optimizer):
        train(model, optimizer, 4)
    for step in range(4):
        before, after = (rows(tmp_path, name, step) for name in ("grad_unreduced", "grad_reduced"))
        assert value(after, "3.weight", "norm") == pytest.approx(value(before, "3.weight", "norm") / 2)
    assert len(rows(tmp_path, "exp_avg", 3)) == PARAMETERS
    assert "no rows" not in capfd.readouterr().out


def test_long_lists_are_not_looked_into() -> None:
    class Holder:
        def __init__(self) -> None:
            self.history = [torch.optim.SGD(mlp().parameters(), lr=0.1)] + [0.0] * 100_000

    holder = Holder()
    assert parts_of(holder) == [holder]


class OwnKernels(torch.optim.Optimizer):
    """Updates by itself; reduces in its step if asked to."""

    def __init__(self, model: torch.nn.Module, reduces: bool) -> None:
        super().__init__(model.parameters(), {"lr": 0.1})
        self.reduces = reduces

    def step(self, closure: Any = None) -> None:
        parameters = self.param_groups[0]["params"]
        if self.reduces:
            halve(parameters)
        for parameter in parameters:
            parameter.data -= 0.1 * parameter.grad


def test_a_class_that_leaves_gradients_as_they_are_has_reduced_ones_from_the_first_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    optimizer = OwnKernels(model, reduces=False)
    with watched(tmp_path, model, optimizer):
        train(model, optimizer, 4)
    for step in range(4):
        before, after = (rows(tmp_path, name, step) for name in ("grad_unreduced", "grad_reduced"))
        assert {row["name"]: row["norm"] for row in after} == {row["name"]: row["norm"] for row in before}
        assert len(after) == PARAMETERS
    assert "grad_reduced has no rows" not in capfd.readouterr().out


def test_gradients_that_change_in_the_step_of_a_class_of_ones_own_are_not_called_reduced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    optimizer = OwnKernels(model, reduces=True)
    with watched(tmp_path, model, optimizer):
        train(model, optimizer, 4)
    assert rows(tmp_path, "grad_reduced") == []
    assert capfd.readouterr().out.count("grad_reduced has no rows for 6 of 6 parameters") == 1
    assert len(rows(tmp_path, "param_updated")) == 4 * PARAMETERS


class FusedWithBackward:
    """Updates each parameter when its gradient is there, and lets the gradient go; it has no step."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.norms = dict[str, float]()
        for name, parameter in model.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda own, name=name: self.update(name, own))

    def update(self, name: str, parameter: Any) -> None:
        self.norms[name] = float(parameter.grad.double().norm())
        parameter.data.sub_(parameter.grad, alpha=0.1)
        parameter.grad = None

    def fused_backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def step(self) -> None:
        raise AssertionError("never called")


def test_an_optimizer_that_updates_in_the_backward_pass_alone_has_unreduced_gradients_and_a_line_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    optimizer = FusedWithBackward(model)
    expected = []
    with watched(tmp_path, model, optimizer) as monitor:
        for _ in range(20):
            optimizer.fused_backward(model(torch.randn(3, 4)).pow(2).mean())
            expected.append(dict(optimizer.norms))
            monitor.end_step()
    for step, norms in enumerate(expected):
        found = {row["name"]: float(row["norm"]) for row in rows(tmp_path, "grad_unreduced", step)}
        assert found == pytest.approx(norms, rel=1e-5), step
    told = capfd.readouterr().out
    assert told.count("have no rows: they are read around a step of FusedWithBackward, and none was seen") == 1


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
