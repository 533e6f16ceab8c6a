"""Small training jobs for the tests of the Python front end, and their rows."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import torch

try:
    import stepwatch
except ImportError:
    import pytest

    pytest.skip("the Python package is not installed", allow_module_level=True)

ALL_OPS = ["norm", "mean", "min", "max", "zeros", "nans"]

XY = {"xy_distribution": True}
WG = {"wg_distribution": True}
PARAMETERS = {**WG, "mv_distribution": True, "param_distribution": True}
TENSORS = {**XY, **PARAMETERS}
EVERYTHING = {**TENSORS, "stack_info": True, "recording_l2_features": True, "l2_targets": {"linear_hook": []}}

OPTIONS = {"beside", "clock", "dp_group", "dynamic", "grad_acc_steps"}


def write_config(path: Path, **config: Any) -> Path:
    """Write a config; `ops` defaults to all six."""
    path.write_text(json.dumps({"ops": ALL_OPS, **config}))
    return path


def watched(folder: Path, model: Any, optimizer: Any = None, **config: Any) -> stepwatch.Watch:
    """Watch a model by a config, with all files in a folder; some keywords are options of the monitor."""
    folder.mkdir(exist_ok=True)
    options = {"dynamic": False, **{name: config.pop(name) for name in OPTIONS & config.keys()}}
    path = write_config(folder / "config.json", **config)
    return stepwatch.watch(model, optimizer, path, output_dir=folder, **options)


def mlp() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
    )


def sgd_job(model: Any = None, lr: float = 0.1) -> tuple[Any, torch.optim.Optimizer]:
    """Return a model, by default `mlp`, and an SGD of all its parameters."""
    model = mlp() if model is None else model
    return model, torch.optim.SGD(model.parameters(), lr=lr)


def adam_job(model: Any = None) -> tuple[Any, torch.optim.Optimizer]:
    """Return a model, by default `mlp`, and an Adam of all its parameters."""
    model = mlp() if model is None else model
    return model, torch.optim.Adam(model.parameters())


def train(
    model: torch.nn.Module,
    optimizer: Any,
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


def train_scaled(model: torch.nn.Module, optimizer: Any, steps: int, *, skipped: Container[int]) -> None:
    """Train with a gradient scaler, which skips the steps in which gradients are infinite."""
    scaler = torch.amp.GradScaler("cpu")
    for step in range(steps):
        loss = model(torch.ones(3, 4)).mean() * (float("inf") if step in skipped else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
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


def names(base: Path, kind: str, step: int | None = None) -> set[str]:
    """Return the names that rows of a kind have."""
    return {row["name"] for row in rows(base, kind, step)}


def steps_of(base: Path, kind: str) -> list[int]:
    """Return the steps in which a kind has rows."""
    return sorted({int(row["step"]) for row in rows(base, kind)})


def norms(base: Path, kind: str, step: int, micro_step: int | None = None) -> dict[str, float]:
    """Return the norms in the rows of a step, or of one micro-step, each of which is there once."""
    found = rows(base, kind, step)
    if micro_step is not None:
        found = [row for row in found if int(row["micro_step"]) == micro_step]
    assert len({row["name"] for row in found}) == len(found), (kind, step)
    return {row["name"]: float(row["norm"]) for row in found}


def norm(tensor: Any) -> float:
    """Return the norm of a tensor as torch computes it in double precision."""
    return float(tensor.detach().double().norm())


def gradient_norms(model: torch.nn.Module) -> dict[str, float]:
    """Return torch's norms of the gradients that parameters have."""
    return {name: norm(each.grad) for name, each in model.named_parameters() if each.grad is not None}


def weight_norms(model: torch.nn.Module) -> dict[str, float]:
    """Return torch's norms of all parameters."""
    return {name: norm(each) for name, each in model.named_parameters()}


def manifest(base: Path) -> dict[str, Any]:
    """Return the manifest of the only run directory of rank 0."""
    (path,) = base.glob("*-rank0-*/manifest.json")
    return json.loads(path.read_text())


def stacks(base: Path) -> dict[str, str]:
    """Return the call stacks of modules that the only run directory of rank 0 has."""
    (path,) = base.glob("*-rank0-*/stack_info.csv")
    with open(path, newline="") as file:
        return {row["module_name"]: row["stack_info"] for row in csv.DictReader(file)}


def structure(base: Path) -> dict[str, Any]:
    """Return the structure of the model that rank 0 has written."""
    return json.loads((base / "module_struct/rank0/module_struct.json").read_text())


def same_tensors(one: Any, other: Any) -> bool:
    """Tell whether two series of tensors are the same, bit by bit."""
    one, other = list(one), list(other)
    return len(one) == len(other) and all(map(torch.equal, one, other))


def lines_of_job() -> list[dict[str, Any]]:
    """Return all lines of the only running job of a test, which may open its control socket a moment later."""
    deadline = time.monotonic() + 20
    directory = os.environ["STEPWATCH_RUNTIME_DIR"]  # other jobs of this user run elsewhere
    while not (found := [job for job in stepwatch.jobs() if job.run_id and job.socket_path.startswith(directory)]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (job,) = found
    return job.beats()["beats"]
