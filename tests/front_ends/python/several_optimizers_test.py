"""A training step is an iteration of the training loop, however many optimizers step in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from jobs import TENSORS, mlp, rows, watched, write_config

import stepwatch
import torch

STEPS = 6
WEIGHTS = {"wg_distribution": True, "param_distribution": True}
KINDS = ("grad_unreduced", "grad_reduced", "param_updated")


def pair(model: torch.nn.Module) -> tuple[Any, Any]:
    matrices = torch.optim.SGD([each for each in model.parameters() if each.ndim == 2], lr=0.02, momentum=0.9)
    return matrices, torch.optim.AdamW([each for each in model.parameters() if each.ndim == 1], lr=0.01)


class Truth:
    """The norms that each update of each parameter has in its iteration, by torch's own."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._names = {parameter: name for name, parameter in model.named_parameters()}
        self.values: dict[tuple[str, str, int], list[float]] = {}
        self.iteration = 0

    def update(self, optimizer: Any) -> None:
        """Step, and note what is updated by, and becomes, of each parameter."""
        own = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
        for each in own:
            for kind in ("grad_unreduced", "grad_reduced"):
                self._note(kind, each, each.grad)
        optimizer.step()
        for each in own:
            self._note("param_updated", each, each)

    def _note(self, kind: str, parameter: Any, tensor: Any) -> None:
        self.values.setdefault((kind, self._names[parameter], self.iteration), []).append(float(tensor.detach().norm()))


def seen(tmp_path: Path) -> dict[tuple[str, str, int], list[float]]:
    """Return the norms in the files, those of several updates by their suffixes."""
    found: dict[tuple[str, str, int], dict[int, float]] = {}
    for kind in KINDS:
        for row in rows(tmp_path, kind):
            name, _, call = row["name"].partition("@")
            norms = found.setdefault((kind, name, int(row["step"])), {})
            assert int(call or 0) not in norms
            norms[int(call or 0)] = float(row["norm"])
    return {key: [norms[call] for call in range(len(norms))] for key, norms in found.items()}


def check(tmp_path: Path, truth: Truth, others: bool = False) -> None:
    """Compare all rows, of which some may have no counterpart if there are others."""
    found = {
        key: right
        for key, right in seen(tmp_path).items()
        if key[2] < STEPS and not (others and key not in truth.values)
    }
    assert found.keys() == truth.values.keys()
    for key, right in truth.values.items():
        assert found[key] == pytest.approx(right, rel=1e-5), key


def iterate(truth: Truth, model: Any, optimizers: Sequence[Any], steps: int = STEPS, monitor: Any = None) -> None:
    """Train; each iteration is one step of the monitor, if there is one."""
    for _ in range(steps):
        model(torch.randn(3, 4)).square().mean().backward()
        for optimizer in optimizers:
            assert monitor is None or monitor.status()["step"] == truth.iteration
            truth.update(optimizer)
        for optimizer in optimizers:
            optimizer.zero_grad()
        truth.iteration += 1
        assert monitor is None or monitor.status()["step"] == truth.iteration


@pytest.mark.parametrize("is_list", [True, False])
@pytest.mark.parametrize("steps_in_order", [True, False])
@pytest.mark.parametrize("handed_over_in_order", [True, False])
def test_rows_of_an_iteration_are_rows_of_one_step_in_any_order(
    tmp_path: Path, handed_over_in_order: bool, steps_in_order: bool, is_list: bool
) -> None:
    model = mlp()
    optimizers = pair(model)
    handed_over = optimizers if handed_over_in_order else optimizers[::-1]
    truth = Truth(model)
    with watched(tmp_path, model, list(handed_over) if is_list else handed_over[0], **WEIGHTS) as monitor:
        if not is_list:
            monitor.attach(model, handed_over[1])
        iterate(truth, model, optimizers if steps_in_order else optimizers[::-1], monitor=monitor)
    check(tmp_path, truth)


