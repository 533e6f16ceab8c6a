"""Modules that are compiled one by one are seen from outside, and nothing is compiled anew for it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from jobs import XY, names, rows, same_tensors, sgd_job, value, watched

import torch

if not hasattr(torch.nn.Module, "compile"):
    pytest.skip("this torch compiles no single modules", allow_module_level=True)


class Backend:
    """Counts the graphs that it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(x))


def blocks() -> torch.nn.Module:
    torch.manual_seed(5)
    return torch.nn.Sequential(Block(), Block())


def train(model: torch.nn.Module, optimizer: Any, steps: int = 3) -> list[torch.Tensor]:
    """Train, and return what the model has given."""
    generator = torch.Generator().manual_seed(7)
    outputs = []
    for _ in range(steps):
        output = model(torch.randn(5, 4, generator=generator))
        outputs.append(output.detach().clone())
        output.pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return outputs


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_blocks_that_are_compiled_have_rows_and_train_alike(tmp_path: Path) -> None:
    model = blocks()
    bare = copy.deepcopy(model)
    graphs = []
    for each in (bare, model):
        torch._dynamo.reset()
        backend = Backend()
        for block in each:
            block.compile(backend=backend)
        own = [vars(block)["_compiled_call_impl"] for block in each]
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        if each is bare:
            train(each, optimizer)
        else:
            with watched(tmp_path, each, optimizer, **XY):
                outputs = train(each, optimizer)
        assert [vars(block)["_compiled_call_impl"] for block in each] == own
        graphs.append(backend.graphs)
    assert same_tensors(bare.parameters(), model.parameters())
    assert graphs[0] == graphs[1] > 0
    for step in range(3):
        table = rows(tmp_path, "actv", step)
        assert {"0.input", "0.output", "1.input", "1.output", ".input", ".output"} == {row["name"] for row in table}
        assert value(table, "1.output", "norm") == pytest.approx(float(outputs[step].double().norm()))
        assert {"0.output", "1.input", "1.output"} <= {row["name"] for row in rows(tmp_path, "actv_grad", step)}


def test_blocks_that_are_compiled_after_the_monitor_has_come_have_rows(tmp_path: Path) -> None:
    model, optimizer = sgd_job(blocks())
    with watched(tmp_path, model, optimizer, **XY):
        for block in model:
            block.compile(backend="eager")
        for _ in range(3):
            model(torch.ones(5, 4)).sum().backward()
            optimizer.step()
    assert {"0.input", "0.output"} <= {row["name"] for row in rows(tmp_path, "actv", 2)}


def test_a_compiled_block_that_raises_raises_and_has_no_rows(tmp_path: Path) -> None:
    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Raises())
    model[1].compile(backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, **XY):
        with pytest.raises(ValueError, match="no"):
            model(torch.ones(2, 4))
        optimizer.step()
    assert not any(row["name"].startswith("1.") for row in rows(tmp_path, "actv"))


def test_a_module_that_torch_compile_wraps_is_one_module_under_the_users_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model: Any = blocks()
    model[1] = torch.compile(model[1], backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, **XY, wg_distribution=True):
        outputs = train(model, optimizer)
    assert names(tmp_path, "actv", 2) == {
        f"{name}{port}" for name in ("", "0", "0.fc", "1") for port in (".input", ".output")
    }
    assert names(tmp_path, "actv_grad", 2) == names(tmp_path, "actv", 2)
    assert names(tmp_path, "grad_unreduced", 2) == {f"{i}.fc.{name}" for i in (0, 1) for name in ("weight", "bias")}
    assert value(rows(tmp_path, "actv", 2), "1.output", "norm") == pytest.approx(float(outputs[2].double().norm()))
    printed = capfd.readouterr().out
    assert "1 of 5 selected modules (1._orig_mod.fc is one)" in printed


@pytest.mark.parametrize("target", ["", "_orig_mod"])
def test_a_model_that_is_compiled_as_a_whole_shows_what_goes_in_and_out(tmp_path: Path, target: str) -> None:
    model, optimizer = sgd_job(torch.compile(blocks(), backend="eager", fullgraph=True))
    with watched(tmp_path, model, optimizer, **XY, targets={target: {}}):
        outputs = train(model, optimizer)
    table = rows(tmp_path, "actv", 2)
    assert [row["name"] for row in table] == [".input", ".output"]
    assert value(table, ".output", "norm") == pytest.approx(float(outputs[2].double().norm()))


def test_a_model_whose_compiled_form_is_trained_has_rows_of_its_parameters_and_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job(blocks())
    with watched(tmp_path, model, optimizer, **XY, wg_distribution=True):
        train(torch.compile(model, backend="eager", fullgraph=True), optimizer)
    assert len(names(tmp_path, "grad_unreduced", 2)) == len(names(tmp_path, "grad_reduced", 2)) == 4
    assert not rows(tmp_path, "actv")
    assert "none of 5 selected modules of Sequential was called" in capfd.readouterr().out
