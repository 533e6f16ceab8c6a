"""Adapters find the optimizers inside of the object that is passed: proxies, containers, known and unknown classes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs import PARAMETERS, mlp, norms, rows, steps_of, train, value, watched, weight_norms

import torch
from stepwatch.frameworks.optimizer_adapter import JoinedStates, OptimizerAdapter, parts_of
from stepwatch.frameworks.table import adapter_of

KINDS = ("grad_unreduced", "grad_reduced", "param_origin", "param_updated")


def of_module(kind: type, module: str) -> Any:
    """Let a class look as if a framework had defined it."""
    kind.__module__ = module
    return kind


# --- proxies, shaped like accelerate's ---


class AcceleratedOptimizer(torch.optim.Optimizer):
    """Is called in every micro-batch, and with a scaler replaces the step of torch's optimizer for a moment."""

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: Any = None) -> None:
        self.optimizer = optimizer
        self.scaler = scaler
        self.sync_gradients = True
        self._called = False
        original = optimizer.step

        def patched(*args: Any, **kwargs: Any) -> Any:
            self._called = True
            return original(*args, **kwargs)

        self._original, self._patched = original, patched

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> None:
        if not self.sync_gradients:
            return
        if self.scaler is None:
            self.optimizer.step(closure)
            return
        self.optimizer.step = self._patched  # type: ignore[method-assign]
        self.scaler.step(self.optimizer, closure)
        self.scaler.update()
        self.optimizer.step = self._original  # type: ignore[method-assign]

    def zero_grad(self, set_to_none: bool = True) -> None:
        if self.sync_gradients:
            self.optimizer.zero_grad()


of_module(AcceleratedOptimizer, "accelerate.optimizer")


def test_a_proxy_that_is_called_in_every_micro_batch_steps_once_a_step(tmp_path: Path) -> None:
    model = mlp()
    proxy = AcceleratedOptimizer(torch.optim.Adam(model.parameters()))
    with watched(tmp_path, model, proxy, **PARAMETERS, grad_acc_steps=2) as monitor:
        for micro_step in range(6):
            proxy.sync_gradients = micro_step % 2 == 1
            model(torch.ones(2, 4)).sum().backward()
            proxy.step()
            proxy.zero_grad()
        assert monitor.status()["step"] == 3
    for kind in KINDS:
        assert len(rows(tmp_path, kind)) == 3 * 6, kind
    assert len(rows(tmp_path, "exp_avg")) == 2 * 6


def test_a_proxy_with_a_scaler_loses_no_rows_and_skips_once(tmp_path: Path) -> None:
    model = mlp()
    scaler = torch.amp.GradScaler("cpu")
    proxy = AcceleratedOptimizer(torch.optim.Adam(model.parameters()), scaler)
    with watched(tmp_path, model, proxy, **PARAMETERS) as monitor:
        for step in range(5):
            loss = model(torch.ones(2, 4)).sum() * (float("inf") if step == 2 else 1.0)
            scaler.scale(loss).backward()
            proxy.step()
            proxy.zero_grad()
        assert monitor.status()["step"] == 5
    assert steps_of(tmp_path, "grad_reduced") == [0, 1, 2, 3, 4]
    assert steps_of(tmp_path, "param_updated") == [0, 1, 3, 4]


def test_a_proxy_whose_step_does_nothing_is_looked_through(tmp_path: Path) -> None:
    class DeepSpeedOptimizerWrapper(AcceleratedOptimizer):
        def step(self, closure: Any = None) -> None:
            pass

    of_module(DeepSpeedOptimizerWrapper, "accelerate.utils.deepspeed")
    model = mlp()
    inner = torch.optim.Adam(model.parameters())
    wrapper = DeepSpeedOptimizerWrapper(inner)
    with watched(tmp_path, model, wrapper, **PARAMETERS) as monitor:
        train(model, inner, 2, before_step=lambda step: wrapper.step())
        assert monitor.status()["step"] == 2


# --- containers ---


