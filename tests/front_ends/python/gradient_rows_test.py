"""Gradients that are not there, that come more than once in a step, and whose parameter no optimizer lists."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, train, value, write_config

import stepwatch
import torch
from stepwatch import TrainerMon


@pytest.fixture(autouse=True)
def output_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))
    monkeypatch.setenv("DYNAMIC_MONITOR", "false")


def watched(tmp_path: Path, model: torch.nn.Module, optimizer: Any, acc: int = 1, **config: Any) -> stepwatch.Watch:
    path = write_config(tmp_path / "config.json", **config)
    return stepwatch.watch(model, optimizer, path, dynamic=False, grad_acc_steps=acc)


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
                assert float(row["norm"]) == pytest.approx(float(gradient.double().norm()))
                assert (row["shape"], row["dtype"]) == (str(list(gradient.shape)), str(gradient.dtype))
    assert len(seen["input"]) == 5 and [gradient is None for gradient in seen["output"]] == [False, True, True]


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
            assert found == pytest.approx(float(gradient.double().norm()), rel=1e-5)
    assert len(seen) == 3
    assert torch.equal(model[1].weight.grad, reference[1].weight.grad)


class Residual(torch.nn.Module):
    """Uses its input more than once, and takes a tensor by keyword."""

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        return x + torch.tanh(x) * (1 if scale is None else scale)


@pytest.mark.parametrize("learns", [False, True], ids=["plain", "with a gradient"])
def test_an_only_positional_argument_keeps_its_gradient_beside_keyword_arguments(tmp_path: Path, learns: bool) -> None:
    model = torch.nn.ModuleDict({"fc": torch.nn.Linear(4, 4), "residual": Residual()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = torch.full((4,), 3.0, requires_grad=learns)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        hidden = model["fc"](torch.ones(5, 4))
        hidden.retain_grad()
        model["residual"](hidden, scale=scale).sum().backward()
        optimizer.step()
    table = {row["name"]: row for row in rows(tmp_path, "actv_grad")}
    assert float(table["residual.input"]["norm"]) == pytest.approx(float(hidden.grad.double().norm()), rel=1e-5)
    found = float(table["residual.input_1"]["norm"])
    assert found == pytest.approx(float(scale.grad.double().norm()), rel=1e-5) if learns else math.isnan(found)


def test_of_several_backward_passes_through_one_call_the_last_has_the_row(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
        assert value(rows(tmp_path, "grad_unreduced", step), "3.bias", "norm") == float(accumulated.double().norm())
    (manifest,) = tmp_path.glob("*-rank0-*/manifest.json")
    ledger = json.loads(manifest.read_text())["plans"][0]["ledger"]
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
            expected.append(float(critic.weight.grad.double().norm()))
            of_critic.step()
            of_generator.zero_grad()
            critic(fake).sum().backward()
            of_generator.step()
    for step in range(12):
        for kind in ("grad_unreduced", "grad_reduced"):
            assert value(rows(tmp_path, kind, step), "weight", "norm") == pytest.approx(expected[step], rel=1e-12)


def test_with_more_passes_than_micro_batches_the_gradient_is_what_the_optimizer_finds(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, acc=2, wg_distribution=True):
        for passes in range(1, 6):
            for _ in range(passes):
                model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    norms = [value(rows(tmp_path, "grad_unreduced", step), "bias", "norm") / math.sqrt(2) for step in range(5)]
    assert norms == pytest.approx([1, 2, 3, 4, 5])


@pytest.mark.parametrize("each", [False, True])
def test_a_step_of_fewer_micro_batches_shows_what_the_last_has_left_before_it_was_changed(
    tmp_path: Path, each: bool
) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    with watched(tmp_path, model, optimizer, acc=3, wg_distribution=True, monitor_mbs_grad=each):
        for micro_batches in (3, 2, 1, 3):
            for _ in range(micro_batches):
                model(torch.ones(5, 4)).pow(2).sum().backward()
            expected.append(float(model[0].weight.grad.double().norm()))
            for parameter in model.parameters():  # what a reduction, or clipping, does
                parameter.grad.mul_(0.5)
            optimizer.step()
            optimizer.zero_grad()
    for step, right in enumerate(expected):
        found = [row for row in rows(tmp_path, "grad_unreduced", step) if row["name"] == "0.weight"]
        assert len(found) == ((3, 2, 1, 3)[step] if each else 1)
        assert float(found[-1]["norm"]) == pytest.approx(right)


def test_parameters_of_no_optimizer_are_read_with_the_first(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model[3].parameters(), lr=0.1)
    everything = {"wg_distribution": True, "param_distribution": True, "mv_distribution": True}
    with watched(tmp_path, model, optimizer, acc=2, **everything):
        train(model, optimizer, 2)  # one micro-batch of two: what is there of it is read at the step
    names = {name for name, _ in model.named_parameters()}
    for kind in ("grad_unreduced", "grad_reduced", "param_origin", "param_updated"):
        for step in range(2):
            assert sorted(row["name"] for row in rows(tmp_path, kind, step)) == sorted(names), kind
    assert {row["name"] for row in rows(tmp_path, "exp_avg")} == {"3.weight", "3.bias"}


class Wrapper:
    """An optimizer that lists nothing and has one inside."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self) -> None:
        self.optimizer.step()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()


