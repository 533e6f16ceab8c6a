"""Training with a monitor is training without one, to the bit, whatever models and optimizers do."""

from __future__ import annotations

import copy
import gc
import io
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, train, value, watched

import torch


def trained(
    tmp_path: Path | None, make: Callable[[], torch.nn.Module], sample: Callable[[], torch.Tensor]
) -> list[torch.Tensor]:
    """Return losses, gradients and state of three steps, with a monitor if there is a directory for it."""
    torch.manual_seed(3)
    model = make()
    optimizer = torch.optim.Adam(model.parameters())
    monitor = None if tmp_path is None else watched(tmp_path, model, optimizer)
    seen = []
    for _ in range(3):
        loss = model(sample()).pow(2).mean()
        loss.backward()
        seen += [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]
        optimizer.step()
        optimizer.zero_grad()
        seen += [tensor.clone() for tensor in model.state_dict().values()]
    if monitor is not None:
        monitor.close()
    return [*seen, torch.get_rng_state()]


def trains_alike(tmp_path: Path, make: Callable[[], torch.nn.Module], sample: Callable[[], torch.Tensor]) -> bool:
    bare, monitored = trained(None, make, sample), trained(tmp_path, make, sample)
    return len(bare) == len(monitored) and all(torch.equal(a, b) for a, b in zip(bare, monitored))


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(33, 33), torch.nn.Linear(33, 33)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x).tanh() + self.right(x) * 0.3 + x


class Skipping(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.block, self.last = torch.nn.Linear(33, 33), Residual(), Residual()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        return self.last(self.block(hidden)) + hidden.sin()


def test_gradients_that_meet_in_a_skip_connection_are_added_in_the_same_order(tmp_path: Path) -> None:
    assert trains_alike(tmp_path, Skipping, lambda: torch.randn(7, 33))


def test_the_gradient_of_an_input_is_the_sum_over_all_its_uses_in_the_module(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = Skipping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with watched(tmp_path, model, optimizer):
        hidden = []
        handle = model.first.register_forward_hook(lambda _, __, output: hidden.append(output))
        out = model(torch.randn(7, 33))
        handle.remove()
        hidden[0].retain_grad()
        out.pow(2).sum().backward()
        optimizer.step()
    past_the_block = hidden[0].detach().cos() * 2 * out.detach()
    expected = float((hidden[0].grad - past_the_block).norm())
    assert value(rows(tmp_path, "actv_grad", 0), "block.input", "norm") == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_one_keeps_its_memory_format(tmp_path: Path) -> None:
    formats = []

    def make() -> torch.nn.Module:
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 4, 3))
        model[1].register_forward_hook(lambda _, __, output: formats.append(output.stride()))
        return model

    assert trains_alike(tmp_path, make, lambda: torch.ones(1, 3, 9, 9).to(memory_format=torch.channels_last))
    assert len(set(formats)) == 1


def test_a_module_is_given_the_very_tensors_it_is_called_with(tmp_path: Path) -> None:
    class Looks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.scale

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.same, self.looks = torch.nn.Linear(4, 4), torch.nn.Identity(), Looks()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x)
            hidden.scale = 3
            assert self.same(hidden) is hidden
            return self.looks(hidden)

    model = Outer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert value(rows(tmp_path, "actv_grad", 0), "same.input", "max") == 3


def test_a_function_that_writes_into_its_input_and_returns_two_tensors_runs(tmp_path: Path) -> None:
    class Doubles(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2), x.sum()

        @staticmethod
        def backward(ctx: Any, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return first * 2 + second * 2

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            doubled, total = Doubles.apply(x)
            return doubled * total

    assert trains_alike(
        tmp_path, lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), Module()), lambda: torch.ones(2, 4)
    )


def test_looking_at_a_parametrized_weight_does_not_change_its_state(tmp_path: Path) -> None:
    def make() -> torch.nn.Module:
        return torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4))

    assert trains_alike(tmp_path, make, lambda: torch.ones(2, 4))


