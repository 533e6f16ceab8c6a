"""Gradients of tensors that a module hands on: leaves that it returns, and views that it changes in place."""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.utils.checkpoint
from jobs import XY, rows, same_tensors, sgd_job, value, watched

import torch


class LateBias(torch.nn.Linear):
    """Leaves it to others to add its bias, as Megatron's parallel layers do."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        return torch.nn.functional.linear(x, self.weight), self.bias


class Mlp(torch.nn.Module):
    """Returns the bias of the layer inside in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.up = LateBias(4, 8)
        self.down = LateBias(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, bias = self.up(x)
        return self.down(torch.tanh(hidden + bias))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, bias = self.mlp(x)
        return x + torch.sigmoid(hidden + bias)


BIASES = {"mlp.up.output_1": "mlp.up.bias", "mlp.down.output_1": "mlp.down.bias", "mlp.output_1": "mlp.down.bias"}


def train(model: torch.nn.Module, optimizer: Any, interleaved: bool, steps: int = 2) -> dict[tuple[str, int, int], Any]:
    """Train, and return the gradient of each bias by (name, step, micro-step)."""
    generator = torch.Generator().manual_seed(1)
    found: dict[tuple[str, int, int], Any] = {}
    for step in range(steps):
        losses = []
        for micro in range(2):
            losses.append(model(torch.randn(5, 4, generator=generator)).pow(2).sum())
            if not interleaved:
                note(found, model, step, micro, losses.pop())
        for micro, loss in enumerate(losses):
            note(found, model, step, micro, loss)
        optimizer.step()
        optimizer.zero_grad()
    return found


def note(found: dict[tuple[str, int, int], Any], model: Any, step: int, micro: int, loss: torch.Tensor) -> None:
    before = {name: 0 if each.grad is None else each.grad.clone() for name, each in model.named_parameters()}
    loss.backward()
    for name, each in model.named_parameters():
        found[name, step, micro] = each.grad - before[name]


@pytest.mark.parametrize("interleaved", [False, True], ids=["one after the other", "forward passes first"])
def test_a_bias_that_a_module_returns_has_the_gradient_of_its_micro_batch(tmp_path: Path, interleaved: bool) -> None:
    model, optimizer = sgd_job(Block())
    with watched(tmp_path, model, optimizer, grad_acc_steps=2, **XY):
        right = train(model, optimizer, interleaved)
    for step in range(2):
        found = rows(tmp_path, "actv_grad", step)
        for micro in range(2):
            of_micro = [row for row in found if int(row["micro_step"]) == micro]
            for name, bias in BIASES.items():
                norm = float(right[bias, step, micro].double().norm())
                assert value(of_micro, name, "norm") == pytest.approx(norm, rel=1e-4), (step, micro, name)


def test_hooks_on_returned_parameters_come_off_and_change_no_bit(tmp_path: Path) -> None:
    model = Block()
    bare = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, bare)]
    with watched(tmp_path, model, optimizers[0], grad_acc_steps=2, **XY):
        train(model, optimizers[0], True)
    train(bare, optimizers[1], True)
    assert same_tensors(model.parameters(), bare.parameters())
    assert not any(each._backward_hooks for each in model.parameters())


class Stage(torch.nn.Module):
    """Hands on what it is given, at its begin or as all that it does."""

    def __init__(self, *behind: torch.nn.Module) -> None:
        super().__init__()
        self.same = torch.nn.Identity()
        self.behind = torch.nn.Sequential(*behind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.behind(self.same(x))


def send_back(stage: Any, optimizer: Any, received: list[torch.Tensor], steps: int = 2) -> list[list[torch.Tensor]]:
    """Train a stage of a pipeline on what it has received, one tensor a micro-batch; return what it sends back."""
    sent = []
    for step in range(steps):
        outputs = [stage(x.requires_grad_()) for x in received]
        sent.append([])
        for micro, (x, output) in enumerate(zip(received, outputs)):
            output.backward(torch.full_like(output, 1 + step + 2 * micro))
            sent[-1].append(x.grad)
            x.grad = None
        optimizer.step()
        optimizer.zero_grad()
    return sent


STAGES: dict[str, Callable[[], torch.nn.Module]] = {
    "that does nothing": Stage,
    "that does it at its begin": lambda: Stage(torch.nn.Linear(4, 4)),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_received_tensor_that_a_module_hands_on_has_the_gradient_that_is_sent_back(
    tmp_path: Path, stage: str
) -> None:
    torch.manual_seed(1)
    model = STAGES[stage]()
    model.weight = torch.nn.Parameter(torch.ones(1))
    bare = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, bare)]
    received = [torch.randn(5, 4) for _ in range(2)]
    with watched(tmp_path, model, optimizers[0], grad_acc_steps=2, **XY):
        sent = send_back(model, optimizers[0], received)
        assert not any(x._backward_hooks for x in received)
    expected = send_back(bare, optimizers[1], received)
    assert all(torch.equal(x, y) for ours, theirs in zip(sent, expected) for x, y in zip(ours, theirs))
    assert same_tensors(model.parameters(), bare.parameters())
    places = {"same.input", "same.output", ".input"} | ({".output"} if stage == "that does nothing" else set())
    for step, micro in itertools.product(range(2), range(2)):
        of_micro = [row for row in rows(tmp_path, "actv_grad", step) if int(row["micro_step"]) == micro]
        norm = pytest.approx(float(sent[step][micro].double().norm()), rel=1e-5)
        assert {name: value(of_micro, name, "norm") for name in places} == dict.fromkeys(places, norm)


