"""One step of the optimizer is one step, whoever calls it, replaces it, compiles it or leaves it out."""

from __future__ import annotations

import math
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, train, write_config

import stepwatch
import torch
from stepwatch.hooks.eager_calls import eager
from stepwatch.hooks.hooked_step import takes_step_hooks

EVERYTHING = {"wg_distribution": True, "mv_distribution": True, "param_distribution": True}


def watched(tmp_path: Path, model: torch.nn.Module, optimizer: Any, **config: Any) -> stepwatch.Watch:
    path = write_config(tmp_path / "config.json", **{**EVERYTHING, **config})
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path)


def steps_of(tmp_path: Path, kind: str) -> list[int]:
    return sorted({int(row["step"]) for row in rows(tmp_path, kind)})


def test_an_optimizer_of_torch_is_followed_by_its_hooks_and_keeps_its_step(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    before = dict(optimizer._optimizer_step_pre_hooks), dict(optimizer._optimizer_step_post_hooks)
    with watched(tmp_path, model, optimizer):
        assert "step" not in vars(optimizer)
        train(model, optimizer, 2)
    assert (dict(optimizer._optimizer_step_pre_hooks), dict(optimizer._optimizer_step_post_hooks)) == before
    train(model, optimizer, 1)
    assert steps_of(tmp_path, "grad_reduced") == [0, 1]


def test_whoever_replaces_the_step_later_drops_nothing(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    original = optimizer.step
    with watched(tmp_path, model, optimizer):
        for step in range(3):
            optimizer.step = (lambda *args: original(*args)) if step == 1 else original  # type: ignore[method-assign]
            train(model, optimizer, 1)
    assert steps_of(tmp_path, "param_updated") == steps_of(tmp_path, "grad_reduced") == [0, 1, 2]


def test_a_class_that_calls_the_step_of_its_base_steps_once(tmp_path: Path) -> None:
    class Twice(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            return super().step()

    model = mlp()
    optimizer = Twice(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer) as monitor:
        train(model, optimizer, 3)
        assert monitor.status()["step"] == 3
    assert len(rows(tmp_path, "param_updated", 1)) == 6
    last = {row["name"]: row["norm"] for row in rows(tmp_path, "param_updated", 2)}
    assert {row["name"]: row["norm"] for row in rows(tmp_path, "param_origin", 2)} != last


def test_a_step_that_raised_is_not_the_last(tmp_path: Path) -> None:
    class Fails(torch.optim.SGD):
        fails = False

        def step(self, closure: Any = None) -> Any:
            if self.fails:
                raise ArithmeticError("no luck")
            return super().step(closure)

    model = mlp()
    optimizer = Fails(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer) as monitor:
        train(model, optimizer, 1)
        optimizer.fails = True
        with pytest.raises(ArithmeticError):
            train(model, optimizer, 1)
        optimizer.fails = False
        train(model, optimizer, 2)
        assert monitor.status()["step"] == 3


class UpdatesInPlaceOf:
    """Leads an optimizer of torch's whose step it never calls: it updates its groups by code of its own."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.inner = torch.optim.SGD(model.parameters(), lr=0.1)
        self.fails = self.halves = False

    def step(self) -> None:
        if self.fails:
            raise ArithmeticError("no luck")
        with torch.no_grad():
            for parameter in self.inner.param_groups[0]["params"]:
                if self.halves:
                    parameter.grad.mul_(0.5)
                parameter.sub_(parameter.grad, alpha=0.1)

    def zero_grad(self) -> None:
        self.inner.zero_grad()


def norm(tensor: Any) -> float:
    return float(tensor.detach().double().norm())


def norms_of(tmp_path: Path, kind: str, step: int) -> dict[str, float]:
    found = rows(tmp_path, kind, step)
    assert len({row["name"] for row in found}) == len(found)
    return {row["name"]: float(row["norm"]) for row in found}


@pytest.mark.parametrize("fails", [False, True])
def test_the_first_step_of_one_that_leads_another_without_stepping_it_has_all_rows(tmp_path: Path, fails: bool) -> None:
    model = mlp()
    optimizer = UpdatesInPlaceOf(model)
    with watched(tmp_path, model, optimizer) as monitor:
        for step in range(3):
            model(torch.ones(3, 4)).pow(2).mean().backward()
            expected = {"param_origin": {name: norm(each) for name, each in model.named_parameters()}}
            for kind in ("grad_unreduced", "grad_reduced"):
                expected[kind] = {name: norm(each.grad) for name, each in model.named_parameters()}
            optimizer.fails = fails and step == 0
            if optimizer.fails:
                with pytest.raises(ArithmeticError):
                    optimizer.step()
                optimizer.fails = False
            optimizer.step()
            optimizer.zero_grad()
            expected["param_updated"] = {name: norm(each) for name, each in model.named_parameters()}
            monitor.flush()
            for kind, norms in expected.items():
                assert norms_of(tmp_path, kind, step) == pytest.approx(norms, rel=1e-5), (kind, step)


def test_gradients_that_the_first_step_of_such_a_one_changes_are_not_called_reduced(tmp_path: Path) -> None:
    model = mlp()
    optimizer = UpdatesInPlaceOf(model)
    optimizer.halves = True
    with watched(tmp_path, model, optimizer):
        train(model, optimizer, 1)
    assert steps_of(tmp_path, "param_origin") == steps_of(tmp_path, "param_updated") == [0]
    assert steps_of(tmp_path, "grad_reduced") == []


@pytest.mark.parametrize("keyword", [False, True])
def test_gradients_of_a_closure_are_read_when_it_has_computed_them(tmp_path: Path, keyword: bool) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        return loss

    with watched(tmp_path, model, optimizer):
        for _ in range(2):
            returned = optimizer.step(closure=closure) if keyword else optimizer.step(closure)
            assert returned is not None
    assert len(rows(tmp_path, "grad_reduced", 0)) == len(rows(tmp_path, "grad_reduced", 1)) == 6


def test_a_skipped_step_has_the_gradients_that_made_it_skip(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    with watched(tmp_path, model, optimizer):
        for step in range(3):
            loss = model(torch.ones(3, 4)).mean() * (float("inf") if step == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert steps_of(tmp_path, "param_origin") == steps_of(tmp_path, "grad_reduced") == [0, 1, 2]
    assert steps_of(tmp_path, "param_updated") == [0, 2]
    assert any(math.isinf(float(row["max"])) or row["max"] == "nan" for row in rows(tmp_path, "grad_reduced", 1))
    origins = [{row["name"]: row["norm"] for row in rows(tmp_path, "param_origin", step)} for step in (1, 2)]
    assert origins[0] == origins[1]


def test_a_watched_optimizer_can_be_pickled(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer) as monitor:
        pickle.loads(pickle.dumps(optimizer)).step()
        assert monitor.status()["step"] == 0


def test_only_steps_that_torch_calls_hooks_for_are_followed_by_them() -> None:
    class Alien(torch.optim.Optimizer):
        def __init__(self) -> None:
            pass

        def step(self, closure: Any = None) -> None:
            pass

    optimizer = torch.optim.SGD(mlp().parameters(), lr=0.1)
    assert takes_step_hooks(optimizer) and not takes_step_hooks(Alien()) and not takes_step_hooks(object())
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert takes_step_hooks(optimizer)
    optimizer.step = lambda: None  # type: ignore[method-assign]
    assert not takes_step_hooks(optimizer)


def test_a_hook_is_never_traced_and_goes_through_nothing_of_the_compiler_unless_something_compiles() -> None:
    torch._dynamo.reset()
    calls: list[tuple[bool, bool]] = []

    @eager
    def hook(value: torch.Tensor) -> None:
        callers = [frame.filename for frame in traceback.extract_stack()]
        calls.append((torch.compiler.is_compiling(), any("_dynamo" in caller for caller in callers)))

    def step(value: torch.Tensor) -> torch.Tensor:
        doubled = value * 2
        hook(doubled)
        return doubled + 1

    compiled = torch.compile(step, backend="eager")
    assert step(torch.ones(1)) == compiled(torch.ones(1)) == compiled(torch.ones(1)) == 3
    assert calls == [(False, False), (False, True), (False, True)]


def test_a_compiled_step_loses_no_rows_and_updates_alike(tmp_path: Path) -> None:
    def trained(monitor: bool) -> list[torch.Tensor]:
        torch._dynamo.reset()
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        watch = watched(tmp_path, model, optimizer) if monitor else None
        step = torch.compile(lambda: optimizer.step(), backend="eager")
        generator = torch.Generator().manual_seed(7)
        for _ in range(12):
            model(torch.randn(5, 4, generator=generator)).pow(2).mean().backward()
            step()
            optimizer.zero_grad()
        if watch is not None:
            watch.close()
        return [parameter.detach().clone() for parameter in model.parameters()]

    bare, seen = trained(False), trained(True)
    assert all(torch.equal(a, b) for a, b in zip(bare, seen))
    for kind in ("grad_unreduced", "grad_reduced", "param_origin", "param_updated"):
        assert len(rows(tmp_path, kind)) == 12 * 6, kind
    assert len(rows(tmp_path, "exp_avg")) == 11 * 6
