"""Models and optimizers that are saved while watched load without Stepwatch, and compute the same there."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs import EVERYTHING, mlp, same_tensors, train, watched

import python_programs
import torch

ELSEWHERE = """
import sys
sys.modules["stepwatch"] = None  # importing it fails
import torch
saved = torch.load(sys.argv[1], weights_only=False)
model = saved["model"].float()
print(model(torch.ones(1, 4)).flatten().tolist())
"""


class LeadsItself:
    """An optimizer of nobody's class, which is saved whole."""

    def __init__(self, parameters: Any) -> None:
        self.param_groups = [{"params": list(parameters)}]

    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.sub_(0.01 * parameter.grad)

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


SAVED: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda model, optimizer: model,
    "copied": lambda model, optimizer: copy.deepcopy(model),
    "in_halves": lambda model, optimizer: copy.deepcopy(model).half(),
    "averaged": lambda model, optimizer: torch.optim.swa_utils.AveragedModel(model).module,
    "pickled": lambda model, optimizer: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("what", SAVED)
def test_a_model_loads_without_stepwatch(tmp_path: Path, what: str) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    path = tmp_path / "checkpoint.pt"
    with watched(tmp_path, model, optimizer, **EVERYTHING, monitor_mbs_grad=what == "whole"), warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, 3)
        saved = {"model": SAVED[what](model, optimizer), "optimizer": optimizer.state_dict()}
        torch.save(saved, path)
        assert b"stepwatch" not in path.read_bytes()
        expected = saved["model"].float()(torch.ones(1, 4)).flatten().tolist()
        train(model, optimizer, 1)
    loaded = python_programs.run(["-c", ELSEWHERE, str(path)])
    assert loaded.stdout.strip() == str(expected), loaded.stderr


@pytest.mark.parametrize("kind", [LeadsItself, torch.optim.SGD])
def test_an_optimizer_of_any_class_is_saved_and_copied(tmp_path: Path, kind: Any) -> None:
    model = mlp()
    optimizer = kind(model.parameters())
    with watched(tmp_path, model, optimizer, **EVERYTHING) as monitor:
        train(model, optimizer, 2)
        saved = pickle.dumps(optimizer)
        assert b"stepwatch" not in saved
        before = [parameter.detach().clone() for parameter in model.parameters()]
        for each in (pickle.loads(saved), copy.deepcopy(optimizer)):
            assert type(each) is kind
            own = each.param_groups[0]["params"]
            for parameter in own:
                parameter.grad = torch.ones_like(parameter)
            each.step()
            assert same_tensors(before, model.parameters()) and not torch.equal(own[0], before[0])
            each.zero_grad()
        assert monitor.status()["step"] == 2