@pytest.mark.parametrize("how", ["torch.save", "deepcopy"])
def test_a_copy_of_a_model_with_features_and_stacks_watched_writes_nothing(tmp_path: Path, how: str) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer):
        model(torch.ones(2, 4)).sum().backward()
        if how == "deepcopy":
            clone = copy.deepcopy(model)
        else:
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            clone = torch.load(file, weights_only=False)
        clone(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert len(rows(tmp_path, "linear_hook", 0)) == 2
    assert {row["name"] for row in rows(tmp_path, "actv", 0)} >= {"0.input"}
    assert all("@" not in row["name"] for row in rows(tmp_path, "actv", 0))


class Plain:
    """An optimizer that is nobody's subclass."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters = list(model.parameters())

    def step(self, rate: float = 0.5) -> float:
        for parameter in self.parameters:
            parameter.data -= rate
        return rate


def test_a_copied_optimizer_steps_its_own_parameters(tmp_path: Path) -> None:
    model = mlp()
    optimizer = Plain(model)
    with watched(tmp_path, model, optimizer):
        before = [parameter.detach().clone() for parameter in model.parameters()]
        clone = copy.deepcopy(optimizer)
        clone.step()
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
        assert all(torch.equal(a - 0.5, b) for a, b in zip(before, clone.parameters))


def test_what_an_optimizer_is_given_that_is_no_closure_reaches_it(tmp_path: Path) -> None:
    model = mlp()
    optimizer = Plain(model)
    with watched(tmp_path, model, optimizer) as monitor:
        assert optimizer.step(0.25) == 0.25
        assert optimizer.step(rate=0.125) == 0.125
        assert monitor.status()["step"] == 2


def test_a_closure_is_given_what_the_optimizer_calls_it_with(tmp_path: Path) -> None:
    class Twice(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            closure(backward=True)
            return super().step()

    model = mlp()
    optimizer = Twice(model.parameters(), lr=0.1)
    given = []
    with watched(tmp_path, model, optimizer):
        optimizer.step(lambda backward: given.append(backward))
    assert given == [True]


def test_compiled_modules_are_compiled_as_without_a_monitor(tmp_path: Path) -> None:
    model = torch.compile(mlp(), backend="eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer):
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert {row["name"] for row in rows(tmp_path, "grad_unreduced", 1)} >= {"0.weight"}


def test_a_trace_holds_nothing_of_the_monitor(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bare = torch.jit.trace(model, torch.ones(2, 4))
    with watched(tmp_path, model, optimizer):
        traced = torch.jit.trace(model, torch.ones(2, 4))
    kinds = [[node.kind() for node in module.inlined_graph.nodes()] for module in (bare, traced)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("what", [lambda model: model, lambda model: model[3], copy.deepcopy])
def test_a_script_holds_nothing_of_the_monitor(tmp_path: Path, what: Callable[[Any], Any]) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    untouched = torch.jit._recursive.create_script_module
    bare = torch.jit.script(what(model)).inlined_graph
    with watched(tmp_path, model, optimizer):
        for step in range(2):
            if step == 1:
                scripted = torch.jit.script(what(model)).inlined_graph
            train(model, optimizer, 1)
    assert [node.kind() for node in scripted.nodes()] == [node.kind() for node in bare.nodes()]
    assert [row["name"] for row in rows(tmp_path, "actv", 1)] == [row["name"] for row in rows(tmp_path, "actv", 0)]
    assert torch.jit._recursive.create_script_module is untouched


def test_a_symbolic_trace_holds_nothing_of_the_monitor_and_is_no_call(tmp_path: Path) -> None:
    model = torch.nn.Sequential(Residual(), Residual())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bare = torch.fx.symbolic_trace(model).graph
    with watched(tmp_path, model, optimizer):
        for step in range(2):
            if step == 1:
                traced = torch.fx.symbolic_trace(model).graph
            model(torch.ones(2, 33)).sum().backward()
            optimizer.step()
    assert [node.name for node in traced.nodes] == [node.name for node in bare.nodes]
    assert [row["name"] for row in rows(tmp_path, "actv", 1)] == [row["name"] for row in rows(tmp_path, "actv", 0)]


def test_a_call_that_raised_keeps_nothing_alive(tmp_path: Path) -> None:
    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            graphs.append(weakref.ref(x))
            raise MemoryError

    graphs: list[Any] = []
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), Raises()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer):
        with pytest.raises(MemoryError):
            model(torch.ones(2, 4))
        gc.collect()
        assert graphs[0]() is None


def test_tensors_that_a_container_makes_when_it_is_asked_are_measured(tmp_path: Path) -> None:
    class Made:
        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return None if instance is None else instance.base * 2

        def __set__(self, instance: Any, given: Any) -> None:
            pass

    @dataclass
    class Result:
        base: Any
        made: Any = Made()

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Result:
            return Result(x.repeat(5000, 1))

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Module())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer):
        result = model(torch.ones(2, 4))
        result.base.sum().backward()
        optimizer.step()
    norm = float(result.base.detach().double().norm())
    assert value(rows(tmp_path, "actv", 0), "1.output_1", "norm") == pytest.approx(2 * norm)


def test_monitors_that_nobody_closes_go_with_their_models(tmp_path: Path) -> None:
    def watch_and_leave() -> Any:
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters())
        watched(tmp_path, model, optimizer, cc_distribution={"enable": True})
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        return weakref.ref(model)

    threads = len(list(Path("/proc/self/task").iterdir()))
    models = [watch_and_leave() for _ in range(3)]
    gc.collect()
    assert [model() for model in models] == [None] * 3
    assert len(list(Path("/proc/self/task").iterdir())) <= threads


def test_monitors_that_overlap_leave_nothing_behind(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    of_class = torch.amp.GradScaler.__dict__["step"]
    previous = None
    for _ in range(5):
        monitor = watched(tmp_path, model, optimizer)
        if previous is not None:
            previous.close()
        previous = monitor
    optimizer.step()
    assert monitor.status()["step"] == 1
    monitor.close()
    assert "step" not in vars(optimizer)
    assert torch.amp.GradScaler.__dict__["step"] is of_class


def test_threads_that_call_a_module_at_once_get_their_results(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = [model(torch.full((2, 4), float(i))) for i in range(4)]
    results: dict[int, list[torch.Tensor]] = {}

    def call(i: int) -> None:
        results[i] = [model(torch.full((2, 4), float(i))) for _ in range(20)]

    with watched(tmp_path, model, optimizer):
        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        optimizer.step()
    assert all(torch.equal(expected[i], result) for i in range(4) for result in results[i])
