"""Small training jobs for the tests of the Python front end, and what they have written."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepwatch
import torch

ALL_OPS = ["norm", "mean", "min", "max", "zeros", "nans"]


EVERYTHING = {
    "xy_distribution": True,
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "stack_info": True,
    "recording_l2_features": True,
    "l2_targets": {"linear_hook": []},
}


def write_config(path: Path, **config: Any) -> Path:
    """Write a config; `ops` defaults to all six."""
    path.write_text(json.dumps({"ops": ALL_OPS, **config}))
    return path


def watched(tmp_path: Path, model: Any, optimizer: Any, **config: Any) -> stepwatch.Watch:
    """Watch everything of a model, or what the config says, with its files in a directory."""
    path = write_config(tmp_path / "config.json", **{**EVERYTHING, **config})
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path)


def mlp() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
    )


def train(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    *,
    micro_batches: int = 1,
    before_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train on fixed random data; `before_step` is called with the number of each step."""
    generator = torch.Generator().manual_seed(7)
    for step in range(steps):
        before_step(step)
        for _ in range(micro_batches):
            model(torch.randn(5, 4, generator=generator)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def rows(base: Path, kind: str, step: int | None = None) -> list[dict[str, str]]:
    """Return the rows of a kind, of all run directories under `base`, in the order of their files."""
    found = []
    for file in sorted(base.glob(f"*-rank*/{kind}_[0-9]*-*.csv")):
        with open(file, newline="") as text:
            found += list(csv.DictReader(text))
    return [row for row in found if step is None or int(row["step"]) == step]


def value(table: list[dict[str, str]], name: str, stat: str) -> float:
    """Return one number of the one row of that name."""
    (row,) = [row for row in table if row["name"] == name]
    return float(row[stat])
