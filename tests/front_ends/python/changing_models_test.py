"""Rows are of the model as it is, whatever is frozen, replaced or added in mid-run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs import gradient_norms, mlp, norm, norms, rows, sgd_job, steps_of, watched, write_config
from torch.nn.utils import prune

import torch

STEPS, CHANGE = 14, 4
CHANGING = {"xy_distribution": True, "wg_distribution": True, "param_distribution": True}
Change = Callable[[Any, Any], Any]  # model, optimizer -> another optimizer or None


def body_frozen() -> torch.nn.Module:
    model = mlp()
    model[0].requires_grad_(False)
    return model


def unfreeze(model: Any, optimizer: Any) -> None:
    model[0].requires_grad_(True)


def unfreeze_as_a_group(model: Any, optimizer: Any) -> None:
    model[0].requires_grad_(True)
    optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.05})


def replace_the_head(model: Any, optimizer: Any) -> None:
    model[3] = torch.nn.Linear(8, 3)
    optimizer.add_param_group({"params": list(model[3].parameters())})


def grow_a_module(model: Any, optimizer: Any) -> None:
    model.append(torch.nn.Linear(2, 2))
    optimizer.add_param_group({"params": list(model[4].parameters())})


def replace_parameters_in_their_group(model: Any, optimizer: Any) -> None:
    """As Gaussian splatting does when it densifies."""
    for name in ("weight", "bias"):
        old = getattr(model[3], name)
        new = torch.nn.Parameter(torch.cat([old.detach(), old.detach()[:1]]))
        setattr(model[3], name, new)
        for group in optimizer.param_groups:
            group["params"] = [new if each is old else each for each in group["params"]]
        optimizer.state.pop(old, None)


def convert_by_swapping(model: Any, optimizer: Any) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.to(torch.float64)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def load_by_assignment(model: Any, optimizer: Any) -> Any:
    model.load_state_dict({name: tensor.clone() * 0.5 for name, tensor in model.state_dict().items()}, assign=True)
    return torch.optim.SGD(model.parameters(), lr=0.1)


def take_another_optimizer(model: Any, optimizer: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def parametrize_and_take_another_optimizer(model: Any, optimizer: Any) -> Any:
    """The old optimizer goes on listing the weight that two others stand for now."""
    torch.nn.utils.parametrizations.weight_norm(model[3])
    return take_another_optimizer(model, optimizer)


def train_an_adapter_alone(model: Any, optimizer: Any) -> Any:
    """The old optimizer lists what is frozen from now on."""
    model.requires_grad_(False)
    model.append(torch.nn.Linear(2, 2))
    return torch.optim.SGD(model[4].parameters(), lr=0.05)


def pruned() -> torch.nn.Module:
    model = mlp()
    prune.random_unstructured(model[3], "weight", amount=0.5)
    return model


def make_the_pruning_permanent(model: Any, optimizer: Any) -> None:
    """The parameter stays the same, and gets another name at the same place among the others."""
    prune.remove(model[3], "weight")


def put_the_head_under_another_name(model: Any, optimizer: Any) -> None:
    model._modules["head"] = model._modules.pop("3")


def clear_the_hooks_of_modules(model: Any, optimizer: Any) -> None:
    for module in model.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()


def make_a_module_anew_in_its_place(model: Any, optimizer: Any) -> None:
    model[1].__init__()


def clear_the_hooks_of_parameters(model: Any, optimizer: Any) -> None:
    for parameter in model.parameters():
        for hooks in (parameter._backward_hooks, parameter._post_accumulate_grad_hooks):
            if hooks is not None:
                hooks.clear()


def drop_the_hooks_of_parameters(model: Any, optimizer: Any) -> None:
    for parameter in model.parameters():
        parameter._backward_hooks = parameter._post_accumulate_grad_hooks = None


CHANGES: dict[str, tuple[Callable[[], Any], Change]] = {
    "unfrozen": (body_frozen, unfreeze),
    "unfrozen as a group": (body_frozen, unfreeze_as_a_group),
    "another head": (mlp, replace_the_head),
    "a module more": (mlp, grow_a_module),
    "parameters replaced": (mlp, replace_parameters_in_their_group),
    "converted": (mlp, convert_by_swapping),
    "loaded": (mlp, load_by_assignment),
    "another optimizer": (mlp, take_another_optimizer),
    "parametrized": (mlp, parametrize_and_take_another_optimizer),
    "an adapter": (mlp, train_an_adapter_alone),
    "another name": (pruned, make_the_pruning_permanent),
    "a module's other name": (mlp, put_the_head_under_another_name),
    "no hooks of modules": (mlp, clear_the_hooks_of_modules),
    "a module anew": (mlp, make_a_module_anew_in_its_place),
    "no hooks of parameters": (mlp, clear_the_hooks_of_parameters),
    "no table of hooks": (mlp, drop_the_hooks_of_parameters),
}
# Those in which the model stays as it is, or comes to the monitor by `attach`.
UNREPORTED = {name for name in CHANGES if name.startswith(("no ", "a module anew"))} | {
    "loaded",
    "another optimizer",
    "parametrized",
    "an adapter",
}


class Trained:
    """A training whose model changes at one step, with torch's own norms of each step."""

    def __init__(self, name: str, tmp_path: Path | None, dynamic: bool = False) -> None:
        make, change = CHANGES[name]
        model = make()
        torch.manual_seed(6)
        given = [each for each in model.parameters() if each.requires_grad] if "group" in name else model.parameters()
        optimizer: Any = torch.optim.SGD(given, lr=0.1)
        monitor = None
        if tmp_path is not None:
            monitor = watched(tmp_path, model, optimizer, dynamic=dynamic, dynamic_on=not dynamic, **CHANGING)
        self.norms: list[dict[str, float]] = []
        self.modules: list[set[str]] = []
        self.weights: list[dict[str, float]] = []
        self.losses: list[torch.Tensor] = []
        for step in range(STEPS):
            if step == CHANGE:
                other = change(model, optimizer)
                optimizer = other or optimizer
                if other is not None and monitor is not None:
                    monitor.attach(model, optimizer)
            if dynamic and tmp_path is not None and monitor is not None and step == CHANGE + 2:
                write_config(tmp_path / "config.json", **CHANGING, dynamic_on=True)
                monitor.refresh()
            kind = next(model.parameters()).dtype
            loss = model(torch.randn(5, 4).to(kind)).pow(2).mean()
            loss.backward()
            named = list(model.named_parameters())
            self.weights.append({name: norm(each) for name, each in named if each.requires_grad})
            self.norms.append(gradient_norms(model))
            named_modules = model.named_modules()
            self.modules.append({name for name, each in named_modules if not isinstance(each, torch.nn.ModuleDict)})
            optimizer.step()
            optimizer.zero_grad()
            self.losses.append(loss.detach())
        if monitor is not None:
            monitor.close()


