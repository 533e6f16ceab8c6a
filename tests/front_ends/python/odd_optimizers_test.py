"""Optimizers of shapes that no framework here has: their rows are right, or a line reports that they are missing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from jobs import PARAMETERS, mlp, norms, rows, steps_of, train, watched

import torch
from stepwatch.frameworks.optimizer_adapter import parts_of

PARAMETERS_OF_MLP = 6


@pytest.fixture(autouse=True)
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("stepwatch.watch"), "rank_and_world_size", lambda: (0, 2))


def halve(parameters: Any) -> None:
    """Do what a sum over two ranks with alike data, and its division, would leave behind."""
    for parameter in parameters:
        parameter.grad.mul_(0.5)


class Around:
    """Reduces by hand, and has an optimizer of torch's step that nobody would look for where it is."""

    skips = False

    def __init__(self, model: torch.nn.Module) -> None:
        self.q_x9 = [{"first": (torch.optim.Adam(model.parameters()),)}]

    @property
    def inner(self) -> Any:
        return self.q_x9[0]["first"][0]

    def step(self) -> None:
        halve(self.inner.param_groups[0]["params"])
        if not self.skips:
            self.inner.step()

    def zero_grad(self) -> None:
        self.inner.zero_grad()


class InSlots(Around):
    __slots__ = ("_inner",)

    def __init__(self, model: torch.nn.Module) -> None:
        self._inner = torch.optim.Adam(model.parameters())

    @property
    def inner(self) -> Any:
        return self._inner


class InAnother(Around):
    """Wraps an object that wraps the optimizer."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.optimizer = InSlots(model)

    @property
    def inner(self) -> Any:
        return self.optimizer.inner


@pytest.mark.parametrize("kind", [Around, InAnother, InSlots])
def test_an_optimizer_of_torchs_is_found_wherever_it_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: Any
) -> None:
    model = mlp()
    optimizer = kind(model)
    with watched(tmp_path, model, optimizer, **PARAMETERS) as monitor:
        for step in range(5):
            optimizer.skips = step == 2
            train(model, optimizer, 1)
        assert monitor.status()["step"] == 5
    for step in (0, 1, 3, 4):
        halves = {name: each / 2 for name, each in norms(tmp_path, "grad_unreduced", step).items()}
        assert norms(tmp_path, "grad_reduced", step) == pytest.approx(halves)
    assert steps_of(tmp_path, "param_origin") == [0, 1, 2, 3, 4]
    assert steps_of(tmp_path, "param_updated") == [0, 1, 3, 4]
    assert len(rows(tmp_path, "exp_avg", 3)) == len(rows(tmp_path, "exp_avg_sq", 3)) == PARAMETERS_OF_MLP
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
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        train(model, optimizer, 4)
    for step in range(4):
        assert norms(tmp_path, "grad_reduced", step) == norms(tmp_path, "grad_unreduced", step)
        assert len(norms(tmp_path, "grad_reduced", step)) == PARAMETERS_OF_MLP
    assert "grad_reduced has no rows" not in capfd.readouterr().out


class ByItself:
    """Is no optimizer of torch's, and leaves gradients as they are."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters = list(model.parameters())

    def step(self) -> None:
        for parameter in self.parameters:
            parameter.data -= parameter.grad

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda model: OwnKernels(model, reduces=True), "under OwnKernels"),
        (ByItself, "under ByItself: it is unknown whether its gradients are reduced when its step begins"),
    ],
    ids=["changes them", "may change them"],
)
def test_gradients_that_a_class_of_ones_own_may_change_in_its_step_are_not_called_reduced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make: Any, reason: str
) -> None:
    model = mlp()
    optimizer = make(model)
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        train(model, optimizer, 4)
    assert rows(tmp_path, "grad_reduced") == []
    for kind in ("grad_unreduced", "param_origin", "param_updated"):
        assert len(rows(tmp_path, kind)) == 4 * PARAMETERS_OF_MLP, kind
    printed = capfd.readouterr().out
    assert printed.count("grad_reduced has no rows for 6 of 6 parameters") == 1
    assert reason in printed


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


def test_an_optimizer_that_updates_in_the_backward_pass_alone_has_unreduced_gradients_and_a_line_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    optimizer = FusedWithBackward(model)
    expected = []
    with watched(tmp_path, model, optimizer, **PARAMETERS) as monitor:
        for _ in range(20):
            optimizer.fused_backward(model(torch.randn(3, 4)).pow(2).mean())
            expected.append(dict(optimizer.norms))
            monitor.end_step()
    for step, right in enumerate(expected):
        assert norms(tmp_path, "grad_unreduced", step) == pytest.approx(right, rel=1e-5), step
    printed = capfd.readouterr().out
    assert printed.count("have no rows: they are read around a step of FusedWithBackward, and none was seen") == 1


def test_a_step_that_somebody_gives_the_class_later_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(Around):
        pass

    model, calls = mlp(), list[Any]()

    def step(self: Any) -> None:
        calls.append(self)
        Around.step(self)

    optimizer = Plain(model)
    with watched(tmp_path, model, optimizer, **PARAMETERS) as monitor:
        train(model, optimizer, 1)
        Plain.step = step  # type: ignore[method-assign]
        train(model, optimizer, 2)
        assert monitor.status()["step"] == 3
    assert len(calls) == 2
