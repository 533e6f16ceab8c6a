"""Megatron-core's optimizers and its reduction, by classes shaped like them."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import megatron_shapes as shapes
import pytest
from jobs import PARAMETERS, WG, mlp, names, norms, rows, same_tensors, steps_of, value, watched

import stepwatch
import torch
from stepwatch.distributed import ranks
from stepwatch.frameworks.table import adapter_of

PARAMETERS_OF_MLP = 6
LAST = "3.bias"


@pytest.fixture(autouse=True)
def megatron(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, shapes.BUFFERS, shapes.buffers_module())
    monkeypatch.setitem(sys.modules, shapes.OPTIMIZERS, types.ModuleType(shapes.OPTIMIZERS))


def adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.1)


class Training:
    """Trains as Megatron's schedules do, and keeps what the gradients were before their reduction."""

    def __init__(self, model: shapes.DistributedDataParallel, optimizer: Any, micro_batches: int = 2) -> None:
        self.model, self.optimizer, self.micro_batches = model, optimizer, micro_batches
        self.names = [name for name, _ in model.module.named_parameters()]
        self.unreduced: dict[tuple[int, int], dict[str, float]] = {}
        self.reduced: dict[int, dict[str, float]] = {}
        self.losses: list[float] = []

    def norms(self, scale: float = 1.0) -> dict[str, float]:
        return {
            name: float(each.main_grad.double().norm()) * scale for name, each in self.model.module.named_parameters()
        }

    def run(self, steps: int, overflows: int = -1) -> None:
        generator = torch.Generator().manual_seed(7)
        for step in range(steps):
            for parameter in self.model.module.parameters():
                parameter.main_grad.zero_()
            for micro in range(self.micro_batches):
                is_last = micro == self.micro_batches - 1
                x = torch.randn(5, 4, generator=generator)
                if is_last or not self.model.group.overlaps:
                    self.losses.append(self.backward(x))
                else:
                    with self.model.no_sync():
                        self.losses.append(self.backward(x))
                is_reduced = is_last and self.model.group.overlaps
                self.unreduced[step, micro] = self.norms(1 / shapes.REDUCED if is_reduced else 1.0)
            self.model.group.finish_grad_sync()
            self.reduced[step] = self.norms()
            self.optimizer.found_inf = step == overflows
            self.optimizer.step()

    def backward(self, x: torch.Tensor) -> float:
        loss = self.model(x).pow(2).mean()
        loss.backward()
        return float(loss.detach())


def watching(tmp_path: Path, model: Any, optimizer: Any, **config: Any) -> stepwatch.Watch:
    return watched(tmp_path, model, optimizer, grad_acc_steps=2, **PARAMETERS, **config)


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("hands_in", ["wrapper", "inside"])
def test_gradients_are_those_before_and_after_the_reduction_also_if_they_are_infinite(
    tmp_path: Path, overlaps: bool, hands_in: str
) -> None:
    model = shapes.DistributedDataParallel(mlp(), overlaps)
    training = Training(model, shapes.FP32Optimizer(adam(model)))
    handed, prefix = (model, "module.") if hands_in == "wrapper" else (model.module, "")
    with watching(tmp_path, handed, training.optimizer, monitor_mbs_grad=True) as monitor:
        training.run(4, overflows=2)
        assert monitor.status()["step"] == 4
    for (step, micro), right in training.unreduced.items():
        assert norms(tmp_path, "grad_unreduced", step, micro) == pytest.approx(prefixed(prefix, right)), (step, micro)
    for step, right in training.reduced.items():
        assert norms(tmp_path, "grad_reduced", step) == pytest.approx(prefixed(prefix, right))
    assert steps_of(tmp_path, "param_updated") == [0, 1, 3]
    assert len(rows(tmp_path, "exp_avg", 3)) == len(rows(tmp_path, "param_updated", 3)) == PARAMETERS_OF_MLP


def prefixed(prefix: str, right: dict[str, float]) -> dict[str, float]:
    return {prefix + name: each for name, each in right.items()}


@pytest.mark.parametrize("each", [False, True], ids=["a step", "a micro-batch"])
def test_a_gradient_that_no_hook_adds_up_is_read_when_its_bucket_is_reduced(tmp_path: Path, each: bool) -> None:
    model = shapes.DistributedDataParallel(mlp())
    training = Training(model, shapes.FP32Optimizer(adam(model)), micro_batches=1)
    delayed = model.module[3].bias
    with watching(tmp_path, model, training.optimizer, monitor_mbs_grad=each):
        model.module[3].bias = None  # so that nothing is accumulated
        model.group.add_delayed = lambda: delayed.main_grad.fill_(3.0)
        training.run(1)
    (row,) = [row for row in rows(tmp_path, "grad_unreduced", 0) if row["name"] == "module.3.bias"]
    assert float(row["max"]) == 3.0


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 2, 3])
def test_a_step_has_its_whole_gradient_whether_or_not_it_has_the_announced_micro_batches(
    tmp_path: Path, overlaps: bool, micro_batches: int
) -> None:
    model = shapes.DistributedDataParallel(mlp(), overlaps)
    training = Training(model, shapes.FP32Optimizer(adam(model)), micro_batches)
    with watching(tmp_path, model, training.optimizer):
        training.run(2)
    for step in range(2):
        right = prefixed("module.", training.unreduced[step, micro_batches - 1])
        assert norms(tmp_path, "grad_unreduced", step) == pytest.approx(right)


