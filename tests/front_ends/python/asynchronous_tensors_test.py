"""Results of asynchronous collectives, as tensor-parallel layers return them, are read when they are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jobs import rows, value, watched

import torch
from stepwatch import _core

collectives = pytest.importorskip("torch.distributed._functional_collectives")


@pytest.mark.parametrize("by_attributes", [False, True])
def test_the_memory_of_a_pending_tensor_is_found(by_attributes: bool) -> None:
    elem = torch.arange(6.0).reshape(2, 3)
    pending = collectives.AsyncCollectiveTensor(elem)
    numel, shape, _, dtype, address = _core.view_of(torch, pending, by_attributes)
    assert (numel, list(shape), address) == (6, [2, 3], elem.data_ptr())
    assert pending.completed


def test_outputs_that_are_pending_have_rows(tmp_path: Path) -> None:
    class Rowwise(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return collectives.AsyncCollectiveTensor(x * 2)

    model = torch.nn.Sequential(Rowwise())
    parameter = torch.nn.Parameter(torch.ones(1))
    model.weight = parameter
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        model(torch.ones(3, 3))
        optimizer.step()
    assert value(rows(tmp_path, "actv", 0), "0.output", "norm") == pytest.approx(6)
