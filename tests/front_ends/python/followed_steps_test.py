"""One step of the optimizer is one step, however it is called, replaced, compiled or left out."""

from __future__ import annotations

import math
import traceback
from pathlib import Path
from typing import Any

import pytest
from jobs import (
    PARAMETERS,
    adam_job,
    gradient_norms,
    mlp,
    norms,
    rows,
    same_tensors,
    sgd_job,
    steps_of,
    train,
    train_scaled,
    watched,
    weight_norms,
)

import torch
from stepwatch.hooks.eager_calls import eager
from stepwatch.optimizers.hooked_step import takes_step_hooks


def test_a_step_that_is_replaced_later_drops_nothing(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    original = optimizer.step
    with watched(tmp_path, model, optimizer, **PARAMETERS):
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
    with watched(tmp_path, model, optimizer, **PARAMETERS) as monitor:
        train(model, optimizer, 3)
        assert monitor.status()["step"] == 3
    assert len(rows(tmp_path, "param_updated", 1)) == 6
    assert norms(tmp_path, "param_origin", 2) != norms(tmp_path, "param_updated", 2)


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


@pytest.mark.parametrize("fails", [False, True])
def test_the_first_step_of_one_that_leads_another_without_stepping_it_has_all_rows(tmp_path: Path, fails: bool) -> None:
    model = mlp()
    optimizer = UpdatesInPlaceOf(model)
    with watched(tmp_path, model, optimizer, **PARAMETERS) as monitor:
        for step in range(3):
            model(torch.ones(3, 4)).pow(2).mean().backward()
            expected = {"param_origin": weight_norms(model)}
            expected |= dict.fromkeys(("grad_unreduced", "grad_reduced"), gradient_norms(model))
            optimizer.fails = fails and step == 0
            if optimizer.fails:
                with pytest.raises(ArithmeticError):
                    optimizer.step()
                optimizer.fails = False
            optimizer.step()
            optimizer.zero_grad()
            expected["param_updated"] = weight_norms(model)
            monitor.flush()
            for kind, right in expected.items():
                assert norms(tmp_path, kind, step) == pytest.approx(right, rel=1e-5), (kind, step)


def test_gradients_that_the_first_step_of_such_a_one_changes_are_not_called_reduced(tmp_path: Path) -> None:
    model = mlp()
    optimizer = UpdatesInPlaceOf(model)
    optimizer.halves = True
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        train(model, optimizer, 1)
    assert steps_of(tmp_path, "param_origin") == steps_of(tmp_path, "param_updated") == [0]
    assert steps_of(tmp_path, "grad_reduced") == []


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("kind", ["SGD", "LBFGS"])
def test_gradients_of_a_closure_are_read_when_it_has_first_computed_them(
    tmp_path: Path, kind: str, keyword: bool
) -> None:
    model = mlp()
    options = {"SGD": {"lr": 0.1}, "LBFGS": {"max_iter": 4, "line_search_fn": "strong_wolfe"}}[kind]
    optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
    computed: list[dict[str, float]] = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).mean()
        loss.backward()
        computed.append(gradient_norms(model))
        return loss

    expected = []
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        for _ in range(12):
            computed.clear()
            returned = optimizer.step(closure=closure) if keyword else optimizer.step(closure)
            assert returned is not None
            expected.append(computed[0])
    for step, right in enumerate(expected):
        for kind in ("grad_unreduced", "grad_reduced"):
            assert norms(tmp_path, kind, step) == pytest.approx(right, rel=1e-5)


def test_a_skipped_step_has_the_gradients_that_made_it_skip(tmp_path: Path) -> None:
    model, optimizer = adam_job(torch.nn.Linear(4, 2))
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        train_scaled(model, optimizer, 3, skipped=[1])
    for kind in ("param_origin", "grad_unreduced", "grad_reduced"):
        assert steps_of(tmp_path, kind) == [0, 1, 2]
    assert steps_of(tmp_path, "param_updated") == [0, 2]
    assert any(math.isinf(float(row["max"])) or row["max"] == "nan" for row in rows(tmp_path, "grad_reduced", 1))
    assert norms(tmp_path, "param_origin", 1) == norms(tmp_path, "param_origin", 2)


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
        watch = watched(tmp_path, model, optimizer, **PARAMETERS) if monitor else None
        step = torch.compile(lambda: optimizer.step(), backend="eager")
        generator = torch.Generator().manual_seed(7)
        for _ in range(12):
            model(torch.randn(5, 4, generator=generator)).pow(2).mean().backward()
            step()
            optimizer.zero_grad()
        if watch is not None:
            watch.close()
        return [parameter.detach().clone() for parameter in model.parameters()]

    assert same_tensors(trained(False), trained(True))
    for kind in ("grad_unreduced", "grad_reduced", "param_origin", "param_updated"):
        assert len(rows(tmp_path, kind)) == 12 * 6, kind
    assert len(rows(tmp_path, "exp_avg")) == 11 * 6