class MasterWeights(Wrapper):
    """Updates copies of its own, which the model's parameters are set to."""

    def __init__(self, parameters: Any) -> None:
        self.parameters = list(parameters)
        self.masters = [parameter.detach().clone().requires_grad_() for parameter in self.parameters]
        super().__init__(torch.optim.SGD(self.masters, lr=0.1, momentum=0.9))

    def step(self) -> None:
        for master, parameter in zip(self.masters, self.parameters):
            master.grad = parameter.grad
        super().step()
        with torch.no_grad():
            for master, parameter in zip(self.masters, self.parameters):
                parameter.copy_(master)


def test_an_optimizer_inside_of_another_object_is_found(tmp_path: Path) -> None:
    model = mlp()
    optimizer = Wrapper(Wrapper(torch.optim.Adam(model.parameters(), lr=0.1)))
    with watched(tmp_path, model, optimizer, wg_distribution=True, param_distribution=True, mv_distribution=True):
        train(model, optimizer, 3)
    for kind in ("grad_reduced", "param_origin", "param_updated", "exp_avg", "exp_avg_sq"):
        assert len(rows(tmp_path, kind, 2)) == 6, kind


def test_weights_and_gradients_are_read_whatever_the_optimizer_updates(tmp_path: Path) -> None:
    model = mlp()
    optimizer = MasterWeights(model.parameters())
    with watched(tmp_path, model, optimizer, wg_distribution=True, param_distribution=True):
        train(model, optimizer, 2)
        updated = float(model[3].weight.detach().double().norm())
    assert len(rows(tmp_path, "grad_reduced", 1)) == len(rows(tmp_path, "param_origin", 1)) == 6
    assert value(rows(tmp_path, "param_updated", 1), "3.weight", "norm") == pytest.approx(updated, rel=1e-12)


def test_metrics_of_a_missing_gradient_are_nan_for_every_statistic(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon(write_config(tmp_path / "config.json", xy_distribution=True, ops=["norm", "nans"]))
    monitor.set_monitor(model, optimizer)
    train(model, optimizer, 1)
    _, gradients = monitor.generate_xy_metrics()
    monitor.close()
    missing, there = gradients["0:.input:0/rank0/actv_grad"], gradients["0:.output:0/rank0/actv_grad"]
    assert list(missing) == list(there) == ["norm", "nans", "shape", "dtype"]
    assert all(math.isnan(float(number)) for number in missing.values())


def test_metrics_between_backward_and_step_have_the_inputs_without_a_gradient(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon(write_config(tmp_path / "config.json", xy_distribution=True, ops=["norm", "nans"]))
    monitor.set_monitor(model, optimizer)
    model(torch.ones(5, 4)).sum().backward()
    _, between = monitor.generate_xy_metrics()
    optimizer.step()
    _, after = monitor.generate_xy_metrics()
    monitor.close()
    assert between.keys() == after.keys()
    assert math.isnan(float(between["0:.input:0/rank0/actv_grad"]["norm"]))
    assert math.isnan(float(between["0:0.input:0/rank0/actv_grad"]["norm"]))
    assert not math.isnan(float(between["0:2.input:0/rank0/actv_grad"]["norm"]))
    names = [row["name"] for row in rows(tmp_path, "actv_grad", 0)]
    assert sorted(names) == sorted(set(names)), "a row twice"


def test_metrics_between_two_backward_passes_keep_the_gradient_that_comes_second(tmp_path: Path) -> None:
    class Pair(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a * 2, b * 3

    model = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "b": torch.nn.Linear(4, 4), "pair": Pair()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon(write_config(tmp_path / "config.json", xy_distribution=True, ops=["norm"]))
    monitor.set_monitor(model, optimizer)
    ones = torch.ones(5, 4)
    first, second = model["pair"](model["a"](ones), model["b"](ones))
    first.sum().backward()
    _, between = monitor.generate_xy_metrics()
    second.sum().backward()
    optimizer.step()
    monitor.close()
    assert "0:pair.input_1:0/rank0/actv_grad" not in between
    assert value(rows(tmp_path, "actv_grad", 0), "pair.input_1", "norm") == pytest.approx(math.sqrt(20) * 3)


def test_the_structure_names_gradients_that_are_not_there(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 4), Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, print_struct=True, stepwatch={"exit_after_struct": False}):
        model(torch.tensor([1, 2])).sum().backward()
        optimizer.step()
    structure = json.loads((tmp_path / "module_struct/rank0/module_struct.json").read_text())
    assert structure["0:0"]["input_grad"] == {"config": "tuple[1]", "0": "<class 'NoneType'>"}
    inputs = structure["0:1.inner"]["input_grad"]
    assert [inputs[str(i)] for i in range(5)] == [
        "size=(2, 4), dtype=torch.float32",
        "size=(4,), dtype=torch.float32",
        "size=(3,), dtype=torch.int64",
        "<class 'NoneType'>",
        "size=(2, 4), dtype=torch.float32",
    ]
    outputs = structure["0:1.inner"]["output_grad"]
    assert outputs["1"] == outputs["2"] == "<class 'NoneType'>"


def test_a_branch_that_is_taken_later_is_not_said_to_lack_moments(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    branches = torch.nn.ModuleList([torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)])
    optimizer = torch.optim.Adam(branches.parameters(), lr=0.1)
    with watched(tmp_path, branches, optimizer, mv_distribution=True):
        for step in range(4):
            branches[step % 2](torch.ones(1, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert "keeps no exp_avg" not in capfd.readouterr().out
    assert len(rows(tmp_path, "exp_avg", 1)) == 2 and len(rows(tmp_path, "exp_avg", 2)) == 4
