"""A kind of rows that a plan selects and that never comes is reported once, and no other kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jobs import TENSORS, adam_job, mlp, rows, sgd_job, train, train_scaled, watched

import torch


def run(tmp_path: Path, model: torch.nn.Module, optimizer: Any, steps: int = 4, **config: Any) -> None:
    with watched(tmp_path, model, optimizer, **{**TENSORS, **config}):
        train(model, optimizer, steps)


def test_no_line_is_printed_if_no_rows_are_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = mlp()
    unused = torch.nn.Linear(3, 3)
    model[0].unused = unused  # never called, and without gradients
    model[2].weight.requires_grad_(False)
    run(tmp_path, model, torch.optim.Adam(model.parameters()))
    assert "no rows" not in capfd.readouterr().out


class TakesGradients:
    """Moves gradients to a place of its own as soon as they are there, and keeps moments there."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.masters = [(parameter, parameter.detach().clone()) for parameter in model.parameters()]
        self.inner = torch.optim.Adam([master for _, master in self.masters])
        for parameter, master in self.masters:
            parameter.register_post_accumulate_grad_hook(lambda own, master=master: self.take(own, master))

    def take(self, parameter: Any, master: torch.Tensor) -> None:
        master.grad, parameter.grad = parameter.grad, None

    def step(self) -> None:
        self.inner.step()
        with torch.no_grad():
            for parameter, master in self.masters:
                parameter.copy_(master)

    def zero_grad(self) -> None:
        self.inner.zero_grad()


def test_kinds_without_rows_are_reported_with_count_class_and_remedy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    run(tmp_path, model, TakesGradients(model))
    printed = capfd.readouterr().out
    assert rows(tmp_path, "grad_reduced") == rows(tmp_path, "exp_avg") == []
    assert len(rows(tmp_path, "param_updated")) == 4 * 6
    assert printed.count("grad_reduced has no rows for 6 of 6 parameters (0.weight is one) under TakesGradients") == 1
    assert printed.count("TakesGradients keeps no exp_avg and exp_avg_sq for 6 parameters") == 1
    assert printed.count("pass the monitor the optimizer that holds the parameters of the model itself") >= 2
    assert "param_" not in "".join(line for line in printed.splitlines() if "no rows" in line)


class OfOneMoment(torch.optim.Optimizer):
    """Keeps one of Adam's moments under its name, and something else under a name of its own."""

    def __init__(self, parameters: Any, moment: str) -> None:
        super().__init__(parameters, {"moment": moment})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                for name in (group["moment"], "velocity_of_mine"):
                    state.setdefault(name, torch.zeros_like(parameter)).lerp_(parameter.grad, 0.1)
                parameter.sub_(state["velocity_of_mine"], alpha=0.01)


@pytest.mark.parametrize(("kept", "missing"), [("exp_avg", "exp_avg_sq"), ("exp_avg_sq", "exp_avg")])
def test_a_moment_that_an_optimizer_does_not_keep_beside_the_other_is_reported_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kept: str, missing: str
) -> None:
    model = mlp()
    run(tmp_path, model, OfOneMoment(model.parameters(), kept))
    printed = capfd.readouterr().out
    assert len(rows(tmp_path, kept)) == 3 * 6 and rows(tmp_path, missing) == []
    assert printed.count(f"OfOneMoment keeps {kept} and no {missing} for 6 parameters") == 1
    assert printed.count("no rows") == 1


@pytest.mark.parametrize("trains", [True, False])
def test_steps_that_no_hook_sees_are_reported_if_weights_have_changed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], trains: bool
) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())

    def fused() -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)

    with watched(tmp_path, model, optimizer, **TENSORS):
        optimizer.step = fused  # type: ignore[method-assign]
        if trains:
            train(model, optimizer, 3)
    assert capfd.readouterr().out.count("no step of AdamW was seen, though weights have changed") == int(trains)


def test_some_parameters_whose_gradients_are_gone_are_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, wg_distribution=True):
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
            model[3].bias.grad = None
            optimizer.step()
            optimizer.zero_grad()
    printed = capfd.readouterr().out
    assert printed.count("grad_reduced has no rows for 1 of 6 parameters (3.bias is one) under SGD") == 1
    assert "grad_unreduced has no rows" not in printed


def test_steps_that_a_scaler_skips_at_the_begin_are_not_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = adam_job(torch.nn.Linear(4, 2))
    with watched(tmp_path, model, optimizer, **TENSORS):
        train_scaled(model, optimizer, 6, skipped=range(3))
    assert "no rows" not in capfd.readouterr().out


def test_a_branch_that_is_first_taken_in_the_second_step_is_not_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = adam_job(torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]))
    with watched(tmp_path, model, optimizer, mv_distribution=True):
        for step in range(4):
            model[step % 2](torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert "keeps no" not in capfd.readouterr().out
    assert [len(rows(tmp_path, "exp_avg", step)) for step in range(4)] == [0, 2, 4, 4]


def test_a_model_that_is_never_called_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained, other = mlp(), mlp()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    with watched(tmp_path, other, optimizer, xy_distribution=True):
        train(trained, optimizer, 4)
    assert capfd.readouterr().out.count("none of 5 selected modules of Sequential was called by torch") == 1


def test_weights_without_an_element_here_are_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, optimizer = sgd_job(
        torch.nn.ParameterList([torch.nn.Parameter(torch.empty(0)), torch.nn.Parameter(torch.empty(0))])
    )
    with watched(tmp_path, model, optimizer, param_distribution=True):
        for _ in range(3):
            optimizer.step()
    printed = capfd.readouterr().out
    assert printed.count("param_origin has no rows for 2 of 2 parameters") == 1
    assert "the parameters have no element in this process" in printed
