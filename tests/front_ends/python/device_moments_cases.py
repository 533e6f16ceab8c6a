"""What torch's operators measure is what was there at that moment, whoever hands it over and whatever happens next."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import rows, value, write_config
from torch_engine_test import ALL, EVERYTHING, KINDS, both, watching

import stepwatch
import stepwatch.devices
import torch

try:
    import slow_device
except ImportError:  # a torch that lets nobody write a device in Python
    pytest.skip("this torch has no devices that are written in Python", allow_module_level=True)

from other_devices_cases import is_balanced, is_complete, job, ledgers, network, steps, told

DEVICE = slow_device.device


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    DEVICE.forget()
    yield
    DEVICE.forget()


def watched(directory: Path, model: torch.nn.Module, optimizer: Any, **config: Any) -> stepwatch.Watch:
    directory.mkdir(exist_ok=True)
    path = write_config(directory / "config.json", **{"ops": ALL, **config})
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=directory)


class Overwriting(torch.optim.Optimizer):
    """An optimizer that leaves nothing of the weights and the gradients, of any shape, as it was."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.fill_(7.0)
            if parameter.grad is not None:
                parameter.grad.fill_(-7.0)


class Weights(torch.nn.Module):
    """One weight for each way in which tensors are measured: a single number, one element, small ones, a large one."""

    def __init__(self) -> None:
        super().__init__()
        for number, shape in enumerate([(), (1,), (1, 1), (5,), (5,), (5,), (5,), (6,), (20000,)]):
            self.register_parameter(f"w{number}", torch.nn.Parameter(torch.full(shape, 2.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.parameters():
            x = x + (weight * 3).sum()
        return x


@pytest.mark.parametrize("place", ["cpu", slow_device.NAME])
def test_what_is_overwritten_right_after_was_measured_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("STEPWATCH_ENGINE", "torch")
    model = Weights() if place == "cpu" else slow_device.moved(Weights())
    optimizer = Overwriting(model.parameters())
    config = {"param_distribution": True, "wg_distribution": True, "ops": ["min", "max", "mean", "id"]}
    with watched(tmp_path, model, optimizer, **config):
        DEVICE.stall()
        model(torch.zeros(()).to(place)).backward()
        optimizer.step()
        DEVICE.resume()
    expected = {"param_origin": 2, "grad_reduced": 3, "param_updated": 7}
    found = {
        kind: {float(row[stat]) for row in rows(tmp_path, kind) for stat in ("min", "max", "mean")} for kind in expected
    }
    assert found == {kind: {float(number)} for kind, number in expected.items()}
    assert all(len(rows(tmp_path, kind)) == len(list(model.parameters())) for kind in expected)


def test_an_activation_that_the_next_module_overwrites_was_measured_before(tmp_path: Path) -> None:
    class Zeroing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.zero_()

    model = torch.nn.Sequential(torch.nn.Identity(), Zeroing())
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(slow_device.moved(model).parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True), torch.no_grad():
        DEVICE.stall()
        model(torch.ones(3, 3).to(slow_device.NAME))
        optimizer.step()
        DEVICE.resume()
    table = rows(tmp_path, "actv", 0)
    assert [value(table, name, "max") for name in ("0.output", "1.input", "1.output")] == [1, 1, 0]


def test_what_was_measured_is_not_kept_until_its_numbers_are_sent(tmp_path: Path) -> None:
    model, optimizer = job()
    kept: list[Any] = []
    model[0].register_forward_hook(lambda module, args, output: kept.append(weakref.ref(output)))
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        DEVICE.stall()
        with torch.no_grad():
            model(torch.ones(5, 4).to(slow_device.NAME))
        assert [reference() for reference in kept] == [None]
        optimizer.step()
        DEVICE.resume()
    assert value(rows(tmp_path, "actv", 0), "0.output", "norm") > 0


class Callers(stepwatch.devices.Engine):
    """Writes down the threads that call it."""

    threads: set[int] = set()

    def _measure(self, *args: Any) -> Any:
        self.threads.add(threading.get_ident())
        return super()._measure(*args)


def test_gradients_that_come_on_threads_of_autograd_have_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepwatch.devices, "Engine", Callers)
    Callers.threads.clear()
    models = [slow_device.moved(network()) for _ in range(4)]
    whole = torch.nn.ModuleList(models)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1, foreach=False)

    def backward(model: torch.nn.Module) -> None:
        for _ in range(5):
            model(torch.ones(5, 4).to(slow_device.NAME)).pow(2).mean().backward()

    with watched(tmp_path, whole, optimizer, **EVERYTHING):
        threads = [threading.Thread(target=backward, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        optimizer.step()
    assert len(Callers.threads) > len(models)
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True]
    gradients = rows(tmp_path, "grad_reduced")
    assert len(gradients) == len(list(whole.parameters()))
    assert len({row["norm"] for row in gradients if row["name"].endswith("0.weight")}) == 1  # they are all alike


FORKED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import slow_device, stepwatch, torch
import stepwatch.devices
from other_devices_cases import network

class Locked(stepwatch.devices.Engine):
    last = None
    def __init__(self, pages):
        super().__init__(pages)
        Locked.last = self

def run(steps):
    for _ in range(steps):
        model(torch.ones(2, 4).to("slow")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

torch.set_num_threads(1)
stepwatch.devices.Engine = Locked
model = slow_device.moved(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
monitor = stepwatch.watch(model, optimizer, "config.json", dynamic=False, output_dir=".")
run(2)
model(torch.ones(2, 4).to("slow"))  # measured, and not sent off yet
with Locked.last._lock:  # as if another thread were inside
    child = os.fork()
    if child == 0:
        signal.alarm(200)  # ends it if it hangs
        with torch.no_grad():
            model(torch.ones(2, 4).to("slow"))
        optimizer.step()
        monitor.flush()
        monitor.close()
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
run(1)
monitor.close()
sys.exit(ended != 0)
"""


def test_a_forked_child_measures_nothing_and_does_not_wait_for_a_lock_of_its_parent(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", xy_distribution=True, wg_distribution=True)
    program = FORKED.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True]
    for step in range(3):
        calls = [(row["name"], row["micro_step"]) for row in rows(tmp_path, "actv", step)]
        assert len(calls) == len(set(calls)) == (24 if step == 2 else 12)  # the last one goes forward twice


class Graphs:
    """A backend of torch.compile that counts the graphs it is given, and lists their operators."""

    def __init__(self) -> None:
        self.graphs = 0
        self.operators: set[str] = set()

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        self.operators |= {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
        return graph.forward


def compiled_whole(model: torch.nn.Module, optimizer: Any, backend: Any) -> Callable[[torch.Tensor], None]:
    def step(x: torch.Tensor) -> None:
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return torch.compile(step, backend=backend)


def compiled_modules(model: torch.nn.Module, optimizer: Any, backend: Any) -> Callable[[torch.Tensor], None]:
    for module in model:
        module.compile(backend=backend)

    def step(x: torch.Tensor) -> None:
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pytest.mark.skipif(not hasattr(torch.nn.Module, "compile"), reason="this torch compiles no single modules")
@pytest.mark.parametrize("compiled", [compiled_whole, compiled_modules], ids=lambda each: each.__name__)
def test_what_is_compiled_is_compiled_alike_and_has_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: Callable[..., Any]
) -> None:
    backends: list[Graphs] = []

    def run(directory: Path) -> None:
        torch._dynamo.reset()
        backends.append(Graphs())
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        with watching(directory, model, optimizer, **EVERYTHING):
            step = compiled(model, optimizer, backends[-1])
            for _ in range(3):
                step(torch.ones(5, 4))
        torch._dynamo.reset()

    kinds = ("actv",) if compiled is compiled_modules else ()
    assert both(tmp_path, monkeypatch, run, (*kinds, "grad_unreduced", "grad_reduced", "param_updated")) == {}
    native, ours = backends
    assert native.graphs == ours.graphs > 0
    assert native.operators == ours.operators


collectives: Any = pytest.importorskip("torch.distributed._functional_collectives")


def pending(final: torch.Tensor) -> Any:
    """Make the result of a collective that is still running: its numbers come to whoever waits for it."""
    made: Any = torch.full_like(final, -1.0).to(slow_device.NAME)
    DEVICE.collectives[id(made.raw)] = lambda: made.raw.copy_(final)
    return collectives.AsyncCollectiveTensor(made)


def test_results_of_collectives_are_measured_when_they_are_there_and_nobody_waits_on_the_host(tmp_path: Path) -> None:
    class Rowwise(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return pending(torch.full((3, 3), 2.0))

    model = torch.nn.Sequential(Rowwise())
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(slow_device.moved(model).parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        DEVICE.stall()
        model(torch.ones(3, 3).to(slow_device.NAME))
        optimizer.step()
        assert DEVICE.waits == []
        DEVICE.resume()
    table = rows(tmp_path, "actv", 0)
    assert value(table, "0.output", "norm") == value(table, ".output", "norm") == 6
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True]


@pytest.fixture
def mesh() -> Iterator[Any]:
    """A mesh of this process alone."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield distributed.device_mesh.init_device_mesh("cpu", (1,))
    finally:
        distributed.destroy_process_group()


def test_what_dtensors_hold_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mesh: Any) -> None:
    tensors = pytest.importorskip("torch.distributed.tensor")

    def run(directory: Path) -> None:
        model = network()
        tensors.distribute_module(model, mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=True)
        with watching(directory, model, optimizer, **EVERYTHING):
            for _ in range(2):
                inputs = tensors.distribute_tensor(torch.ones(5, 4), mesh, [tensors.Replicate()])
                model(inputs).pow(2).mean().backward()
                optimizer.step()
                optimizer.zero_grad()

    assert both(tmp_path, monkeypatch, run, KINDS[:-1]) == {}


def test_a_dtensor_of_what_a_collective_will_bring_is_measured(tmp_path: Path, mesh: Any) -> None:
    tensors = pytest.importorskip("torch.distributed.tensor")
    specs = pytest.importorskip("torch.distributed.tensor._dtensor_spec")
    final = torch.full((3, 3), 2.0)
    meta = specs.TensorMeta(final.shape, final.stride(), final.dtype)
    spec = specs.DTensorSpec(mesh, (tensors.Replicate(),), meta)

    class Rowwise(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return tensors.DTensor(pending(final), spec, requires_grad=False)

    model = torch.nn.Sequential(Rowwise())
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(slow_device.moved(model).parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True), torch.no_grad():
        model(torch.ones(3, 3).to(slow_device.NAME))
        optimizer.step()
    assert value(rows(tmp_path, "actv", 0), "0.output", "norm") == 6
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True]


def weights_after(model: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().raw.clone() for parameter in model.parameters()]


@pytest.mark.parametrize(
    "failing", [{"aminmax", "amin", "amax", "min", "max"}, {"cat", "copy_"}], ids=["operators", "copies"]
)
def test_a_device_that_fails_for_a_step_costs_its_rows_and_the_next_step_has_all(
    tmp_path: Path, failing: set[str], capfd: pytest.CaptureFixture[str]
) -> None:
    bare, bare_optimizer = job()
    steps(bare, bare_optimizer, slow_device.NAME, 3)
    model, optimizer = job()
    with watched(tmp_path, model, optimizer, **EVERYTHING):
        for step in range(3):
            DEVICE.failing = failing if step == 1 else set()
            generator = torch.Generator().manual_seed(7)
            x = [torch.randn(5, 4, generator=generator) for _ in range(step + 1)][-1].to(slow_device.NAME)
            model(x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(weights_after(bare), weights_after(model)))
    (ledger,) = ledgers(tmp_path)
    assert is_balanced(ledger)
    assert sum(ledger["dropped"].values()) > 0
    table = rows(tmp_path, "param_origin")
    assert {row["step"] for row in table} == {"0", "2"}
    assert "nan" not in {row["min"] for row in table}
    lines = told(capfd)
    assert any(text in lines for text in ("its device failed to measure it", "cannot be copied to the host"))
