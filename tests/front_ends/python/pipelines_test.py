"""Pipeline stages: what is tried on memory without data is not seen, and gradients that no hook sees are."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
from jobs import mlp, rows, sgd_job, value, watched

import torch

stage = pytest.importorskip("torch.distributed.pipelining.stage", reason="this torch has no pipelines")


def test_a_stage_that_is_tried_for_its_shapes_gives_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = sgd_job()

    def infer(self: Any) -> None:
        model(torch.full((5, 4), float("nan"))).sum().backward()
        model.zero_grad()

    kind = stage.PipelineStage
    name = next(each for each in ("_forward_metadata_inference", "_shape_inference") if each in vars(kind))
    monkeypatch.setattr(kind, name, infer)
    with watched(tmp_path, model, optimizer, xy_distribution=True, wg_distribution=True):
        getattr(kind, name)(types.SimpleNamespace())
        model(torch.ones(5, 4)).sum().backward()
        optimizer.step()
    assert vars(kind)[name] is infer
    for kind_of_row in ("actv", "actv_grad", "grad_unreduced"):
        found = rows(tmp_path, kind_of_row, 0)
        assert found and {row.get("micro_step", "0") for row in found} == {"0"}, kind_of_row
        assert not any(row["nans"] not in ("0", "nan") for row in found), kind_of_row


def backward_in_two(model: torch.nn.Module, loss: torch.Tensor) -> None:
    """Do what a schedule with zero bubble does: gradients of weights by autograd.grad, after those of inputs."""
    weights = list(model.parameters())
    gradients = torch.autograd.grad(loss, weights)
    original = stage.stage_backward_weight

    def accumulate(weights: Any, gradients: Any) -> None:
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)

    # Torch's function, as the monitor has wrapped it, around other insides.
    inner = original.__wrapped__ if hasattr(original, "__wrapped__") else original
    cell = next(cell for cell in original.__closure__ if cell.cell_contents is inner)
    cell.cell_contents = accumulate
    try:
        original(iter(weights), gradients)
    finally:
        cell.cell_contents = inner


@pytest.mark.parametrize("each", [False, True])
def test_gradients_of_a_schedule_with_zero_bubble_are_seen(tmp_path: Path, each: bool) -> None:
    model, optimizer = sgd_job()
    seen = []
    with watched(tmp_path, model, optimizer, wg_distribution=True, monitor_mbs_grad=each, grad_acc_steps=2):
        for _ in range(2):
            for micro_step in range(2):
                backward_in_two(model, model(torch.ones(5, 4) * (1 + micro_step)).pow(2).sum())
                seen.append(float(model[3].weight.grad.double().norm()))
            optimizer.step()
            optimizer.zero_grad()
    for step in range(2):
        found = [row for row in rows(tmp_path, "grad_unreduced", step) if row["name"] == "3.weight"]
        expected = seen[2 * step : 2 * step + 2] if each else seen[2 * step + 1 : 2 * step + 2]
        assert [float(row["norm"]) for row in found] == pytest.approx(expected)
        assert value(rows(tmp_path, "grad_reduced", step), "3.weight", "norm") == pytest.approx(expected[-1])


def test_the_gradient_of_a_stages_input_is_not_lost_when_those_of_its_weights_come(tmp_path: Path) -> None:
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)))
    seen = []
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        for _ in range(2):
            x = torch.randn(5, 4, requires_grad=True)
            loss = model(x).pow(2).sum()
            (gradient,) = torch.autograd.grad(loss, [x], retain_graph=True)
            seen.append(float(gradient.double().norm()))
            for weight, gradient in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
                weight.grad = gradient
            optimizer.step()
    for step in range(2):
        found = [row for row in rows(tmp_path, "actv_grad", step) if row["name"] in (".input", "0.input")]
        assert [float(row["norm"]) for row in found] == pytest.approx([seen[step]] * 2)


def test_torch_has_its_own_functions_again_when_the_monitor_is_closed(tmp_path: Path) -> None:
    def of_torch() -> list[Any]:
        kinds = [kind for kind in vars(stage).values() if isinstance(kind, type)]
        return [stage.stage_backward_weight, *(dict(vars(kind)) for kind in kinds)]

    before = of_torch()
    model = mlp()
    with watched(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.1), wg_distribution=True):
        assert of_torch() != before
    assert of_torch() == before
