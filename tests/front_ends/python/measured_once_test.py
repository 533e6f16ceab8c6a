"""An activation that several sites see is read once; one that has changed since is read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import rows, sgd_job, value, watched

import torch

LARGE = 128  # a square of it is more than what is worth remembering


class Between(torch.nn.Module):
    """Two modules, and what happens to the tensor on its way from the one to the other."""

    def __init__(self, on_the_way: object) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(LARGE, LARGE), torch.nn.Identity()
        self.on_the_way = on_the_way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        return self.second(self.on_the_way(hidden))


def means(tmp_path: Path, on_the_way: object, **config: object) -> tuple[float, float]:
    """Return the means in the rows of the first module's output and of the second's input."""
    torch.manual_seed(1)
    model, optimizer = sgd_job(Between(on_the_way))
    with watched(tmp_path, model, optimizer, xy_distribution=True, **config):
        model(torch.randn(LARGE, LARGE)).sum().backward()
        optimizer.step()
    table = rows(tmp_path, "actv")
    return value(table, "first.output", "mean"), value(table, "second.input", "mean")


def uncounted_write(hidden: torch.Tensor) -> torch.Tensor:
    hidden.data.fill_(7)  # torch does not count it as a version
    return hidden


@pytest.mark.parametrize("backward", [False, True])
def test_a_tensor_handed_from_module_to_module_is_read_once(tmp_path: Path, backward: bool) -> None:
    first, second = means(tmp_path, uncounted_write, forward_only=not backward)
    assert first == second != 7


def test_a_tensor_written_to_in_between_is_read_again(tmp_path: Path) -> None:
    first, second = means(tmp_path, lambda hidden: hidden.add_(5))
    assert second == pytest.approx(first + 5)


class Freed(torch.nn.Module):
    """Activations whose memory goes back to the allocator, which hands it out again for the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.weight = torch.nn.Identity(), torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(8):
            self.one(torch.full((LARGE, LARGE), float(number)))
        return x * self.weight


def test_another_tensor_in_the_same_memory_is_read_again(tmp_path: Path) -> None:
    model, optimizer = sgd_job(Freed())
    with watched(tmp_path, model, optimizer, xy_distribution=True, forward_only=True):
        model(torch.ones(2)).sum().backward()
        optimizer.step()
    table = {row["name"]: float(row["mean"]) for row in rows(tmp_path, "actv")}
    assert [table["one.input" + (f"@{call}" if call else "")] for call in range(8)] == list(map(float, range(8)))


def test_another_view_of_the_same_memory_is_read_for_itself(tmp_path: Path) -> None:
    first, second = means(tmp_path, lambda hidden: hidden[: LARGE // 2])
    assert first != second