@pytest.mark.usefixtures("output_in_tmp_path")
@pytest.mark.parametrize("is_list", [True, False])
def test_set_monitor_takes_several_optimizers(tmp_path: Path, is_list: bool) -> None:
    model = mlp()
    optimizers = pair(model)
    truth = Truth(model)
    monitor = stepwatch.TrainerMon(write_config(tmp_path / "config.json", **WEIGHTS))
    for each in [list(optimizers)] if is_list else optimizers:
        monitor.set_monitor(model, each, grad_acc_steps=1)
    iterate(truth, model, optimizers)
    monitor.close()
    check(tmp_path, truth)


def test_step_interval_and_collect_times_count_iterations(tmp_path: Path) -> None:
    model = mlp()
    optimizers = pair(model)
    truth = Truth(model)
    with watched(tmp_path, model, optimizers, step_interval=2, collect_times=2, **WEIGHTS):
        iterate(truth, model, optimizers)
    truth.values = {key: norms for key, norms in truth.values.items() if key[2] in (0, 2)}
    check(tmp_path, truth)


def two_networks() -> tuple[torch.nn.Module, Any, Any]:
    torch.manual_seed(3)
    both = torch.nn.ModuleDict({"critic": torch.nn.Linear(4, 3), "actor": torch.nn.Linear(4, 4)})
    return both, *(torch.optim.Adam(both[name].parameters(), lr=0.01) for name in ("critic", "actor"))


def update_critic(truth: Truth, both: Any, critic: Any) -> None:
    both.zero_grad()
    both["critic"](torch.randn(2, 4)).square().mean().backward()
    truth.update(critic)


def update_actor(truth: Truth, both: Any, actor: Any) -> None:
    both.zero_grad()
    both["critic"](both["actor"](torch.randn(2, 4))).mean().backward()
    truth.update(actor)


def test_further_updates_of_one_optimizer_are_marked(tmp_path: Path) -> None:
    both, critic, actor = two_networks()
    truth = Truth(both)
    with watched(tmp_path, both, actor, **TENSORS, mg_direction=True) as monitor:
        monitor.attach(both, critic)
        for _ in range(STEPS):
            for _ in range(3):
                update_critic(truth, both, critic)
            update_actor(truth, both, actor)
            truth.iteration += 1
    check(tmp_path, truth)
    kinds = {file.name.rpartition("_")[0] for file in tmp_path.glob("*-rank*/*.csv")}
    assert len(kinds) == 9
    for kind in kinds:
        keys = [(row["vpp_stage"], row["name"], row["step"], row.get("micro_step")) for row in rows(tmp_path, kind)]
        assert len(set(keys)) == len(keys), kind


def test_one_that_sits_out_is_left_out_and_comes_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    both, critic, actor = two_networks()
    truth = Truth(both)
    with watched(tmp_path, both, [critic, actor], **WEIGHTS) as monitor:
        for phase in (4, 20, 4):
            for _ in range(phase):
                update_critic(truth, both, critic)
                if phase == 4:
                    update_actor(truth, both, actor)
        step = monitor.status()["step"]
    printed = re.findall(r"\[WARNING\].* optimizer 2 of 2, Adam, does not step", capfd.readouterr().out)
    assert len(printed) == 1
    assert step == 4 + (20 - 8 + 1) + 4
    found = seen(tmp_path)
    for kind in KINDS:  # each update has its row, in order
        for name in ("critic.weight", "actor.weight"):
            right = [
                norm
                for key, norms in sorted(truth.values.items(), key=lambda item: item[0][2])
                for norm in norms
                if key[:2] == (kind, name)
            ]
            there = [norm for step in range(step) for norm in found.get((kind, name, step), [])]
            assert there == pytest.approx(right, rel=1e-5)
    last = found["grad_reduced", "critic.weight", step - 1], found["grad_reduced", "actor.weight", step - 1]
    right = [truth.values["grad_reduced", f"{name}.weight", 0][-1] for name in ("critic", "actor")]
    assert [norms for (norms,) in last] == pytest.approx(right, rel=1e-5)


