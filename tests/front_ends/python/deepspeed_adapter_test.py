"""DeepSpeed's optimizers, its engine and its reduction, by classes shaped like them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import deepspeed_shapes as shapes
import pytest
from jobs import mlp, rows, value, write_config

import stepwatch
import torch

MICRO_BATCHES = 2
EVERYTHING = {
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "monitor_mbs_grad": True,
}
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


def watched(tmp_path: Path, engine: shapes.DeepSpeedEngine, handed: Any, **config: Any) -> stepwatch.Watch:
    path = write_config(tmp_path / "config.json", **{**EVERYTHING, **config})
    return stepwatch.watch(
        engine.module, handed, path, dynamic=False, output_dir=tmp_path, grad_acc_steps=MICRO_BATCHES
    )


def train(engine: shapes.DeepSpeedEngine, steps: int, overflows: int = -1) -> dict[tuple[int, int], dict[str, float]]:
    """Train; returns by step and micro-step the norms of the gradients of all micro-batches until then."""
    generator = torch.Generator().manual_seed(7)
    norms: dict[tuple[int, int], dict[str, float]] = {}
    for step in range(steps):
        sums = {name: torch.zeros_like(each) for name, each in engine.module.named_parameters()}
        for micro in range(MICRO_BATCHES):
            loss = engine.module(torch.randn(5, 4, generator=generator)).pow(2).mean()
            gradients = torch.autograd.grad(loss, list(engine.module.parameters()), retain_graph=True)
            for whole, gradient in zip(sums.values(), gradients):
                whole += gradient
            norms[step, micro] = {name: float(whole.double().norm()) for name, whole in sums.items()}
            engine.backward(loss)
            engine.optimizer.overflows = step == overflows
            engine.step()
    return norms


def kept_of(engine: shapes.DeepSpeedEngine, kind: str) -> list[str]:
    """Return the names of the parameters of which this rank keeps anything."""
    names = {id(each): name for name, each in engine.module.named_parameters()}
    if not kind.startswith(("stage1", "stage2")):
        return list(names.values())
    return [names[id(each)] for kept in engine.optimizer.params_in_partition for each in kept]


@pytest.mark.parametrize("hands_in", ["engine", "optimizer"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_before_their_reduction_have_all_micro_batches(tmp_path: Path, kind: str, hands_in: str) -> None:
    engine = engine_of(kind)
    with watched(tmp_path, engine, engine if hands_in == "engine" else engine.optimizer) as monitor:
        right = train(engine, 3)
        assert monitor.status()["step"] == 3
    for (step, micro), norms in right.items():
        found = [row for row in rows(tmp_path, "grad_unreduced", step) if int(row["micro_step"]) == micro]
        assert len(found) == len(norms)
        for name, norm in norms.items():
            assert value(found, name, "norm") == pytest.approx(norm, rel=1e-5), (step, micro, name)


@pytest.mark.parametrize("kind", ["stage1", "stage2", "stage3", "bf16"])
def test_gradients_are_whole_where_micro_batches_are_not_told_apart(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind)
    with watched(tmp_path, engine, engine, monitor_mbs_grad=False):
        right = train(engine, 2)
    for step in range(2):
        found = rows(tmp_path, "grad_unreduced", step)
        assert {row["name"] for row in found} == set(right[step, 1])
        for name, norm in right[step, 1].items():
            assert value(found, name, "norm") == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_reduced_gradients_and_moments_are_whole_or_this_ranks_part(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = engine_of(kind)
    with watched(tmp_path, engine, engine):
        right = train(engine, 3)
    kept = kept_of(engine, kind)
    for each in ("exp_avg", "exp_avg_sq"):
        assert {row["name"] for row in rows(tmp_path, each, 2)} == set(kept)
    reduced = rows(tmp_path, "grad_reduced", 2)
    assert {row["name"] for row in reduced} == set(kept)
    if not kind.startswith("stage3"):
        for name in kept:
            assert value(reduced, name, "norm") == pytest.approx(right[2, 1][name] / 2, rel=1e-5)
    told = capfd.readouterr().out
    assert "has no rows" not in told and "keeps no exp_avg" not in told and "[ERROR]" not in told
    assert told.count("cover the part that this rank") == (0 if "fused" in kind else 1)


@pytest.mark.parametrize("kind", ["stage3", "stage3-offload"])
def test_a_part_has_none_of_the_padding_behind_it(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind, outputs=3)  # the second half of a bias of three is padded
    with watched(tmp_path, engine, engine):
        train(engine, 2)
    bias = engine.module[3].bias
    assert value(rows(tmp_path, "param_updated", 1), "3.bias", "max") == pytest.approx(float(bias.ds_tensor[0]))
    for each in ("param_origin", "grad_reduced", "exp_avg"):
        assert value(rows(tmp_path, each, 1), "3.bias", "max") < 50.0, each


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_overflows_is_a_step_with_its_gradients(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind)
    with watched(tmp_path, engine, engine) as monitor:
        train(engine, 4, overflows=2)
        assert monitor.status()["step"] == 4
    assert sorted({int(row["step"]) for row in rows(tmp_path, "grad_reduced")}) == [0, 1, 2, 3]
    assert sorted({int(row["step"]) for row in rows(tmp_path, "param_updated")}) == [0, 1, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_training_keeps_its_bits_and_deepspeed_its_functions(tmp_path: Path, kind: str) -> None:
    weights = []
    for watches in (False, True):
        engine = engine_of(kind)
        functions = dict(vars(type(engine.optimizer)))
        if watches:
            with watched(tmp_path, engine, engine):
                train(engine, 3)
        else:
            train(engine, 3)
        assert dict(vars(type(engine.optimizer))) == functions
        weights.append([getattr(each, "ds_tensor", each).detach().clone() for each in engine.module.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*weights))


@pytest.mark.parametrize("kind", ["stage1", "stage2-round-robin"])
def test_moments_of_all_groups_are_read(tmp_path: Path, kind: str) -> None:
    engine = engine_of(kind, groups=2)
    with watched(tmp_path, engine, engine):
        train(engine, 2)
    kept = kept_of(engine, kind)
    gradients, moments = rows(tmp_path, "grad_reduced", 0), rows(tmp_path, "exp_avg", 1)
    assert {row["name"] for row in moments} == set(kept)
    for name in kept:  # after the first update of Adam
        assert value(moments, name, "norm") == pytest.approx(0.1 * value(gradients, name, "norm"), rel=1e-5)


@pytest.mark.parametrize("kind", ["stage2", "stage3-sub-groups", "bf16", "unfused"])
def test_the_optimizer_inside_stands_for_the_one_around_it(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = engine_of(kind)
    with watched(tmp_path, engine, engine.optimizer.optimizer) as monitor:
        right = train(engine, 3)
        assert monitor.status()["step"] == 3
    kept = kept_of(engine, kind)
    for each in ("grad_unreduced", "grad_reduced", "exp_avg", "param_updated"):
        assert {row["name"] for row in rows(tmp_path, each, 2)} >= set(kept), each
    last = [row for row in rows(tmp_path, "grad_unreduced", 2) if int(row["micro_step"]) == MICRO_BATCHES - 1]
    assert value(last, kept[0], "norm") == pytest.approx(right[2, 1][kept[0]], rel=1e-5)
    assert "has no rows" not in capfd.readouterr().out


def test_an_optimizer_that_is_taken_over_later_is_told_with_the_one_to_hand_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    own = torch.optim.Adam(model.parameters(), lr=0.1)
    path = write_config(tmp_path / "config.json", **EVERYTHING)
    with stepwatch.watch(model, own, path, dynamic=False, output_dir=tmp_path, grad_acc_steps=MICRO_BATCHES):
        module, name, options = KINDS["stage2"]
        train(shapes.DeepSpeedEngine(model, shapes.made(module, name, own, **options), MICRO_BATCHES), 3)
    told = capfd.readouterr().out
    assert "grad_reduced has no rows" in told
    assert "DeepSpeedZeroOptimizer has removed the parameters from it" in told


def test_a_scaler_around_the_optimizer_inside_leaves_no_step_out_that_it_takes(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(torch.ones(()))  # as `backward` of the optimizer does it
    engine = engine_of("stage1", groups=2, scaler=scaler)
    with watched(tmp_path, engine, engine) as monitor:
        train(engine, 3)
        assert monitor.status()["step"] == 3
    for kind in ("param_origin", "param_updated"):
        assert sorted({int(row["step"]) for row in rows(tmp_path, kind)}) == [0, 1, 2], kind
