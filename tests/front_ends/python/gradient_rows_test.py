"""Rows of gradients that are missing, that come more than once in a step, and whose parameter no optimizer lists."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
from jobs import (
    PARAMETERS,
    WG,
    manifest,
    mlp,
    names,
    norm,
    norms,
    rows,
    sgd_job,
    structure,
    train,
    value,
    watched,
    weight_norms,
)

import torch


class Mixed(torch.nn.Module):
    """Takes what has a gradient beside what has none; of its outputs one is used."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, ids: torch.Tensor, flag: bool, unused: torch.Tensor) -> Any:
        return x * mask, x[:2] * 5, ids


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.inner = Mixed()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.fc(x)
        return self.inner(hidden * 1, torch.ones(4), torch.arange(3), True, hidden * 2)[0]


def test_arguments_and_outputs_without_a_gradient_are_as_torchs_own_hook_sees_them(tmp_path: Path) -> None:
    model = Net()
    reference = copy.deepcopy(model)
    seen: dict[str, Any] = {}
    reference.inner.register_full_backward_hook(lambda _, inputs, outputs: seen.update(input=inputs, output=outputs))
    reference(torch.ones(5, 4)).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        model(torch.ones(5, 4)).sum().backward()
        optimizer.step()
    table = {row["name"]: row for row in rows(tmp_path, "actv_grad")}
    for port, gradients in seen.items():
        for i, gradient in enumerate(gradients):
            row = table[f"inner.{port}_{i}"]
            if gradient is None:
                assert row["norm"] == row["shape"] == row["dtype"] == "nan"
            else:
                assert float(row["norm"]) == pytest.approx(norm(gradient))
                assert (row["shape"], row["dtype"]) == (str(list(gradient.shape)), str(gradient.dtype))
    assert len(seen["input"]) == 5 and [gradient is None for gradient in seen["output"]] == [False, True, True]
    assert (float(table["inner.input_4"]["norm"]), float(table["inner.input_4"]["zeros"])) == (0, 1)


