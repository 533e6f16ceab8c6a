"""The trainer's own hooks on tensors and modules go on beside the monitor's."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import mlp, rows, write_config

import stepwatch
import torch


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


def trained(tmp_path: Path | None) -> Hooked:
    model = Hooked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.ones(3, 4)).pow(2).sum().backward()
        optimizer.step()

    if tmp_path is None:
        step()
        return model
    path = write_config(tmp_path / "config.json", xy_distribution=True)
    with stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path):
        step()
    return model


def test_hooks_on_a_watched_tensor_run_and_change_gradients_as_without_a_monitor(tmp_path: Path) -> None:
    torch.manual_seed(4)
    bare = trained(None)
    torch.manual_seed(4)
    model = trained(tmp_path)
    assert len(model.seen) == 1 and torch.equal(model.seen[0], bare.seen[0])
    assert not model.removed_ran
    assert torch.equal(model.hidden.grad, bare.hidden.grad)
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), model.parameters()))
    assert {row["name"] for row in rows(tmp_path, "actv_grad")} >= {"first.output", "second.input", "second.output"}


def test_a_hook_that_changes_a_parameters_gradient_shows_in_every_row(tmp_path: Path) -> None:
    model = mlp()
    model[0].weight.register_hook(lambda gradient: gradient * 0 + 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = write_config(tmp_path / "config.json", wg_distribution=True)
    with stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path):
        for _ in range(12):  # beyond the step in which the monitor changes to another kind of hook
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    table = [row for row in rows(tmp_path, "grad_unreduced") if row["name"] == "0.weight"]
    assert [(float(row["min"]), float(row["max"])) for row in table] == [(2, 2)] * 12
