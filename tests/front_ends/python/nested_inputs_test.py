"""Gradients of tensors inside of packed sequences, lists and dicts; modules whose forward is called directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jobs import rows, sgd_job, watched
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import torch


class Adds(torch.nn.Module):
    """Takes its tensors in any form."""

    def forward(self, *given: Any, **named: Any) -> torch.Tensor:
        total = torch.zeros(())
        waiting = [*given, *named.values()]
        while waiting:
            each = waiting.pop()
            if isinstance(each, torch.Tensor):
                total = total + (each * each).sum()
            elif isinstance(each, dict):
                waiting += each.values()
            elif isinstance(each, (list, tuple)):
                waiting += each
        return total


FORMS = {
    "list": lambda a, b, c: (([a, b],), {}),
    "dict": lambda a, b, c: (({"a": a, "b": [b]},), {}),
    "list beside tensor": lambda a, b, c: ((c, [a, b]), {}),
    "named": lambda a, b, c: ((c,), {"more": {"a": a, "b": (b,)}}),
    "named alone": lambda a, b, c: ((), {"more": [a, b]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_tensor_inside_has_the_row_of_its_gradient(tmp_path: Path, form: str) -> None:
    model, optimizer = sgd_job(torch.nn.ModuleDict({"linear": torch.nn.Linear(3, 3), "adds": Adds()}), lr=0.01)
    expected = []
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        for step in range(12):
            tensors = [model["linear"](torch.full((2, 3), float(k + step + 1))) for k in range(3)]
            args, kwargs = FORMS[form](*tensors)
            model["adds"](*args, **kwargs).backward()
            used = tensors if form in ("list beside tensor", "named") else tensors[:2]
            expected.append(sorted(float((2 * each).detach().double().norm()) for each in used))
            optimizer.step()
            optimizer.zero_grad()
    for step in range(12):
        found = [row for row in rows(tmp_path, "actv_grad", step) if row["name"].startswith("adds.input")]
        assert len({row["name"] for row in found}) == len(found)
        assert sorted(float(row["norm"]) for row in found) == pytest.approx(expected[step], rel=1e-5)


def test_a_packed_sequence_has_the_gradient_of_its_data(tmp_path: Path) -> None:
    torch.manual_seed(8)
    model, optimizer = sgd_job(
        torch.nn.ModuleDict({"linear": torch.nn.Linear(3, 3), "gru": torch.nn.GRU(3, 4, batch_first=True)}), lr=0.01
    )
    expected = []
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        for _ in range(12):
            packed = pack_padded_sequence(
                model["linear"](torch.randn(3, 6, 3)), torch.tensor([6, 4, 2]), batch_first=True
            )
            packed.data.retain_grad()
            output, _ = model["gru"](packed)
            assert isinstance(output, PackedSequence)
            output.data.pow(2).sum().backward()
            assert packed.data.grad is not None
            expected.append(float(packed.data.grad.double().norm()))
            optimizer.step()
            optimizer.zero_grad()
    for step in range(12):
        found = [row["norm"] for row in rows(tmp_path, "actv_grad", step) if row["name"].startswith("gru.input")]
        assert pytest.approx(expected[step], rel=1e-5) in [float(each) for each in found if each != "nan"]


class CalledDirectly(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head.forward(self.inner(x))


def test_modules_whose_forward_is_called_directly_are_reported_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = sgd_job(CalledDirectly(), lr=0.01)
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        for _ in range(12):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    printed = capfd.readouterr().out
    assert printed.count("no rows for 1 modules that take part (head is one)") == 1
    assert {row["name"] for row in rows(tmp_path, "actv", 3)} >= {"inner.output", ".output"}
