"""Rows have the names that stand in the model's own text, and targets take these and torch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jobs import WG, manifest, names, rows, sgd_job, stacks, steps_of, structure, train, watched

import torch
from stepwatch.frameworks.names import as_written

WRITTEN = {"0.weight", "0.bias", "1.weight", "1.bias"}
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
    model, optimizer = sgd_job(wrapped())
    with watched(tmp_path, model, optimizer, **config):
        train(model, optimizer, 2)


def test_names_are_those_that_the_user_wrote(tmp_path: Path) -> None:
    run(tmp_path, wg_distribution=True, xy_distribution=True)
    assert names(tmp_path, "grad_reduced", 1) == names(tmp_path, "grad_unreduced", 1) == WRITTEN
    assert {"0.input", "0.output", "1.input", "1.output"} <= names(tmp_path, "actv", 1)
    for kind in ("actv", "actv_grad"):
        found = [row["name"] for row in rows(tmp_path, kind, 1)]
        assert sorted(found) == sorted(f"{name}.{port}" for name in ("", "0", "1") for port in ("input", "output"))


def test_msprobes_spelling_is_there_for_the_asking(tmp_path: Path) -> None:
    run(tmp_path, wg_distribution=True, stepwatch={"names": "torch"})
    assert names(tmp_path, "grad_reduced", 1) == MANGLED


@pytest.mark.parametrize("target", ["1", "_orig_mod.1._checkpoint_wrapped_module"])
def test_targets_take_either_spelling(tmp_path: Path, target: str) -> None:
    run(tmp_path, wg_distribution=True, xy_distribution=True, targets={target: {}})
    assert names(tmp_path, "grad_reduced", 1) == {"1.weight", "1.bias"}
    assert names(tmp_path, "actv", 1) == {"1.input", "1.output"}


SPELLINGS = {
    "model": {"0:", "0:0", "0:1"},
    "torch": {
        *("0:", "0:_orig_mod", "0:_orig_mod.0", "0:_orig_mod.1"),
        "0:_orig_mod.1._checkpoint_wrapped_module",
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_structure_and_call_stacks_have_the_names_of_the_rows(tmp_path: Path, spelling: str) -> None:
    own = {"names": spelling, "exit_after_struct": False}
    run(tmp_path, print_struct=True, stack_info=True, wg_distribution=True, stepwatch=own)
    described = structure(tmp_path)
    assert described.keys() == stacks(tmp_path).keys() == SPELLINGS[spelling]
    assert all("size=(5, " in module["output_grad"]["0"] for module in described.values())
    inside = "0:1" if spelling == "model" else "0:_orig_mod.1._checkpoint_wrapped_module"
    assert "checkpoint_wrapper.py" in stacks(tmp_path)[inside]
    assert steps_of(tmp_path, "grad_reduced") == [0, 1]


def test_the_manifest_maps_torchs_names_to_the_users(tmp_path: Path) -> None:
    run(tmp_path, **WG)
    mapping = {each["name"]: each["as_written"] for each in manifest(tmp_path)["sites"]["parameters"]}
    assert set(mapping) == MANGLED and set(mapping.values()) == WRITTEN


def test_only_whole_parts_of_a_name_are_left_out() -> None:
    assert as_written("a._orig_mod.b._fsdp_wrapped_module._checkpoint_wrapped_module.weight") == "a.b.weight"
    assert as_written("_orig_mod") == ""
    assert as_written("a.my_orig_mod.weight") is None and as_written("") is None
