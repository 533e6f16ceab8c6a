"""Results of running collectives, and the contents of DTensors, are measured when they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs import rows, value
from on_slow_device import DEVICE, forgotten, slow_device  # noqa: F401
from other_devices_cases import is_complete, ledgers, network
from torch_engine_test import EVERYTHING, KINDS, both, watching

import torch

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
    with watching(tmp_path, model, optimizer, xy_distribution=True):
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


def test_the_contents_of_dtensors_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mesh: Any) -> None:
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
    with watching(tmp_path, model, optimizer, xy_distribution=True), torch.no_grad():
        model(torch.ones(3, 3).to(slow_device.NAME))
        optimizer.step()
    assert value(rows(tmp_path, "actv", 0), "0.output", "norm") == 6
    assert [is_complete(ledger) for ledger in ledgers(tmp_path)] == [True]