def test_moments_of_copies_in_fp32_are_those_of_the_parameters(tmp_path: Path) -> None:
    model = shapes.DistributedDataParallel(mlp())
    inner = adam(model)
    optimizer = shapes.ChainedOptimizer([shapes.Float16OptimizerWithFloat16Params(inner)])
    training = Training(model, optimizer)
    with watching(tmp_path, model, optimizer):
        training.run(2)
        copies = optimizer.chained_optimizers[0].fp32_from_float16_groups[0]
        right = [float(inner.state[copy]["exp_avg_sq"].double().norm()) for copy in copies]
        training.run(1)
    found = rows(tmp_path, "exp_avg_sq", 2)
    assert [value(found, "module." + name, "norm") for name in training.names] == pytest.approx(right)


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_distributed_optimizer_gives_rows_of_this_ranks_parts(
    tmp_path: Path, overlaps: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    model = shapes.DistributedDataParallel(mlp())
    inner = adam(model)
    optimizer = shapes.ChainedOptimizer([shapes.DistributedOptimizer(inner, overlaps)])
    training = Training(model, optimizer)
    with watching(tmp_path, model, optimizer):
        training.run(3)
        parts = dict(zip(training.names, optimizer.chained_optimizers[0].shard_fp32_groups[0]))
        gradient = model.module[0].weight.main_grad.view(-1)[:16]
        reduced = float(gradient.double().norm())
        part = float(parts["0.weight"].double().norm())
    assert LAST not in parts
    for kind in ("exp_avg", "exp_avg_sq"):
        assert names(tmp_path, kind, 2) == {"module." + name for name in parts}
    found = rows(tmp_path, "grad_reduced", 2)
    assert {row["name"] for row in found} == {"module." + name for name in parts}
    assert value(found, "module.0.weight", "norm") == pytest.approx(reduced)
    weights = rows(tmp_path, "param_updated", 2)
    if overlaps:  # the other parts come with the next forward pass
        assert value(weights, "module.0.weight", "norm") == pytest.approx(part)
        assert len(weights) == PARAMETERS_OF_MLP - 1
    else:
        assert value(weights, "module.0.weight", "norm") == pytest.approx(float(model.module[0].weight.double().norm()))
        assert len(weights) == PARAMETERS_OF_MLP
    printed = capfd.readouterr().out
    assert "has no rows" not in printed and "keeps no exp_avg" not in printed
    assert printed.count("cover the part that this rank updates") == 1


def test_a_layer_wise_optimizer_has_moments_where_its_rank_updates(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = shapes.DistributedDataParallel(mlp())
    own, others = list(model.module[0].parameters()), list(model.parameters())[2:]
    inner = torch.optim.Adam(own, lr=0.1)
    training = Training(model, shapes.LayerWiseDistributedOptimizer([shapes.FP32Optimizer(inner)], others))
    with watching(tmp_path, model, training.optimizer):
        training.run(3)
    assert names(tmp_path, "exp_avg", 2) == {"module.0.weight", "module.0.bias"}
    assert len(rows(tmp_path, "grad_reduced", 2)) == len(rows(tmp_path, "param_updated", 2)) == PARAMETERS_OF_MLP
    assert "keeps no exp_avg" not in capfd.readouterr().out


@pytest.mark.parametrize("overlaps", [False, True])
def test_training_keeps_its_bits_and_megatron_its_functions(tmp_path: Path, overlaps: bool) -> None:
    group = sys.modules[shapes.BUFFERS]._ParamAndGradBucketGroup
    before = dict(vars(group))
    trained = []
    for watches in (False, True):
        model = shapes.DistributedDataParallel(mlp(), overlaps)
        training = Training(model, shapes.FP32Optimizer(adam(model)))
        if watches:
            with watching(tmp_path, model, training.optimizer):
                training.run(3)
        else:
            training.run(3)
        trained.append((training.losses, [each.detach().clone() for each in model.parameters()]))
    (bare, weights), (watched_losses, watched_weights) = trained
    assert bare == watched_losses and same_tensors(weights, watched_weights)
    assert all(vars(group)[name] is each for name, each in before.items())


def test_groups_are_those_of_the_models_parameters_with_the_numbers_of_the_optimizer_inside() -> None:
    model = shapes.DistributedDataParallel(mlp())
    inner = adam(model)
    adapter = adapter_of(shapes.ChainedOptimizer([shapes.Float16OptimizerWithFloat16Params(inner)]))
    found = [each for group in adapter.groups() for each in group["params"]]
    assert [id(each) for each in found] == [id(each) for each in model.parameters()]
    inner.param_groups[0]["eps"] = 0.25
    assert adapter.groups()[0]["eps"] == 0.25


def test_a_stub_in_a_chain_is_left_out() -> None:
    stub = shapes.MegatronOptimizer(None)
    stub.is_stub_optimizer = True  # type: ignore[attr-defined]
    model = shapes.DistributedDataParallel(mlp())
    adapter = adapter_of(shapes.ChainedOptimizer([stub, shapes.FP32Optimizer(adam(model))]))
    assert sum(len(group["params"]) for group in adapter.groups()) == PARAMETERS_OF_MLP


@pytest.mark.parametrize("handed", ["a part of the chain", "torch's"])
def test_an_optimizer_inside_is_followed_by_the_steps_of_the_chain(tmp_path: Path, handed: str) -> None:
    model = shapes.DistributedDataParallel(mlp())
    inner = adam(model)
    part = shapes.DistributedOptimizer(inner)
    training = Training(model, shapes.ChainedOptimizer([part, shapes.DistributedOptimizer(none_of(model))]))
    with watching(tmp_path, model, part if handed == "a part of the chain" else inner) as monitor:
        training.run(3, overflows=1)
        assert monitor.status()["step"] == 3
    assert names(tmp_path, "exp_avg", 2) == {"module." + name for name in training.names[:-1]}
    assert steps_of(tmp_path, "param_updated") == [0, 2]
    assert "module." + LAST not in names(tmp_path, "grad_reduced", 2)


def none_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([{"params": [torch.nn.Parameter(torch.zeros(1))]}])


def test_a_rank_without_any_part_has_no_reduced_gradients(tmp_path: Path) -> None:
    model = shapes.DistributedDataParallel(mlp())
    inner = adam(model)
    optimizer = shapes.DistributedOptimizer(inner)
    optimizer.leave_all_to_others()
    training = Training(model, optimizer)
    with watching(tmp_path, model, optimizer):
        training.run(2)
    assert rows(tmp_path, "grad_reduced") == []
    assert len(rows(tmp_path, "grad_unreduced", 1)) == len(rows(tmp_path, "param_origin", 1)) == PARAMETERS_OF_MLP


def test_gradients_that_are_in_no_buffer_are_seen_by_hooks_on_the_parameters(tmp_path: Path) -> None:
    model = mlp()
    optimizer = shapes.FP32Optimizer(adam(model))
    optimizer.take_gradients = optimizer.give_weights = lambda: None  # type: ignore[method-assign]
    with watching(tmp_path, model, optimizer):
        for _ in range(2):
            model(torch.ones(5, 4)).pow(2).mean().backward()
            optimizer.step()
    assert len(rows(tmp_path, "grad_unreduced", 1)) == len(rows(tmp_path, "grad_reduced", 1)) == PARAMETERS_OF_MLP


def test_moments_of_few_bits_are_read_without_their_scale(tmp_path: Path) -> None:
    model = shapes.DistributedDataParallel(mlp())
    inner: Any = adam(model)
    inner.get_unscaled_state = lambda parameter, name: inner.state[parameter][name] * 8
    training = Training(model, shapes.FP32Optimizer(inner))
    with watching(tmp_path, model, training.optimizer):
        training.run(1)
        right = 8 * float(inner.state[model.module[0].weight]["exp_avg"].double().norm())
        training.run(1)
    assert value(rows(tmp_path, "exp_avg", 1), "module.0.weight", "norm") == pytest.approx(right)


@pytest.mark.parametrize("kind", ["whole", "in parts", "of experts"])
def test_a_rank_that_is_not_the_first_writes_the_reduced_gradients_that_others_have_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(ranks, "is_data_parallel_duplicate", lambda group: True)
    model = shapes.DistributedDataParallel(mlp())
    if kind == "of experts":
        model.module[0].weight.allreduce = False
    inner = adam(model)
    optimizer = shapes.DistributedOptimizer(inner) if kind == "in parts" else shapes.FP32Optimizer(inner)
    with watched(tmp_path, model, optimizer, dp_group=object(), **WG):
        Training(model, optimizer).run(1)
    written = {"whole": 0, "in parts": PARAMETERS_OF_MLP - 1, "of experts": 1}
    assert len(rows(tmp_path, "grad_reduced", 0)) == written[kind]
    assert len(rows(tmp_path, "grad_unreduced", 0)) == PARAMETERS_OF_MLP