def test_optimizers_of_the_same_parameters_take_turns(tmp_path: Path) -> None:
    model = mlp()
    adam, sgd = torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.01)
    with watched(tmp_path, model, [adam, sgd], **WEIGHTS) as monitor:
        iterate(Truth(model), model, [adam], 10)
        assert monitor.status()["step"] >= 9
        iterate(Truth(model), model, [sgd], 10)
        assert monitor.status()["step"] >= 18


@pytest.mark.parametrize("number", [0, 1])
def test_the_one_that_the_program_names_ends_steps(tmp_path: Path, number: int) -> None:
    both, *optimizers = two_networks()
    truth = Truth(both)
    with watched(tmp_path, both, optimizers, clock=optimizers[number], **WEIGHTS) as monitor:
        for _ in range(STEPS):
            update_critic(truth, both, optimizers[0])
            truth.iteration += number == 0
            update_actor(truth, both, optimizers[1])
            truth.iteration += number == 1
        assert monitor.status()["step"] == STEPS
    truth.values = {key: norms for key, norms in truth.values.items() if key[2] < STEPS}  # the last one is not over
    check(tmp_path, truth)


class ListsNothing:
    """Updates by itself, and has no groups of parameters."""

    def __init__(self, parameters: Any) -> None:
        self._parameters = list(parameters)

    def step(self) -> None:
        with torch.no_grad():
            for each in self._parameters:
                each -= 0.01 * each.grad


def test_one_that_lists_no_parameters_stays_beside_one_that_is_added_later(tmp_path: Path) -> None:
    model = mlp()
    first, second = ListsNothing(model[0].parameters()), torch.optim.SGD(model[2:].parameters(), lr=0.01)
    with watched(tmp_path, model, first, clock=first, **WEIGHTS) as monitor:
        for step in range(STEPS):
            model(torch.randn(3, 4)).square().mean().backward()
            if step == 2:
                monitor.attach(model, second)
            first.step()
            assert monitor.status()["step"] == step + 1
            second.step()
            model.zero_grad()


def test_several_that_come_later_take_the_place_of_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = mlp()
    first = torch.optim.SGD(model.parameters(), lr=0.01)
    truth = Truth(model)
    with watched(tmp_path, model, first, **WEIGHTS) as monitor:
        iterate(truth, model, [first], 2)
        others = pair(model)
        monitor.attach(model, others)
        iterate(truth, model, others, STEPS - 2)
        assert monitor.status()["step"] == STEPS
    check(tmp_path, truth)
    assert "does not step while others do" not in capfd.readouterr().out


def test_one_whose_parameters_are_frozen_when_another_comes_is_waited_for_when_it_steps_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    body, head = torch.optim.SGD(model[:3].parameters(), lr=0.02), torch.optim.SGD(model[3].parameters(), lr=0.01)
    truth = Truth(model)
    with watched(tmp_path, model, body, **WEIGHTS) as monitor:
        iterate(truth, model, [body], 2)
        model[:3].requires_grad_(False)
        monitor.attach(model, head)
        iterate(truth, model, [head], 2)
        model[:3].requires_grad_(True)
        body.zero_grad()
        iterate(truth, model, [body, head], 2)
        assert monitor.status()["step"] == STEPS
    check(tmp_path, truth, others=True)
    printed = capfd.readouterr().out
    assert "does not step while others do" not in printed and "has no rows" not in printed


def test_a_clock_that_is_no_optimizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match='clock should be an optimizer or "end_step", found 3'):
        watched(tmp_path, mlp(), None, clock=3, **WEIGHTS)


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_step_that_the_program_ends_is_ended_once(tmp_path: Path, is_announced: bool) -> None:
    model = mlp()
    optimizers = pair(model)
    truth = Truth(model)
    with watched(tmp_path, model, optimizers, **({"clock": "end_step"} if is_announced else {}), **WEIGHTS) as monitor:
        for step in range(STEPS):
            iterate(truth, model, optimizers, 1)
            monitor.end_step()
            assert monitor.status()["step"] == step + 1
    check(tmp_path, truth)


