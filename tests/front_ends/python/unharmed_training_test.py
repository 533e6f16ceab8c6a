"""Training with a monitor is training without one, to the bit, whatever models and optimizers do."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import pickle
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from auxiliary_capture_test import ALL_FEATURES, Routed
from jobs import EVERYTHING, XY, adam_job, mlp, names, rows, same_tensors, sgd_job, train, value, watched
from watch_values_test import checkpointed

import torch

Config = dict[str, Any]


def trained(
    tmp_path: Path | None, make: Callable[[], torch.nn.Module], sample: Callable[[], torch.Tensor], config: Config
) -> list[torch.Tensor]:
    """Return losses, gradients and state of three steps, with a monitor if there is a directory for it."""
    torch.manual_seed(3)
    model, optimizer = adam_job(make())
    monitor = None if tmp_path is None else watched(tmp_path, model, optimizer, **{**EVERYTHING, **config})
    seen = []
    for _ in range(3):
        loss = model(sample()).pow(2).mean()
        loss.backward()
        seen += [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]
        optimizer.step()
        optimizer.zero_grad()
        seen += [tensor.clone() for tensor in model.state_dict().values()]
    if monitor is not None:
        assert monitor.status()["collected"] == 3
        monitor.close()
    return [*seen, torch.get_rng_state()]


def trains_alike(
    tmp_path: Path, make: Callable[[], torch.nn.Module], sample: Callable[[], torch.Tensor], **config: Any
) -> bool:
    return same_tensors(trained(None, make, sample, config), trained(tmp_path, make, sample, config))


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


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x.unsqueeze(0)).squeeze(0)


class Doubles(torch.autograd.Function):
    """Writes into its input, and returns two tensors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2), x.sum()

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first * 2 + second * 2


class Doubling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        doubled, total = Doubles.apply(self.layer(x))
        return doubled * total


TRAININGS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...], Config]] = {
    "in place": (mlp, (5, 4), {}),
    "one tensor three times": (Attention, (5, 4), {}),
    "checkpoint": (lambda: checkpointed(False), (5, 4), {}),
    "reentrant checkpoint": (lambda: checkpointed(True), (5, 4), {}),
    "gradients that meet in a skip connection": (Skipping, (7, 33), {}),
    "a function that writes into its input": (Doubling, (2, 4), {}),
    "a parametrized weight": (lambda: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4)), (2, 4), {}),
    "all features": (Routed, (5, 4), ALL_FEATURES),
    "update ratios": (mlp, (5, 4), {"ur_distribution": True, "format": "tensorboard"}),
}


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("name", TRAININGS)
def test_training_has_the_same_bits_and_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, engine: str
) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("STEPWATCH_ENGINE", engine)
    make, shape, config = TRAININGS[name]
    assert trains_alike(tmp_path, make, lambda: torch.randn(*shape), **config)
    if config.get("format") != "tensorboard":
        assert rows(tmp_path, "actv", 2) and rows(tmp_path, "actv_grad", 2)


def test_the_gradient_of_an_input_is_the_sum_over_all_its_uses_in_the_module(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model, optimizer = sgd_job(Skipping(), lr=0.0)
    with watched(tmp_path, model, optimizer, **EVERYTHING):
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

    model, optimizer = sgd_job(Outer())
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert value(rows(tmp_path, "actv_grad", 0), "same.input", "max") == 3


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": lambda model: torch.load(saved(model), weights_only=False),
}