class OptimizersContainer(torch.optim.Optimizer):
    """Has an optimizer for each part of the model, and the parameters of all, but no state."""

    def __init__(self, parts: list[torch.nn.Module]) -> None:
        self.optimizers = [torch.optim.AdamW(part.parameters()) for part in parts]
        super().__init__([parameter for part in parts for parameter in part.parameters()], {})

    def step(self, closure: Any = None) -> None:
        for optimizer in self.optimizers:
            optimizer.step()


of_module(OptimizersContainer, "torchtitan.components.optimizer")


def test_the_moments_of_a_container_are_those_of_its_optimizers(tmp_path: Path) -> None:
    model = mlp()
    container = OptimizersContainer([model[0], model[2], model[3]])
    with watched(tmp_path, model, container, **PARAMETERS) as monitor:
        train(model, container, 2)
        assert monitor.status()["step"] == 2
    assert len(rows(tmp_path, "exp_avg", 1)) == len(rows(tmp_path, "exp_avg_sq", 1)) == 6
    for kind in KINDS:
        assert len(rows(tmp_path, kind)) == 2 * 6, kind


@contextlib.contextmanager
def process_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_the_moments_of_torchs_zero_redundancy_optimizer_are_found(tmp_path: Path) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = mlp()
    with process_group(tmp_path):
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
        with watched(tmp_path, model, optimizer, **PARAMETERS) as monitor:
            train(model, optimizer, 3)
            assert monitor.status()["step"] == 3
            expected = float(optimizer.optim.state[model[0].weight]["exp_avg"].double().norm())
            train(model, optimizer, 1)
    assert len(rows(tmp_path, "exp_avg", 2)) == 6
    assert value(rows(tmp_path, "exp_avg", 3), "0.weight", "norm") == pytest.approx(expected)
    for kind in KINDS:
        assert len(rows(tmp_path, kind)) == 4 * 6, kind


class ChainedOptimizer:
    """Is nobody's subclass; its state has no `get`."""

    class ProxyDict:
        pass

    def __init__(self, model: torch.nn.Module) -> None:
        self.chained_optimizers = [torch.optim.Adam(model[0].parameters()), torch.optim.Adam(model[3].parameters())]
        self.state = self.ProxyDict()

    @property
    def param_groups(self) -> Any:
        return [group for each in self.chained_optimizers for group in each.param_groups]

    def step(self) -> None:
        for optimizer in self.chained_optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.chained_optimizers:
            optimizer.zero_grad()


def test_the_states_of_chained_optimizers_are_joined(tmp_path: Path) -> None:
    model = mlp()
    chained = ChainedOptimizer(model)
    with watched(tmp_path, model, chained, **PARAMETERS) as monitor:
        train(model, chained, 2)
        assert monitor.status()["step"] == 2
    assert {row["name"] for row in rows(tmp_path, "exp_avg", 1)} == {"0.weight", "0.bias", "3.weight", "3.bias"}
    assert steps_of(tmp_path, "param_updated") == [0, 1]


def test_groups_added_to_an_optimizer_inside_are_followed(tmp_path: Path) -> None:
    model = mlp()
    chained = ChainedOptimizer(model)
    with watched(tmp_path, model, chained, **PARAMETERS):
        train(model, chained, 2)
        chained.chained_optimizers[1].add_param_group({"params": list(model[2].parameters())})
        train(model, chained, 2)
    assert {"2.weight", "2.bias"} <= {row["name"] for row in rows(tmp_path, "exp_avg", 3)}


# --- quantised state ---