def test_a_program_without_optimizer_ends_steps_itself(tmp_path: Path) -> None:
    model = mlp()
    with watched(tmp_path, model, None, xy_distribution=True, **WEIGHTS) as monitor:
        for _ in range(STEPS):
            model.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            monitor.end_step()
        assert monitor.status()["step"] == STEPS
    for kind in ("actv", "grad_unreduced"):
        assert {int(row["step"]) for row in rows(tmp_path, kind)} == set(range(STEPS))


@pytest.fixture(params=[False, True])
def each_micro_batch(request: pytest.FixtureRequest) -> Iterator[bool]:
    yield request.param


def test_optimizers_that_step_in_the_backward_pass_end_the_step_with_it(tmp_path: Path, each_micro_batch: bool) -> None:
    """The rest of the pass belongs to the same step: here the gradient of the first module's input."""
    model = mlp()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}

    def update(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    every = list(optimizers.values())
    with watched(tmp_path, model, every, xy_distribution=True, monitor_mbs_grad=each_micro_batch, **WEIGHTS) as monitor:
        for step in range(STEPS):
            inputs = torch.randn(3, 4, requires_grad=True)
            model(inputs).square().mean().backward()
            assert monitor.status()["step"] == step + 1
    names = {name for name, _ in model.named_parameters()}
    for step in range(STEPS):
        for kind in ("grad_unreduced", "grad_reduced"):
            assert {row["name"] for row in rows(tmp_path, kind, step)} == names
        gradients = {row["name"]: row["norm"] for row in rows(tmp_path, "actv_grad", step)}
        assert float(gradients["0.input"]) > 0


class FailsAtTimes(torch.optim.SGD):
    fails = False

    def step(self, closure: Any = None) -> Any:
        if self.fails:
            raise RuntimeError("out of memory")
        return super().step(closure)


def test_a_step_that_raises_and_is_tried_again_has_the_rows_of_its_last_attempt(tmp_path: Path) -> None:
    model = mlp()
    optimizer = FailsAtTimes(model.parameters(), lr=0.01)
    truth = Truth(model)
    with watched(tmp_path, model, optimizer, **WEIGHTS):
        for step in range(STEPS):
            for optimizer.fails in [True] * (step % 3) + [False]:
                optimizer.zero_grad()
                model(torch.randn(3, 4)).square().mean().backward()
                if not optimizer.fails:
                    truth.update(optimizer)
                    continue
                with pytest.raises(RuntimeError, match="out of memory"):
                    optimizer.step()
            truth.iteration += 1
    check(tmp_path, truth)


class LeadsAnother:
    """Does all of an update in its step, as Trainers of reinforcement learning do."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.optim = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(self, loss: Any) -> None:
        self.optim.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 0.01)
        self.optim.step()


def test_a_step_that_computes_and_clips_gradients_is_read_where_the_optimizer_inside_updates(tmp_path: Path) -> None:
    model = mlp()
    leader = LeadsAnother(model)
    norms = []
    leader.optim.register_step_pre_hook(lambda *_: norms.append(float(model[0].weight.grad.norm())))
    with watched(tmp_path, model, leader, **WEIGHTS):
        for _ in range(STEPS):
            leader.step(model(torch.randn(3, 4)).square().mean())
    found = seen(tmp_path)
    assert [found["grad_reduced", "0.weight", step] for step in range(STEPS)] == [
        [pytest.approx(norm)] for norm in norms
    ]
    assert all(found["grad_unreduced", "0.weight", step][0] > norm for step, norm in enumerate(norms))


def test_kinds_that_have_no_rows_without_an_optimizer_are_named_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    with watched(tmp_path, model, **WEIGHTS) as monitor:
        for _ in range(STEPS):
            model(torch.randn(3, 4)).square().mean().backward()
            monitor.end_step()
    printed = re.findall(r"\[WARNING\] (.*) have no rows: no optimizer is watched", capfd.readouterr().out)
    assert [set(kinds.split(", ")) for kinds in printed] == [{"grad_reduced", "param_origin", "param_updated"}]
