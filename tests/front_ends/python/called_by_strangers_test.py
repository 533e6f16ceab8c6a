"""Hooks of the monitor that are called by other code, with any arguments, return nothing and raise nothing."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import pytest
from jobs import EVERYTHING, adam_job, rows, sgd_job, train, watched

import torch

ARGUMENTS = (None, (), {}, torch.ones(2), "text")


def hung(model: torch.nn.Module, optimizer: Any) -> list[Any]:
    """Return all callables that hang on a model, its parameters and its optimizer."""
    found: list[Any] = []
    for module in model.modules():
        found += [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    for parameter in model.parameters():
        for hooks in (parameter._backward_hooks, parameter._post_accumulate_grad_hooks):
            found += (hooks or {}).values()
    found += optimizer._optimizer_step_pre_hooks.values()
    return [*found, *optimizer._optimizer_step_post_hooks.values()]


@pytest.mark.parametrize("config", [{}, {"monitor_mbs_grad": True}], ids=["last", "each"])
def test_no_callable_raises_or_replaces_anything(tmp_path: Path, config: dict[str, Any]) -> None:
    model, optimizer = adam_job()
    with watched(tmp_path, model, optimizer, **EVERYTHING, **config):
        train(model, optimizer, 2)
        output = model(torch.ones(5, 4))
        callables = hung(model, optimizer)
        callables += [*(output._backward_hooks or {}).values()]
        assert len(callables) > 15
        for each in callables:
            for count in range(6):
                for given in itertools.combinations_with_replacement(ARGUMENTS, count):
                    assert each(*given) is None
            assert each(model, (output,), {}, output=output) is None
        output.pow(2).mean().backward()
        train(model, optimizer, 2)
    assert len(rows(tmp_path, "param_updated", 3)) == len(list(model.parameters()))


def test_hooks_that_move_to_another_module_leave_training_as_it_is(tmp_path: Path) -> None:
    """As quantization does it: it registers them anew, without keyword arguments."""
    quantization = pytest.importorskip("torch.ao.quantization")

    def trained(path: Path | None) -> list[torch.Tensor]:
        torch.manual_seed(2)
        block = [torch.nn.Conv2d(1, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.ReLU()]
        model, optimizer = sgd_job(
            torch.nn.Sequential(torch.nn.Sequential(*block), torch.nn.Flatten(), torch.nn.Linear(144, 2)), lr=0.05
        )
        monitor = None if path is None else watched(path, model, optimizer, **EVERYTHING)
        losses = []
        for step in range(8):
            if step == 3:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    quantization.fuse_modules_qat(model, [["0.0", "0.1", "0.2"]], inplace=True)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
                if monitor is not None:
                    monitor.attach(model, optimizer)
            loss = model(torch.randn(3, 1, 8, 8)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        if monitor is not None:
            monitor.close()
        return losses

    assert all(map(torch.equal, trained(None), trained(tmp_path)))
    # Each row once, of the module that is there now.
    for step in (5, 7):
        names = [row["name"] for row in rows(tmp_path, "actv", step)]
        assert len(set(names)) == len(names) and any(name.startswith("0.0") for name in names)
        assert len(rows(tmp_path, "grad_reduced", step)) == len(
            {row["name"] for row in rows(tmp_path, "grad_reduced", step)}
        )