class OptimState8bit:
    """Holds codes; torchao's is a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.codes = (tensor * 100).round()

    def dequantize(self) -> torch.Tensor:
        return self.codes / 100


def test_quantised_moments_are_read_as_the_optimizer_computes_with_them(tmp_path: Path) -> None:
    class AdamW8bit(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter].update(
                    exp_avg=OptimState8bit(torch.ones_like(parameter)), exp_avg_sq=torch.ones_like(parameter)
                )

    of_module(AdamW8bit, "torchao.optim.adam")
    model = mlp()
    optimizer = AdamW8bit(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        train(model, optimizer, 2)
    assert value(rows(tmp_path, "exp_avg", 1), "3.bias", "norm") == pytest.approx(2**0.5)
    assert len(rows(tmp_path, "exp_avg_sq", 1)) == 6


# --- classes that nobody knows ---


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("accelerate.optimizer", "AcceleratedOptimizer"),
        ("accelerate.utils.deepspeed", "DeepSpeedOptimizerWrapper"),
        ("lightning.pytorch.core.optimizer", "LightningOptimizer"),
        ("pytorch_lightning.core.optimizer", "LightningOptimizer"),
    ],
)
def test_the_optimizer_behind_a_proxy_is_followed_also_if_a_class_is_made_of_the_proxys(module: str, name: str) -> None:
    kind = of_module(type(name, (), {"optimizer": property(lambda self: self.inner)}), module)
    proxy = type(f"{name}OfMine", (kind,), {"__module__": "mine"})()
    proxy.inner = torch.optim.SGD(mlp().parameters(), lr=0.1)
    assert adapter_of(proxy).optimizer is proxy.inner
    proxy = of_module(type(name, (), {}), "mine")()
    proxy.optimizer = torch.optim.SGD(mlp().parameters(), lr=0.1)
    assert adapter_of(proxy).optimizer is proxy, "another's class of the same name"


def test_a_proxy_of_a_proxy_is_looked_through() -> None:
    inner = torch.optim.SGD(mlp().parameters(), lr=0.1)
    adapter = adapter_of(AcceleratedOptimizer(AcceleratedOptimizer(inner)))
    assert adapter.optimizer is inner and adapter.is_understood


def test_a_class_of_ones_own_made_of_torchs_is_understood_and_any_other_is_not() -> None:
    class Lion(torch.optim.Optimizer):
        pass

    class Other:
        param_groups: Any = ()

    assert adapter_of(Lion(mlp().parameters(), {})).is_understood
    assert not adapter_of(Other()).is_understood


def test_attributes_that_raise_are_left_out() -> None:
    class Odd:
        @property
        def optimizer(self) -> Any:
            raise RuntimeError("not yet")

        @property
        def state(self) -> Any:
            raise RuntimeError("not yet")

    odd = Odd()
    assert parts_of(odd) == [odd]
    assert OptimizerAdapter(odd).moments().get("anything") is None


def test_optimizers_that_hold_each_other_are_found_once() -> None:
    first, second = (torch.optim.SGD(mlp().parameters(), lr=0.1) for _ in range(2))
    first.optimizer, second.optimizer = second, first  # type: ignore[attr-defined]
    assert [id(part) for part in parts_of(first)] == [id(second), id(first)]


def test_joined_states_give_the_first_state_that_is_not_empty() -> None:
    states = JoinedStates([{"a": {}}, {"a": {"exp_avg": 1}, "b": {"exp_avg": 2}}])
    assert states.get("a") == {"exp_avg": 1} and states.get("b") == {"exp_avg": 2} and states.get("c") is None


class OfCopies:
    """Updates copies in float64, and may list these."""

    def __init__(self, model: torch.nn.Module, lists: bool) -> None:
        self.pairs = [(parameter, parameter.detach().double()) for parameter in model.parameters()]
        self.inner = torch.optim.SGD([copy for _, copy in self.pairs], lr=0.1)
        if lists:
            self.param_groups = self.inner.param_groups

    def step(self) -> None:
        for parameter, copy in self.pairs:
            copy.grad = parameter.grad.double()
        self.inner.step()
        with torch.no_grad():
            for parameter, copy in self.pairs:
                parameter.copy_(copy)

    def zero_grad(self) -> None:
        for parameter, _ in self.pairs:
            parameter.grad = None


@pytest.mark.parametrize("lists", [False, True])
def test_weights_and_gradients_are_read_whatever_the_optimizer_updates(tmp_path: Path, lists: bool) -> None:
    model = mlp()
    optimizer = OfCopies(model, lists)
    with watched(tmp_path, model, optimizer, **PARAMETERS):
        train(model, optimizer, 2)
    for kind in ("grad_unreduced", "grad_reduced", "param_origin"):
        assert norms(tmp_path, kind, 1).keys() == weight_norms(model).keys(), kind
    assert norms(tmp_path, "param_updated", 0) == norms(tmp_path, "param_origin", 1)
    assert norms(tmp_path, "param_updated", 1) == pytest.approx(weight_norms(model), rel=1e-12)
