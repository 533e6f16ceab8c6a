"""Rows have the names that stand in the model's own text, and targets take these and torch's."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import rows, train, write_config

import stepwatch
import torch
from stepwatch.frameworks.names import as_written

PARAMETERS = {"0.weight", "0.bias", "1.weight", "1.bias"}
MANGLED = {"_orig_mod.0.weight", "_orig_mod.0.bias"} | {
    f"_orig_mod.1._checkpoint_wrapped_module.{name}" for name in ("weight", "bias")
}


class OptimizedModule(torch.nn.Module):
    """Wraps a model as torch.compile does, and runs it as it is."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._orig_mod(x)


def wrapped() -> Any:
    """Return a model in a wrapper, part of which is checkpointed."""
    wrapper = pytest.importorskip("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    torch.manual_seed(3)
    inside = wrapper.checkpoint_wrapper(torch.nn.Linear(4, 2), checkpoint_impl=wrapper.CheckpointImpl.NO_REENTRANT)
    return OptimizedModule(torch.nn.Sequential(torch.nn.Linear(4, 4), inside))


def run(tmp_path: Path, **config: Any) -> None:
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = write_config(tmp_path / "config.json", **config)
    with stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=tmp_path):
        train(model, optimizer, 2)


def names(tmp_path: Path, kind: str) -> set[str]:
    return {row["name"] for row in rows(tmp_path, kind, 1)}


def test_names_are_those_that_the_user_wrote(tmp_path: Path) -> None:
    run(tmp_path, wg_distribution=True, xy_distribution=True)
    assert names(tmp_path, "grad_reduced") == names(tmp_path, "grad_unreduced") == PARAMETERS
    assert {"0.input", "0.output", "1.input", "1.output"} <= names(tmp_path, "actv")
    for kind in ("actv", "actv_grad"):
        found = [row["name"] for row in rows(tmp_path, kind, 1)]
        assert sorted(found) == sorted(f"{name}.{port}" for name in ("", "0", "1") for port in ("input", "output"))


def test_msprobes_spelling_is_there_for_the_asking(tmp_path: Path) -> None:
    run(tmp_path, wg_distribution=True, stepwatch={"names": "torch"})
    assert names(tmp_path, "grad_reduced") == MANGLED


@pytest.mark.parametrize("target", ["1", "_orig_mod.1._checkpoint_wrapped_module"])
def test_targets_take_either_spelling(tmp_path: Path, target: str) -> None:
    run(tmp_path, wg_distribution=True, xy_distribution=True, targets={target: {}})
    assert names(tmp_path, "grad_reduced") == {"1.weight", "1.bias"}
    assert names(tmp_path, "actv") == {"1.input", "1.output"}


SPELLINGS = {
    "model": {"0:", "0:0", "0:1"},
    "torch": {
        *("0:", "0:_orig_mod", "0:_orig_mod.0", "0:_orig_mod.1"),
        "0:_orig_mod.1._checkpoint_wrapped_module",
    },
}


@pytest.mark.parametrize("names", SPELLINGS)
def test_the_structure_has_the_names_of_the_rows(tmp_path: Path, names: str) -> None:
    run(tmp_path, print_struct=True, stepwatch={"names": names, "exit_after_struct": False})
    structure = json.loads((tmp_path / "module_struct/rank0/module_struct.json").read_text())
    assert structure.keys() == SPELLINGS[names]
    assert all("size=(5, " in module["output_grad"]["0"] for module in structure.values())


@pytest.mark.parametrize("names", SPELLINGS)
def test_call_stacks_have_the_names_of_the_rows(tmp_path: Path, names: str) -> None:
    run(tmp_path, stack_info=True, wg_distribution=True, stepwatch={"names": names})
    (path,) = tmp_path.glob("*-rank0-*/stack_info.csv")
    with open(path, newline="") as file:
        stacks = {row["module_name"]: row["stack_info"] for row in csv.DictReader(file)}
    assert stacks.keys() == SPELLINGS[names]
    inside = "0:1" if names == "model" else "0:_orig_mod.1._checkpoint_wrapped_module"
    assert "checkpoint_wrapper.py" in stacks[inside]


def test_the_manifest_maps_torchs_names_to_the_users(tmp_path: Path) -> None:
    run(tmp_path, wg_distribution=True)
    (manifest,) = tmp_path.glob("*-rank*/manifest.json")
    sites = json.loads(manifest.read_text())["sites"]
    mapping = {each["name"]: each["as_written"] for each in sites["parameters"]}
    assert set(mapping) == MANGLED and set(mapping.values()) == PARAMETERS


def test_only_whole_parts_of_a_name_are_left_out() -> None:
    assert as_written("a._orig_mod.b._fsdp_wrapped_module._checkpoint_wrapped_module.weight") == "a.b.weight"
    assert as_written("_orig_mod") == ""
    assert as_written("a.my_orig_mod.weight") is None and as_written("") is None