class Stages(torch.nn.Module):
    """Gives what it has used itself: once in the second output, twice in the third."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = x * self.weight
        second = first.exp()
        third = (second + first * second).sum()
        return first, second, third


USES_OF_STAGES = {
    "the last alone": lambda first, second, third: third,
    "all": lambda first, second, third: third + (first * 3).sum() + second.pow(2).sum(),
    "the first and the last": lambda first, second, third: third + first.sin().sum(),
    "the first alone": lambda first, second, third: first.sum(),
}


@pytest.mark.parametrize("use", USES_OF_STAGES)
def test_an_output_that_the_module_uses_itself_has_the_gradient_from_outside(tmp_path: Path, use: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Stages())
    reference = copy.deepcopy(model)
    seen: list[Any] = []
    reference[1].register_full_backward_hook(lambda _, inputs, outputs: seen.extend(outputs))
    USES_OF_STAGES[use](*reference(torch.ones(5, 4))).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        USES_OF_STAGES[use](*model(torch.ones(5, 4))).backward()
        optimizer.step()
    table = {row["name"]: row for row in rows(tmp_path, "actv_grad")}
    for i, gradient in enumerate(seen):
        found = float(table[f"1.output_{i}"]["norm"])
        if gradient is None:
            assert math.isnan(found)
        else:
            assert found == pytest.approx(norm(gradient), rel=1e-5)
    assert len(seen) == 3
    assert torch.equal(model[1].weight.grad, reference[1].weight.grad)


class Residual(torch.nn.Module):
    """Uses its input more than once, and takes a tensor by keyword."""

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        return x + torch.tanh(x) * (1 if scale is None else scale)


@pytest.mark.parametrize("learns", [False, True], ids=["plain", "with a gradient"])
def test_an_only_positional_argument_keeps_its_gradient_beside_keyword_arguments(tmp_path: Path, learns: bool) -> None:
    model, optimizer = sgd_job(torch.nn.ModuleDict({"fc": torch.nn.Linear(4, 4), "residual": Residual()}))
    scale = torch.full((4,), 3.0, requires_grad=learns)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        hidden = model["fc"](torch.ones(5, 4))
        hidden.retain_grad()
        model["residual"](hidden, scale=scale).sum().backward()
        optimizer.step()
    table = {row["name"]: row for row in rows(tmp_path, "actv_grad")}
    assert float(table["residual.input"]["norm"]) == pytest.approx(norm(hidden.grad), rel=1e-5)
    found = float(table["residual.input_1"]["norm"])
    assert found == pytest.approx(norm(scale.grad), rel=1e-5) if learns else math.isnan(found)


def test_the_last_of_several_backward_passes_through_one_call_has_the_row(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, xy_distribution=True, wg_distribution=True):
        for _ in range(2):
            output = model(torch.ones(5, 4))
            output.sum().backward(retain_graph=True)
            (3 * output).sum().backward()
            accumulated = model[3].bias.grad.clone()
            optimizer.step()
            optimizer.zero_grad()
    for step in range(2):
        assert value(rows(tmp_path, "actv_grad", step), "3.output", "norm") == pytest.approx(3 * math.sqrt(10))
        assert value(rows(tmp_path, "grad_unreduced", step), "3.bias", "norm") == norm(accumulated)
    ledger = manifest(tmp_path)["plans"][0]["ledger"]
    assert ledger["produced"] == ledger["written"]


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_network_through_which_anothers_loss_flows_shows_the_gradient_of_its_own(
    tmp_path: Path, set_to_none: bool
) -> None:
    generator, critic = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
    of_generator = torch.optim.SGD(generator.parameters(), lr=0.001)
    of_critic = torch.optim.SGD(critic.parameters(), lr=0.001)
    expected = []
    with watched(tmp_path, critic, of_critic, wg_distribution=True):
        for _ in range(12):  # beyond the step in which the monitor changes to another kind of hook
            of_critic.zero_grad(set_to_none=set_to_none)
            fake = generator(torch.randn(5, 3))
            (critic(torch.randn(5, 4)) - critic(fake.detach())).pow(2).sum().backward()
            expected.append(norm(critic.weight.grad))
            of_critic.step()
            of_generator.zero_grad()
            critic(fake).sum().backward()
            of_generator.step()
    for step in range(12):
        for kind in ("grad_unreduced", "grad_reduced"):
            assert value(rows(tmp_path, kind, step), "weight", "norm") == pytest.approx(expected[step], rel=1e-12)


@pytest.mark.parametrize(
    ("each", "micro_batches"), [(False, (3, 2, 1, 5, 4, 3)), (True, (3, 2, 1, 3))], ids=["the last", "each"]
)
def test_a_step_of_fewer_or_more_micro_batches_shows_what_they_have_left_before_it_was_changed(
    tmp_path: Path, each: bool, micro_batches: tuple[int, ...]
) -> None:
    model, optimizer = sgd_job()
    expected: list[list[float]] = []
    with watched(tmp_path, model, optimizer, grad_acc_steps=3, monitor_mbs_grad=each, **WG):
        for passes in micro_batches:
            expected.append([])
            for _ in range(passes):
                model(torch.ones(5, 4)).pow(2).sum().backward()
                expected[-1].append(norm(model[0].weight.grad))
            for parameter in model.parameters():  # what a reduction, or clipping, does
                parameter.grad.mul_(0.5)
            optimizer.step()
            optimizer.zero_grad()
    for step, right in enumerate(expected):
        found = [row for row in rows(tmp_path, "grad_unreduced", step) if row["name"] == "0.weight"]
        if each:
            assert [row["micro_step"] for row in found] == [str(micro_step) for micro_step in range(len(right))]
        assert [float(row["norm"]) for row in found] == pytest.approx(right if each else right[-1:])


def test_parameters_of_no_optimizer_are_read_with_the_first(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model[3].parameters(), lr=0.1)
    unlisted = torch.optim.SGD(model[0].parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, grad_acc_steps=2, **PARAMETERS):
        # One micro-batch of two: what is there of it is read at the step.
        train(model, optimizer, 2, before_step=lambda step: unlisted.step())
    for kind in ("grad_unreduced", "grad_reduced", "param_origin", "param_updated"):
        for step in range(2):
            assert norms(tmp_path, kind, step).keys() == weight_norms(model).keys(), kind
    assert names(tmp_path, "exp_avg") == {"3.weight", "3.bias"}


def test_the_structure_names_gradients_that_are_not_there(tmp_path: Path) -> None:
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Embedding(5, 4), Net()))
    with watched(tmp_path, model, optimizer, print_struct=True, stepwatch={"exit_after_struct": False}):
        model(torch.tensor([1, 2])).sum().backward()
        optimizer.step()
    described = structure(tmp_path)
    assert described["0:0"]["input_grad"] == {"config": "tuple[1]", "0": "<class 'NoneType'>"}
    inputs = described["0:1.inner"]["input_grad"]
    assert [inputs[str(i)] for i in range(5)] == [
        "size=(2, 4), dtype=torch.float32",
        "size=(4,), dtype=torch.float32",
        "size=(3,), dtype=torch.int64",
        "<class 'NoneType'>",
        "size=(2, 4), dtype=torch.float32",
    ]
    outputs = described["0:1.inner"]["output_grad"]
    assert outputs["1"] == outputs["2"] == "<class 'NoneType'>"
