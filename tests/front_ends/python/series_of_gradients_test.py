"""The rows of un-reduced gradients mean the same from the first step of a series to its last, and none is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, value, write_config

import stepwatch
import torch

STEPS = 20  # hooks that change after a while would do so in between


def norm(tensor: torch.Tensor | None) -> float:
    assert tensor is not None
    return float(tensor.detach().double().norm())


def watched(tmp_path: Path, model: Any, optimizer: Any, **config: Any) -> stepwatch.Watch:
    path = write_config(tmp_path / "config.json", **{"wg_distribution": True, **config})
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path)


def halve_behind(parameter: Any) -> None:
    def hook(own: Any) -> None:
        own.grad.mul_(0.5)

    parameter.register_post_accumulate_grad_hook(hook)


def halve_before(parameter: Any) -> None:
    parameter.register_hook(lambda gradient: gradient * 0.5)


@pytest.mark.parametrize("comes", ["before the monitor", "in mid-run"])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("hook", [halve_behind, halve_before])
def test_hooks_of_others_count_the_same_in_every_step(
    tmp_path: Path, hook: Callable[[Any], None], each: bool, comes: str
) -> None:
    """What autograd accumulates has a row: behind hooks on what comes in, before hooks on what is accumulated."""
    model = mlp()
    if comes == "before the monitor":
        for parameter in model.parameters():
            hook(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    expected = []
    with watched(tmp_path, model, optimizer, monitor_mbs_grad=each):
        for step in range(STEPS):
            if comes == "in mid-run" and step == 3:
                for parameter in model.parameters():
                    hook(parameter)
            loss = model(torch.randn(5, 4)).pow(2).mean()
            loss.backward()
            # The one hook is called behind what is measured.
            is_halved = hook is halve_behind and (comes == "before the monitor" or step >= 3)
            expected.append(norm(model[0].weight.grad) * (2.0 if is_halved else 1.0))
            optimizer.step()
            optimizer.zero_grad()
    # What comes in mid-run has its place from the end of its step on.
    for step in [step for step in range(STEPS) if step != 3 or comes == "before the monitor"]:
        seen = value(rows(tmp_path, "grad_unreduced", step), "0.weight", "norm")
        assert seen == pytest.approx(expected[step], rel=1e-5), step


class Gan(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.generator, self.discriminator = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)


@pytest.mark.parametrize("is_frozen_at_first", [False, True])
def test_a_network_that_is_frozen_between_steps_has_its_rows(tmp_path: Path, is_frozen_at_first: bool) -> None:
    gan = Gan()
    of_generator = torch.optim.SGD(gan.generator.parameters(), lr=0.1)
    of_discriminator = torch.optim.SGD(gan.discriminator.parameters(), lr=0.1)
    gan.discriminator.requires_grad_(not is_frozen_at_first)
    expected = []
    with watched(tmp_path, gan, of_generator) as monitor:
        monitor.attach(gan, of_discriminator)
        for _ in range(STEPS):
            fake = gan.generator(torch.randn(6, 3))
            gan.discriminator.requires_grad_(True)
            of_discriminator.zero_grad()
            gan.discriminator(fake.detach()).mean().backward()
            expected.append(norm(gan.discriminator.weight.grad))
            of_discriminator.step()
            gan.discriminator.requires_grad_(False)
            of_generator.zero_grad()
            gan.discriminator(fake).mean().backward()
            of_generator.step()
    for step in range(2 if is_frozen_at_first else 0, STEPS):
        for kind in ("grad_unreduced", "grad_reduced"):
            assert value(rows(tmp_path, kind, step), "discriminator.weight", "norm") == pytest.approx(expected[step])


def test_optimizers_that_step_in_the_backward_pass_are_seen_before_they_do(tmp_path: Path) -> None:
    model = mlp()
    inner = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter: Any) -> None:
        inner[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    expected = []
    with watched(tmp_path, model, clock):
        for _ in range(STEPS):
            loss = model(torch.randn(5, 4)).pow(2).mean()
            named = dict(model.named_parameters())
            gradients = torch.autograd.grad(loss, list(named.values()), retain_graph=True)
            expected.append(dict(zip(named, map(norm, gradients))))
            loss.backward()
            clock.step()
    for step in range(STEPS):
        seen = {row["name"]: float(row["norm"]) for row in rows(tmp_path, "grad_unreduced", step)}
        assert seen == pytest.approx(expected[step], rel=1e-5)


def test_sparse_gradients_have_the_norm_of_what_they_hold(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Embedding(50, 3, sparse=True), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    with watched(tmp_path, model, optimizer):
        for _ in range(STEPS):
            model(torch.tensor([3, 7, 3, 3])).pow(2).sum().backward()
            gradient: Any = model[0].weight.grad
            expected.append(norm(gradient.to_dense()))
            optimizer.step()
            optimizer.zero_grad()
    for kind in ("grad_unreduced", "grad_reduced"):
        seen = [value(rows(tmp_path, kind, step), "0.weight", "norm") for step in range(STEPS)]
        assert seen == pytest.approx(expected, rel=1e-6)


def test_rows_of_a_network_that_is_updated_several_times_in_a_step_can_be_told_apart(tmp_path: Path) -> None:
    gan = Gan()
    of_generator = torch.optim.Adam(gan.generator.parameters())
    of_critic = torch.optim.Adam(gan.discriminator.parameters())
    kinds = {"param_distribution": True, "mv_distribution": True, "mg_direction": True, "xy_distribution": True}
    first, last = [], []
    with watched(tmp_path, gan, of_generator, **kinds) as monitor:
        monitor.attach(gan, of_critic)
        for _ in range(STEPS):
            for update in range(3):
                of_critic.zero_grad()
                gan.discriminator(gan.generator(torch.randn(5, 3)).detach()).mean().backward()
                of_critic.step()
                if update == 0:
                    first.append(norm(gan.discriminator.weight.grad))
            last.append(norm(gan.discriminator.weight.grad))
            of_generator.zero_grad()
            gan.discriminator(gan.generator(torch.randn(5, 3))).mean().backward()
            of_generator.step()
    files = sorted(tmp_path.glob("*-rank*/*.csv"))
    kinds_seen = {file.name.rpartition("_")[0] for file in files}
    assert len(kinds_seen) == 9
    for kind in kinds_seen:
        keys = [(row["vpp_stage"], row["name"], row["step"], row.get("micro_step")) for row in rows(tmp_path, kind)]
        assert len(set(keys)) == len(keys), kind
    for step in range(STEPS):
        table = rows(tmp_path, "grad_reduced", step)
        assert value(table, "discriminator.weight", "norm") == pytest.approx(first[step])
        assert value(table, "discriminator.weight@2", "norm") == pytest.approx(last[step])
        assert "discriminator.weight@1" in {row["name"] for row in table}


def test_passes_without_gradients_do_not_take_the_places_of_gradients(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rollouts, and generation in train mode."""
    torch.set_num_threads(1)
    torch.manual_seed(9)
    model = torch.nn.Sequential(*(layer for _ in range(20) for layer in (torch.nn.Linear(8, 8), torch.nn.Tanh())))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    with watched(tmp_path, model, optimizer, xy_distribution=True, param_distribution=True) as monitor:
        for _ in range(3):
            with torch.no_grad():
                for _ in range(1500):
                    model(torch.ones(1, 8))
            model(torch.randn(8, 8)).pow(2).mean().backward()
            expected.append([norm(each.grad) for each in model.parameters()])
            optimizer.step()
            optimizer.zero_grad()
        monitor.flush()
        assert "drops records (ring_full)" in capfd.readouterr().out
    for step in range(3):
        for kind in ("grad_unreduced", "grad_reduced"):
            table = {row["name"]: float(row["norm"]) for row in rows(tmp_path, kind, step)}
            names = [name for name, _ in model.named_parameters()]
            assert [table[name] for name in names] == pytest.approx(expected[step], rel=1e-5)
        assert len(rows(tmp_path, "param_updated", step)) == 40


def test_an_update_that_evaluates_its_closure_again_is_one_update(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(5, 4)).pow(2).mean()
        loss.backward()
        return loss

    with watched(tmp_path, model, optimizer):
        for _ in range(STEPS):
            optimizer.step(closure)
    for step in range(STEPS):
        unreduced, reduced = (rows(tmp_path, kind, step) for kind in ("grad_unreduced", "grad_reduced"))
        norms = {row["name"]: row["norm"] for row in reduced}
        assert sorted(norms) == sorted(name for name, _ in model.named_parameters())
        assert {row["name"]: row["norm"] for row in unreduced} == norms  # those of the first evaluation