def test_hooks_on_received_tensors_keep_none_of_them_alive(tmp_path: Path) -> None:
    model, optimizer = sgd_job(Stage(torch.nn.Linear(4, 4)))
    with watched(tmp_path, model, optimizer, grad_acc_steps=2, **XY):
        received = torch.randn(5, 4, requires_grad=True)
        reference = weakref.ref(received)
        output = model(received)
        del received, output
        assert reference() is None
        optimizer.step()


def test_tensors_that_a_checkpoint_recomputes_from_a_copy_of_its_input_have_gradients_as_well(tmp_path: Path) -> None:
    inside = Stage(torch.nn.Linear(4, 4))
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Linear(4, 4), inside), lr=0.0)
    x = torch.randn(5, 4)
    hidden = model[0](x).detach().requires_grad_()
    inside(hidden).pow(2).sum().backward()
    with watched(tmp_path, model, optimizer, grad_acc_steps=2, **XY):
        torch.utils.checkpoint.checkpoint(inside, model[0](x), use_reentrant=True).pow(2).sum().backward()
        optimizer.step()
    table = rows(tmp_path, "actv_grad", 0)
    for name in ("1.same.input", "1.same.output"):
        assert value(table, name, "norm") == pytest.approx(float(hidden.grad.double().norm()), rel=1e-5)


class Masked(torch.nn.Module):
    """Changes the scores that it is given in place, as attention does with its mask."""

    def __init__(self, uses_before: bool) -> None:
        super().__init__()
        self.uses_before = uses_before

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        before = scores * 0.1 if self.uses_before else 0
        mask = torch.tensor([True, False, False, False])
        return torch.softmax(scores.masked_fill_(mask, -1e4).mul_(0.5), dim=-1) + before


class Attention(torch.nn.Module):
    def __init__(self, view: Any, uses_before: bool) -> None:
        super().__init__()
        self.fc, self.masked, self.view = torch.nn.Linear(4, 8), Masked(uses_before), view

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.masked(self.view(self.fc(x))).pow(2).sum()


VIEWS = {
    "a view of all": lambda scores: scores.view(-1, 2, 4),
    "a view of a view": lambda scores: scores.view(-1, 2, 4).transpose(0, 1),
    "no view": lambda scores: scores.view(-1, 2, 4) * 1,
}


@pytest.mark.parametrize("uses_before", [False, True], ids=["", "and uses before"])
@pytest.mark.parametrize("view", VIEWS)
def test_an_input_that_a_module_changes_in_place_has_the_gradient_from_before(
    tmp_path: Path, view: str, uses_before: bool
) -> None:
    model = Attention(VIEWS[view], uses_before)
    reference = copy.deepcopy(model)
    seen: list[torch.Tensor] = []

    def tapped(scores: torch.Tensor) -> torch.Tensor:
        scores = VIEWS[view](scores).clone()
        scores.register_hook(seen.append)
        return scores

    reference.view = tapped
    x = torch.randn(5, 4)
    reference(x).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, grad_acc_steps=2, **XY):
        model(x).backward()
        optimizer.step()
    (row,) = [row for row in rows(tmp_path, "actv_grad", 0) if row["name"] == "masked.input"]
    assert float(row["norm"]) == pytest.approx(float(seen[0].double().norm()), rel=1e-5)
    assert row["shape"] == str(list(seen[0].shape))
    assert torch.equal(model.fc.weight.grad, reference.fc.weight.grad)