def saved(model: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_a_model_with_features_and_stacks_watched_writes_nothing(tmp_path: Path, way: str) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        model(torch.ones(2, 4)).sum().backward()
        clone = COPIES[way](model)
        assert torch.equal(clone(torch.ones(2, 4)), model.eval()(torch.ones(2, 4)))
        clone(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert len(rows(tmp_path, "linear_hook", 0)) == 2
    assert {"0.input"} <= names(tmp_path, "actv", 0)
    assert all("@" not in name for name in names(tmp_path, "actv", 0))


def test_arguments_other_than_a_closure_reach_the_optimizer(tmp_path: Path) -> None:
    class Plain:
        """An optimizer that is nobody's subclass."""

        def step(self, rate: float = 0.5) -> float:
            return rate

    model, optimizer = mlp(), Plain()
    with watched(tmp_path, model, optimizer, **EVERYTHING) as monitor:
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
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        optimizer.step(lambda backward: given.append(backward))
    assert given == [True]


def test_a_trace_holds_nothing_of_the_monitor(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    bare = torch.jit.trace(model, torch.ones(2, 4))
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        traced = torch.jit.trace(model, torch.ones(2, 4))
    kinds = [[node.kind() for node in module.inlined_graph.nodes()] for module in (bare, traced)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("what", [lambda model: model, lambda model: model[3], copy.deepcopy])
def test_a_script_holds_nothing_of_the_monitor(tmp_path: Path, what: Callable[[Any], Any]) -> None:
    model, optimizer = sgd_job()
    untouched = torch.jit._recursive.create_script_module
    bare = torch.jit.script(what(model)).inlined_graph
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        for step in range(2):
            if step == 1:
                scripted = torch.jit.script(what(model)).inlined_graph
            train(model, optimizer, 1)
    assert [node.kind() for node in scripted.nodes()] == [node.kind() for node in bare.nodes()]
    assert [row["name"] for row in rows(tmp_path, "actv", 1)] == [row["name"] for row in rows(tmp_path, "actv", 0)]
    assert torch.jit._recursive.create_script_module is untouched


def test_a_symbolic_trace_holds_nothing_of_the_monitor_and_is_no_call(tmp_path: Path) -> None:
    model, optimizer = sgd_job(torch.nn.Sequential(Residual(), Residual()))
    bare = torch.fx.symbolic_trace(model).graph
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        for step in range(2):
            if step == 1:
                traced = torch.fx.symbolic_trace(model).graph
            model(torch.ones(2, 33)).sum().backward()
            optimizer.step()
    assert [node.name for node in traced.nodes] == [node.name for node in bare.nodes]
    assert [row["name"] for row in rows(tmp_path, "actv", 1)] == [row["name"] for row in rows(tmp_path, "actv", 0)]


def test_a_call_that_raised_keeps_nothing_alive_and_leaves_the_next_one_right(tmp_path: Path) -> None:
    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            graphs.append(weakref.ref(x))
            if len(graphs) == 1:
                raise MemoryError
            return x

    graphs: list[Any] = []
    model, optimizer = sgd_job(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), Raises()))
    )
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        with pytest.raises(MemoryError):
            model(torch.ones(2, 4))
        gc.collect()
        assert graphs[0]() is None
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert [row["name"] for row in rows(tmp_path, "actv", 0)].count(".output") == 1


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

    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Linear(4, 4), Module()))
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        result = model(torch.ones(2, 4))
        result.base.sum().backward()
        optimizer.step()
    norm = float(result.base.detach().double().norm())
    assert value(rows(tmp_path, "actv", 0), "1.output_1", "norm") == pytest.approx(2 * norm)


def test_monitors_that_nobody_closes_go_with_their_models(tmp_path: Path) -> None:
    def watch_and_leave() -> Any:
        model, optimizer = adam_job()
        watched(tmp_path, model, optimizer, **EVERYTHING, cc_distribution={"enable": True})
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        return weakref.ref(model)

    threads = len(list(Path("/proc/self/task").iterdir()))
    models = [watch_and_leave() for _ in range(3)]
    gc.collect()
    assert [model() for model in models] == [None] * 3
    assert len(list(Path("/proc/self/task").iterdir())) <= threads


def test_monitors_that_overlap_leave_nothing_behind(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    of_class = torch.amp.GradScaler.__dict__["step"]
    previous = None
    for _ in range(5):
        monitor = watched(tmp_path, model, optimizer, **EVERYTHING)
        if previous is not None:
            previous.close()
        previous = monitor
    optimizer.step()
    assert monitor.status()["step"] == 1
    monitor.close()
    assert "step" not in vars(optimizer)
    assert torch.amp.GradScaler.__dict__["step"] is of_class


def test_threads_that_call_a_module_at_once_get_their_results(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    expected = [model(torch.full((2, 4), float(i))) for i in range(4)]
    results: dict[int, list[torch.Tensor]] = {}

    def call(i: int) -> None:
        results[i] = [model(torch.full((2, 4), float(i))) for _ in range(20)]

    with watched(tmp_path, model, optimizer, **EVERYTHING):
        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        optimizer.step()
    assert all(torch.equal(expected[i], result) for i in range(4) for result in results[i])


class Hooked(torch.nn.Module):
    """Hangs hooks on what goes from module to module, as trainers do to clip or to look."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = mlp(), torch.nn.Linear(2, 2)
        self.seen: list[torch.Tensor] = []
        self.removed_ran = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden.retain_grad()
        hidden.register_hook(lambda gradient: self.seen.append(gradient.clone()))
        hidden.register_hook(lambda gradient: gradient * 2)
        handle = hidden.register_hook(lambda gradient: setattr(self, "removed_ran", True))
        handle.remove()
        self.hidden = hidden
        return self.second(hidden)


def trained_with_hooks(tmp_path: Path | None) -> Hooked:
    torch.manual_seed(4)
    model, optimizer = sgd_job(Hooked())
    with contextlib.nullcontext() if tmp_path is None else watched(tmp_path, model, optimizer, **XY):
        model(torch.ones(3, 4)).pow(2).sum().backward()
        optimizer.step()
    return model


def test_hooks_on_a_watched_tensor_run_and_change_gradients_as_without_a_monitor(tmp_path: Path) -> None:
    bare, model = trained_with_hooks(None), trained_with_hooks(tmp_path)
    assert len(model.seen) == 1 and torch.equal(model.seen[0], bare.seen[0])
    assert not model.removed_ran
    assert torch.equal(model.hidden.grad, bare.hidden.grad)
    assert same_tensors(bare.parameters(), model.parameters())
    assert names(tmp_path, "actv_grad") >= {"first.output", "second.input", "second.output"}
