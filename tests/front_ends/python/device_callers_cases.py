"""Tensors come from other threads than the trainer's, from forked children and from graphs of torch.compile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs import rows, write_config
from on_slow_device import DEVICE, forgotten, slow_device  # noqa: F401
from other_devices_cases import is_complete, ledgers, network
from torch_engine_test import EVERYTHING, both, watching

import python_programs
import stepwatch
import stepwatch.devices
import torch


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

    with watching(tmp_path, whole, optimizer, **EVERYTHING):
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
    done = python_programs.run(["-c", program], cwd=tmp_path, timeout=400)
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
def test_code_is_compiled_alike_and_has_the_same_rows(
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
