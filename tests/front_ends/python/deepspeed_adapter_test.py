"""DeepSpeed's optimizers, its engine and its reduction, by classes shaped like them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import deepspeed_shapes as shapes
import pytest
from jobs import PARAMETERS, mlp, names, norm, norms, rows, same_tensors, steps_of, value, watched

import stepwatch
import torch

MICRO_BATCHES = 2
EACH = {**PARAMETERS, "monitor_mbs_grad": True}
FP16 = "deepspeed.runtime.fp16"
KINDS = {
    "stage1": (shapes.STAGE12, "DeepSpeedZeroOptimizer", {"stage": 1}),
    "stage1-overlap": (shapes.STAGE12, "DeepSpeedZeroOptimizer", {"stage": 1, "overlaps": True}),
    "stage2": (shapes.STAGE12, "DeepSpeedZeroOptimizer", {"stage": 2}),
    "stage2-round-robin": (shapes.STAGE12, "DeepSpeedZeroOptimizer", {"stage": 2, "round_robin": True}),
    "stage3": (shapes.STAGE3, "DeepSpeedZeroOptimizer_Stage3", {}),
    "stage3-offload": (shapes.STAGE3, "DeepSpeedZeroOptimizer_Stage3", {"offloads": True}),
    "stage3-sub-groups": (shapes.STAGE3, "DeepSpeedZeroOptimizer_Stage3", {"sub_groups": 2}),
    "bf16": (shapes.BF16, "BF16_Optimizer", {}),
    "unfused": (f"{FP16}.unfused_optimizer", "FP16_UnfusedOptimizer", {}),
    "fused": (f"{FP16}.fused_optimizer", "FP16_Optimizer", {}),
}


@pytest.fixture(autouse=True)
def deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in shapes.modules().items():
        monkeypatch.setitem(sys.modules, name, module)


def engine_of(kind: str, outputs: int = 2, groups: int = 1, **more: Any) -> shapes.DeepSpeedEngine:
    model = mlp()
    if outputs != 2:
        model[3] = torch.nn.Linear(8, outputs)
    module, name, options = KINDS[kind]
    parameters = list(model.parameters())
    size = -(-len(parameters) // groups)
    of_groups = [{"params": parameters[start : start + size]} for start in range(0, len(parameters), size)]
    optimizer = shapes.made(module, name, torch.optim.Adam(of_groups, lr=0.1), **options, **more)
    return shapes.DeepSpeedEngine(model, optimizer, MICRO_BATCHES)


def watching(tmp_path: Path, engine: shapes.DeepSpeedEngine, handed: Any, **config: Any) -> stepwatch.Watch:
    return watched(tmp_path, engine.module, handed, grad_acc_steps=MICRO_BATCHES, **{**EACH, **config})


def train(engine: shapes.DeepSpeedEngine, steps: int, overflows: int = -1) -> dict[tuple[int, int], dict[str, float]]:
    """Train; returns by step and micro-step the norms of the gradients of all micro-batches until then."""
    generator = torch.Generator().manual_seed(7)
    right: dict[tuple[int, int], dict[str, float]] = {}
    for step in range(steps):
        sums = {name: torch.zeros_like(each) for name, each in engine.module.named_parameters()}
        for micro in range(MICRO_BATCHES):
            loss = engine.module(torch.randn(5, 4, generator=generator)).pow(2).mean()
            gradients = torch.autograd.grad(loss, list(engine.module.parameters()), retain_graph=True)
            for whole, gradient in zip(sums.values(), gradients):
                whole += gradient
            right[step, micro] = {name: norm(whole) for name, whole in sums.items()}
            engine.backward(loss)
            engine.optimizer.overflows = step == overflows
            engine.step()
    return right


def kept_of(engine: shapes.DeepSpeedEngine, kind: str) -> list[str]:
    """Return the name_of of the parameters of which this rank keeps anything."""
    name_of = {id(each): name for name, each in engine.module.named_parameters()}
    if not kind.startswith(("stage1", "stage2")):
        return list(name_of.values())
    return [name_of[id(each)] for kept in engine.optimizer.params_in_partition for each in kept]


@pytest.mark.parametrize("hands_in", ["engine", "optimizer"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_and_moments_are_whole_or_this_ranks_part_in_every_step_and_if_it_overflows(
    tmp_path: Path, kind: str, hands_in: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = engine_of(kind)
    with watching(tmp_path, engine, engine if hands_in == "engine" else engine.optimizer) as monitor:
        right = train(engine, 4, overflows=2)
        assert monitor.status()["step"] == 4
    for (step, micro), expected in right.items():
        if step == 3:  # has the gradients of the step before as well: these classes keep them when they overflow
            continue
        assert norms(tmp_path, "grad_unreduced", step, micro) == pytest.approx(expected, rel=1e-5), (step, micro)
    kept = kept_of(engine, kind)
    for each in ("exp_avg", "exp_avg_sq", "grad_reduced"):
        assert names(tmp_path, each, 3) == set(kept), each
    if not kind.startswith("stage3"):
        halves = {name: right[1, 1][name] / 2 for name in kept}
        assert norms(tmp_path, "grad_reduced", 1) == pytest.approx(halves, rel=1e-5)
    assert steps_of(tmp_path, "grad_reduced") == [0, 1, 2, 3]
    assert steps_of(tmp_path, "param_updated") == [0, 1, 3]
    printed = capfd.readouterr().out
    assert "has no rows" not in printed and "keeps no exp_avg" not in printed and "[ERROR]" not in printed
    assert printed.count("cover the part that this rank") == (0 if "fused" in kind else 1)


@pytest.mark.parametrize("kind", ["stage1", "stage2", "stage3", "bf16"])
def test_gradients_are_whole_where_micro_batches_are_not_distinguished(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind)
    with watching(tmp_path, engine, engine, monitor_mbs_grad=False):
        right = train(engine, 2)
    for step in range(2):
        assert norms(tmp_path, "grad_unreduced", step) == pytest.approx(right[step, 1], rel=1e-5)


@pytest.mark.parametrize("kind", ["stage3", "stage3-offload"])
def test_a_part_has_none_of_the_padding_behind_it(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind, outputs=3)  # the second half of a bias of three is padded
    with watching(tmp_path, engine, engine):
        train(engine, 2)
    bias = engine.module[3].bias
    assert value(rows(tmp_path, "param_updated", 1), "3.bias", "max") == pytest.approx(float(bias.ds_tensor[0]))
    for each in ("param_origin", "grad_reduced", "exp_avg"):
        assert value(rows(tmp_path, each, 1), "3.bias", "max") < 50.0, each


@pytest.mark.parametrize("kind", KINDS)
def test_training_keeps_its_bits_and_deepspeed_its_functions(tmp_path: Path, kind: str) -> None:
    weights = []
    for watches in (False, True):
        engine = engine_of(kind)
        functions = dict(vars(type(engine.optimizer)))
        if watches:
            with watching(tmp_path, engine, engine):
                train(engine, 3)
        else:
            train(engine, 3)
        assert dict(vars(type(engine.optimizer))) == functions
        weights.append([getattr(each, "ds_tensor", each).detach().clone() for each in engine.module.parameters()])
    assert same_tensors(*weights)


@pytest.mark.parametrize("kind", ["stage1", "stage2-round-robin"])
def test_moments_of_all_groups_are_read(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind, groups=2)
    with watching(tmp_path, engine, engine):
        train(engine, 2)
    kept = kept_of(engine, kind)
    gradients, moments = norms(tmp_path, "grad_reduced", 0), norms(tmp_path, "exp_avg", 1)
    assert moments.keys() == set(kept)
    for name in kept:  # after the first update of Adam
        assert moments[name] == pytest.approx(0.1 * gradients[name], rel=1e-5)


@pytest.mark.parametrize("kind", ["stage2", "stage3-sub-groups", "bf16", "unfused"])
def test_the_optimizer_inside_stands_for_the_one_around_it(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = engine_of(kind)
    with watching(tmp_path, engine, engine.optimizer.optimizer) as monitor:
        right = train(engine, 3)
        assert monitor.status()["step"] == 3
    kept = kept_of(engine, kind)
    for each in ("grad_unreduced", "grad_reduced", "exp_avg", "param_updated"):
        assert names(tmp_path, each, 2) >= set(kept), each
    assert norms(tmp_path, "grad_unreduced", 2, MICRO_BATCHES - 1) == pytest.approx(right[2, 1], rel=1e-5)
    assert "has no rows" not in capfd.readouterr().out


def test_an_optimizer_that_is_taken_over_later_is_reported_with_the_one_to_hand_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    own = torch.optim.Adam(model.parameters(), lr=0.1)
    with watched(tmp_path, model, own, grad_acc_steps=MICRO_BATCHES, **EACH):
        module, name, options = KINDS["stage2"]
        train(shapes.DeepSpeedEngine(model, shapes.made(module, name, own, **options), MICRO_BATCHES), 3)
    printed = capfd.readouterr().out
    assert "grad_reduced has no rows" in printed
    assert "DeepSpeedZeroOptimizer has removed the parameters from it" in printed


def test_a_scaler_around_the_optimizer_inside_leaves_no_step_out_that_it_takes(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(torch.ones(()))  # as `backward` of the optimizer does it
    engine = engine_of("stage1", groups=2, scaler=scaler)
    with watching(tmp_path, engine, engine) as monitor:
        train(engine, 3)
        assert monitor.status()["step"] == 3
    for kind in ("param_origin", "param_updated"):
        assert steps_of(tmp_path, kind) == [0, 1, 2], kind