@pytest.mark.parametrize("name", CHANGES)
def test_rows_are_those_of_the_model_as_it_is(tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    bare, watched = Trained(name, None), Trained(name, tmp_path)
    assert all(map(torch.equal, bare.losses, watched.losses))
    for step in (*range(CHANGE), *range(CHANGE + 1, STEPS)):  # what has changed in mid-step is seen at its end
        for kind, expected in (
            ("grad_unreduced", watched.norms),
            ("grad_reduced", watched.norms),
            ("param_origin", watched.weights),
        ):
            assert norms(tmp_path, kind, step) == pytest.approx(expected[step], rel=1e-5), (kind, step)
        called = {row["name"][: -len(".output")] for row in rows(tmp_path, "actv", step) if ".output" in row["name"]}
        assert called == watched.modules[step], step
    printed = capfd.readouterr().out
    assert ("the model has changed" in printed) == (name not in UNREPORTED)
    assert "has no rows" not in printed and "does not step while others do" not in printed


@pytest.mark.parametrize("name", CHANGES)
def test_an_edit_after_the_change_gives_the_rows_of_the_model_as_it_is(tmp_path: Path, name: str) -> None:
    watched = Trained(name, tmp_path, dynamic=True)
    first = min(int(row["step"]) for row in rows(tmp_path, "grad_reduced"))
    assert first <= CHANGE + 4
    for step in range(first, STEPS):
        for kind in ("grad_unreduced", "grad_reduced"):
            assert norms(tmp_path, kind, step) == pytest.approx(watched.norms[step], rel=1e-5), (kind, step)


def test_the_activations_of_a_new_module_stand_under_its_name(tmp_path: Path) -> None:
    Trained("another head", tmp_path)
    shapes = {int(row["step"]): row["shape"] for row in rows(tmp_path, "actv") if row["name"] == "3.output"}
    assert [shapes[step] for step in range(CHANGE + 1, STEPS)] == ["[5, 3]"] * (STEPS - CHANGE - 1)


def test_features_go_on_when_the_hooks_of_modules_were_cleared(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    targets = {"linear_hook": ["3"]}
    with watched(tmp_path, model, optimizer, recording_l2_features=True, l2_targets=targets):
        for step in range(STEPS):
            if step == CHANGE:
                clear_the_hooks_of_modules(model, optimizer)
            model(torch.randn(5, 4)).pow(2).mean().backward()
            optimizer.step()
    assert steps_of(tmp_path, "linear_hook") == [step for step in range(STEPS) if step != CHANGE]


def test_a_model_that_changes_at_every_step_is_followed_for_a_while_and_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, **CHANGING):
        for _ in range(20):
            replace_parameters_in_their_group(model, optimizer)
            model(torch.randn(5, 4)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    printed = capfd.readouterr().out
    assert printed.count("the model has changed at each of 8 steps in a row") == 1
    assert printed.count("the model has changed: ") == 7


def test_former_parameters_are_released_while_nothing_is_collected(tmp_path: Path) -> None:
    import gc
    import weakref

    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, dynamic=True, dynamic_on=False, **CHANGING):
        old = weakref.ref(model[3].weight)
        replace_parameters_in_their_group(model, optimizer)
        for _ in range(40):
            model(torch.randn(5, 4)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        gc.collect()
        assert old() is None


class TwoSteps(torch.optim.Optimizer):
    """Leads another optimizer by methods of its own: `step` is never called."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"rho": 0.05})
        self.base_optimizer = torch.optim.SGD(self.param_groups, lr=0.1, momentum=0.9)
        self.param_groups = self.base_optimizer.param_groups

    def first_step(self) -> None:
        self.zero_grad()

    def second_step(self) -> None:
        self.base_optimizer.step()
        self.zero_grad()

    def step(self, closure: Any = None) -> Any:
        raise AssertionError("never called")


def test_the_step_of_the_only_optimizer_inside_is_a_step(tmp_path: Path) -> None:
    model = mlp()
    optimizer = TwoSteps(model.parameters())
    expected = []
    with watched(tmp_path, model, optimizer, **CHANGING) as monitor:
        for _ in range(STEPS):
            model(torch.randn(5, 4)).pow(2).mean().backward()
            optimizer.first_step()
            model(torch.randn(5, 4)).pow(2).mean().backward()
            expected.append(gradient_norms(model))
            optimizer.second_step()
        assert monitor.status()["step"] == STEPS
    for step in range(STEPS):
        assert norms(tmp_path, "grad_reduced", step) == pytest.approx(expected[step], rel=1e-5)


def test_a_clock_that_stands_still_is_reported_while_the_job_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, **CHANGING):
        other = torch.optim.SGD(model.parameters(), lr=0.1)
        for count in range(200):
            model(torch.randn(5, 4)).pow(2).mean().backward()
            other.step()
            other.zero_grad()
            if count == 94:
                assert "no step has ended" not in capfd.readouterr().out
        assert capfd.readouterr().out.count("no step has ended for 96 backward passes") == 1


def test_parameters_that_are_added_between_steps_have_rows_of_the_next_step(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, wg_distribution=True, param_distribution=True) as monitor:
        for step in range(STEPS):
            if step == CHANGE:
                torch.nn.utils.parametrizations.weight_norm(model[0])
                optimizer.add_param_group({"params": list(model[0].parametrizations.weight.parameters())})
            model(torch.randn(5, 4)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        patched = torch.optim.Optimizer.add_param_group
    assert torch.optim.Optimizer.add_param_group is not patched
    for kind in ("grad_reduced", "grad_unreduced", "param_updated"):
        for name, steps in (("0.weight", range(CHANGE)), ("0.parametrizations.weight.original0", range(CHANGE, STEPS))):
            assert {int(row["step"]) for row in rows(tmp_path, kind) if row["name"] == name} == set(steps), kind
    assert monitor.status()["step"] == STEPS
