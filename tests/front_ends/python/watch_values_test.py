"""Rows hold the numbers that torch computes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
from jobs import TENSORS, mlp, norm, rows, sgd_job, train, value, watched

import torch
from stepwatch import _core


def agrees(table: list[dict[str, str]], name: str, tensor: torch.Tensor) -> bool:
    wide = tensor.detach().double()
    expected = {"norm": wide.norm(), "mean": wide.mean(), "min": wide.min(), "max": wide.max()}
    return all(math.isclose(value(table, name, stat), float(x), rel_tol=1e-12) for stat, x in expected.items())


def test_rows_hold_what_the_hooks_of_torch_see(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    seen: dict[str, torch.Tensor] = {}
    model[3].register_forward_hook(lambda _, args, out: seen.update(input=args[0].clone(), output=out.clone()))
    with watched(tmp_path, model, optimizer, **TENSORS):
        weight = model[3].weight
        for step in range(2):
            model(torch.randn(5, 4)).pow(2).mean().backward()
            seen.update(grad=weight.grad.clone(), origin=weight.detach().clone())
            if step == 1:
                seen.update(exp_avg=optimizer.state[weight]["exp_avg"].clone())
            optimizer.step()
            seen.update(updated=weight.detach().clone())
            optimizer.zero_grad()
    assert agrees(rows(tmp_path, "actv", 1), "3.input", seen["input"])
    assert agrees(rows(tmp_path, "actv", 1), "3.output", seen["output"])
    assert agrees(rows(tmp_path, "grad_unreduced", 1), "3.weight", seen["grad"])
    assert agrees(rows(tmp_path, "grad_reduced", 1), "3.weight", seen["grad"])
    assert agrees(rows(tmp_path, "param_origin", 1), "3.weight", seen["origin"])
    assert agrees(rows(tmp_path, "param_updated", 1), "3.weight", seen["updated"])
    assert agrees(rows(tmp_path, "exp_avg", 1), "3.weight", seen["exp_avg"])
    assert rows(tmp_path, "exp_avg", 0) == []


def test_gradients_of_inputs_are_those_through_the_module_alone(tmp_path: Path) -> None:
    class TwoBranches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.left, self.right = (torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shared = self.first(x)
            return self.left(shared) + self.right(shared).pow(2)

    model, optimizer = sgd_job(TwoBranches(), lr=0.0)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    with torch.no_grad():
        shared = model.first(torch.ones(3, 4))
        through_left = torch.ones(3, 4) @ model.left.weight
        through_right = 2 * model.right(shared) @ model.right.weight
    table = rows(tmp_path, "actv_grad", 0)
    for name, gradient in (
        ("left.input", through_left),
        ("right.input", through_right),
        ("first.output", through_left + through_right),
    ):
        assert math.isclose(value(table, name, "norm"), float(gradient.double().norm()), rel_tol=1e-5)


def checkpointed(use_reentrant: bool) -> torch.nn.Module:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.body, self.tail = torch.nn.Linear(4, 4), mlp(), torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.tail(checkpoint(self.body, self.head(x), use_reentrant=use_reentrant))

    torch.manual_seed(3)
    return Checkpointed()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_tensors_that_a_checkpoint_recomputes_have_no_second_row(tmp_path: Path, use_reentrant: bool) -> None:
    model, optimizer = sgd_job(checkpointed(use_reentrant))
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        train(model, optimizer, 1)
    for kind in ("actv", "actv_grad"):
        names = [row["name"] for row in rows(tmp_path, kind)]
        assert len(names) == len(set(names))
        assert "body.0.output" in names


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    hidden: list[torch.Tensor]


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.pairs = Pairs()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result, extra = self.pairs(self.inner(x), {"scale": x})
        return result.logits + result.hidden[0] + extra["bias"]


class Pairs(torch.nn.Module):
    def forward(self, x: torch.Tensor, named: dict[str, torch.Tensor]) -> tuple[Result, dict[str, torch.Tensor]]:
        return Result(x * 2, [x * 3]), {"bias": named["scale"]}


def test_tensors_are_found_in_tuples_dicts_and_dataclasses(tmp_path: Path) -> None:
    model, optimizer = sgd_job(Nested())
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        train(model, optimizer, 1)
    names = {row["name"] for row in rows(tmp_path, "actv") if row["name"].startswith("pairs")}
    assert names == {"pairs.input", "pairs.input_1", "pairs.output_2", "pairs.output_3", "pairs.output_4"}
    table = rows(tmp_path, "actv")
    assert math.isclose(
        value(table, "pairs.output_3", "norm"), 1.5 * value(table, "pairs.output_2", "norm"), rel_tol=1e-6
    )


def test_a_module_that_runs_twice_gets_a_second_row(tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.layer(x))

    model, optimizer = sgd_job(Twice())
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        train(model, optimizer, 1, micro_batches=2)
    cells = [(row["name"], row["micro_step"]) for row in rows(tmp_path, "actv") if row["name"].startswith("layer.out")]
    assert cells == [
        ("layer.output", "0"),
        ("layer.output@1", "0"),
        ("layer.output", "1"),
        ("layer.output@1", "1"),
    ]


def test_tensors_that_cannot_be_measured_are_reported_once_and_training_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job(torch.nn.Linear(4, 2, dtype=torch.complex64))
    with watched(tmp_path, model, optimizer, wg_distribution=True):
        for _ in range(3):
            model(torch.ones(5, 4, dtype=torch.complex64)).abs().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert rows(tmp_path, "grad_reduced", 2) == []
    out = capfd.readouterr().out
    assert out.count("grad_reduced: a tensor cannot be measured because its dtype is not supported") == 1


DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES + ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("layout", ["whole", "transposed", "sliced", "expanded", "scalar", "empty", "parameter"])
def test_tensors_are_seen_alike_through_the_exchange_table_and_by_attributes(dtype: str, layout: str) -> None:
    if not hasattr(torch, dtype):
        pytest.skip("this torch has no such dtype")
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6).to(getattr(torch, dtype))
    if layout == "parameter":
        base = torch.nn.Parameter(base, requires_grad=False)
    tensor = {
        "transposed": base.t(),
        "sliced": base[1:, ::2],
        "expanded": base[:, :1].expand(4, 5),
        "scalar": base[2, 3],
        "empty": base[:0],
    }.get(layout, base)
    seen = _core.view_of(torch, tensor)
    assert seen == _core.view_of(torch, tensor, by_attributes=True)
    expected = [tensor.numel(), list(tensor.shape), list(tensor.stride()), str(tensor.dtype), tensor.data_ptr()]
    assert list(seen) == expected


def test_tensors_without_plain_memory_are_refused_with_a_sentence() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3)
    released = torch.ones(3)
    behind = released[1:]  # of memory that is not there, at an address that is not null
    released.untyped_storage().resize_(0)
    others = (torch.empty(3, device="meta"), torch.ones(3).to_sparse(), torch.ones(3) * 1j)
    for tensor in (fake, fake[1:], released, behind, *others):
        for by_attributes in (False, True):
            assert isinstance(_core.view_of(torch, tensor, by_attributes), str)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("passes", [1, 2])
def test_unreduced_gradients_are_those_of_the_last_backward_pass_in_every_step(
    tmp_path: Path, set_to_none: bool, passes: int
) -> None:
    model, optimizer = sgd_job(torch.nn.Linear(4, 2))
    expected = []
    with watched(tmp_path, model, optimizer, wg_distribution=True, step_interval=1):
        for _ in range(12):  # beyond the step in which the monitor changes to another kind of hook
            for number in range(passes):
                model(torch.randn(3, 4)).pow(2).sum().backward()
                if number == passes - 1:
                    expected.append(norm(model.weight.grad))
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
    for step in range(12):
        table = rows(tmp_path, "grad_unreduced", step)
        assert value(table, "weight", "norm") == pytest.approx(expected[step], rel=1e-12)
        assert value(rows(tmp_path, "grad_reduced", step), "weight", "norm") < 2e-3
    assert model.weight._backward_hooks is None
