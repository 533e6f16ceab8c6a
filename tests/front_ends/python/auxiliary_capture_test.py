"""The parts of a plan beside tensors: features of layers, call stacks, the structure, other statistics in a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from jobs import mlp, names, rows, sgd_job, stacks, steps_of, train, watched, write_config

import torch
from stepwatch import TrainerMon
from stepwatch.features import l2_features

pytestmark = pytest.mark.usefixtures("output_in_tmp_path")


class Core(torch.nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return value


class Routed(torch.nn.Module):
    """A layer, attention's core and a router."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.fc, self.core, self.router = torch.nn.Linear(4, 8), Core(), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.fc(x)
        heads = hidden.view(5, 1, 2, 4)
        return self.router(self.core(heads, heads, heads).reshape(5, 8))


def monitored(tmp_path: Path, model: torch.nn.Module, optimizer: Any, **config: Any) -> TrainerMon:
    monitor = TrainerMon(write_config(tmp_path / "config.json", **config))
    monitor.set_monitor(model, optimizer, grad_acc_steps=2)
    return monitor


ALL_FEATURES = {
    "recording_l2_features": True,
    "l2_targets": {
        "attention_hook": ["core"],
        "linear_hook": [],
        "moe_router_weight_hook": ["router"],
        "moe_router_logit_hook": ["router"],
    },
}


def test_features_of_each_module_stand_in_files_of_their_kind(tmp_path: Path) -> None:
    model, optimizer = sgd_job(Routed())
    seen: list[torch.Tensor] = []
    model.fc.register_forward_hook(lambda _, args, output: seen.append(output.detach().clone()))
    monitor = monitored(tmp_path, model, optimizer, **ALL_FEATURES)
    weight = model.fc.weight.detach().clone()
    train(model, optimizer, 2, micro_batches=2)
    monitor.close()

    attention = rows(tmp_path, "attention_hook", 0)
    assert [(row["name"], row["micro_step"]) for row in attention] == [("core.attention", "0"), ("core.attention", "1")]
    heads = seen[1].view(5, 1, 2, 4)
    expected = l2_features.attention((heads, heads), batch_first=False)
    assert float(attention[1]["entropy"]) == pytest.approx(float(expected[0]))
    assert float(attention[1]["softmax_max"]) == pytest.approx(float(expected[1]))

    linear = {row["name"]: row for row in rows(tmp_path, "linear_hook", 0)}
    assert set(linear) == {"fc.linear", "router.linear"}
    sigma = torch.linalg.matrix_norm(weight, 2)
    assert float(linear["fc.linear"]["kernel_norm"]) == pytest.approx(float(sigma), rel=1e-4)
    assert float(linear["fc.linear"]["sr"]) == pytest.approx(float(weight.norm() / sigma), rel=1e-4)

    assert [row["name"] for row in rows(tmp_path, "moe_router_weight_hook", 1)] == ["router.moe_router"]
    logits = rows(tmp_path, "moe_router_logit_hook", 1)
    assert [row["micro_step"] for row in logits] == ["0", "1"]
    assert all(0 < float(row["per_token_expert_entropy"]) <= math.log(4) for row in logits)


def test_the_forward_that_a_checkpoint_repeats_gives_no_second_feature(tmp_path: Path) -> None:
    class Checkpointed(Routed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)

    model, optimizer = sgd_job(Checkpointed())
    monitor = monitored(tmp_path, model, optimizer, **ALL_FEATURES)
    train(model, optimizer, 1, micro_batches=2)
    monitor.close()
    assert [row["micro_step"] for row in rows(tmp_path, "moe_router_logit_hook")] == ["0", "1"]


def test_a_feature_that_cannot_be_computed_is_reported_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(weight: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such norm")

    monkeypatch.setattr(l2_features, "linear", broken)
    model, optimizer = sgd_job(Routed())
    monitor = monitored(tmp_path, model, optimizer, **ALL_FEATURES)
    train(model, optimizer, 2)
    monitor.close()
    assert capfd.readouterr().out.count("no such norm") == 1
    assert rows(tmp_path, "attention_hook", 1) and not rows(tmp_path, "linear_hook")


def test_call_stacks_of_the_modules_that_ran_are_written_once(tmp_path: Path) -> None:
    model = Routed()
    model.unused = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = monitored(tmp_path, model, optimizer, stack_info=True, wg_distribution=True)
    train(model, optimizer, 1)
    assert not model.fc._forward_hooks
    train(model, optimizer, 1)
    monitor.close()
    table = stacks(tmp_path)
    assert set(table) == {"0:", "0:fc", "0:core", "0:router"}
    assert "hidden = self.fc(x)" in table["0:fc"] and f"File {__file__}, line" in table["0:fc"]


def test_call_stacks_of_a_model_that_has_grown_in_mid_step_have_the_names_of_its_modules(tmp_path: Path) -> None:
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4)), torch.nn.Linear(4, 2)))
    with watched(tmp_path, model, optimizer, stack_info=True, wg_distribution=True) as monitor:
        model(torch.ones(5, 4)).sum().backward()
        model[0].append(torch.nn.Linear(4, 4))
        monitor.attach(model, optimizer)
        train(model, optimizer, 2)
    assert sorted(stacks(tmp_path)) == ["0:", "0:0", "0:0.0", "0:0.1", "0:1"]


def test_statistics_set_in_a_run_hold_from_the_next_step(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = monitored(tmp_path, model, optimizer, wg_distribution=True, ops=["norm"])
    assert monitor.ops == ["norm", "shape", "dtype"]

    def change(step: int) -> None:
        if step == 2:
            monitor.ops = ["max", "min", "nonsense"]

    train(model, optimizer, 4, before_step=change)
    assert monitor.ops == ["max", "min", "shape", "dtype"]
    monitor.close()
    columns = [list(row) for step in range(4) for row in rows(tmp_path, "grad_reduced", step)[:1]]
    assert [names[3:-2] for names in columns] == [["norm"], ["norm"], ["max", "min"], ["max", "min"]]


def test_statistics_set_before_the_model_is_known_hold_from_the_first_step(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = TrainerMon(write_config(tmp_path / "config.json", wg_distribution=True))
    monitor.ops = ["mean"]
    monitor.set_monitor(model, optimizer)
    train(model, optimizer, 1)
    monitor.close()
    assert list(rows(tmp_path, "grad_reduced")[0])[3:] == ["mean", "shape", "dtype"]
    with pytest.raises(TypeError, match="list"):
        monitor.ops = "norm"


def test_activations_can_be_switched_on_and_off_in_a_run(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = monitored(tmp_path, model, optimizer, wg_distribution=True)
    train(model, optimizer, 4, before_step=lambda step: monitor.reload_xy(step == 1) if step in (1, 3) else None)
    monitor.close()
    assert steps_of(tmp_path, "actv") == [1, 2]
    assert len(names(tmp_path, "actv", 1)) == 2 * len(list(model.modules()))
    assert steps_of(tmp_path, "grad_reduced") == [0, 1, 2, 3]


def test_metrics_are_tensors_of_every_micro_batch(tmp_path: Path) -> None:
    model, optimizer = sgd_job()
    monitor = monitored(tmp_path, model, optimizer, xy_distribution=True)
    train(model, optimizer, 1, micro_batches=2)
    activations, gradients = monitor.generate_xy_metrics()
    monitor.close()
    for micro_step in (0, 1):
        values = activations[f"0:3.output:{micro_step}/rank0/actv"]
        assert (values["norm"].dtype, values["max"].dtype) == (torch.float64, torch.float32)
        assert (values["nans"].dtype, values["zeros"].dtype) == (torch.int64, torch.float32)
        assert (values["shape"], values["dtype"]) == (torch.Size([5, 2]), torch.float32)
        assert f"0:3.output:{micro_step}/rank0/actv_grad" in gradients


def test_a_tensor_can_be_measured_at_once(tmp_path: Path) -> None:
    monitor = TrainerMon(write_config(tmp_path / "config.json"))
    monitor.adhoc_check(torch.tensor([3.0, -4.0]), "block", "mask", [], ["norm", "min", "max", "mean"])
    monitor.adhoc_check(torch.ones(1), "block", "elsewhere", [5], ["norm"])
    found = {name: float(value) for name, value in monitor.adhoc_metrics["block/mask"].items()}
    assert found == {"norm": 5, "min": -4, "max": 3, "mean": -0.5}
    assert set(monitor.adhoc_metrics) == {"block/mask"}


def test_parameters_added_in_quiet_steps_are_watched_from_the_first_collected_step(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"old": mlp(), "new": torch.nn.Linear(2, 2)})
    optimizer = torch.optim.SGD(model["old"].parameters(), lr=0.1)
    monitor = TrainerMon(write_config(tmp_path / "config.json", param_distribution=True, start_step=6))
    monitor.set_monitor(model, optimizer)
    for step in range(8):
        if step == 4:
            optimizer.add_param_group({"params": list(model["new"].parameters())})
        model["new"](model["old"](torch.ones(3, 4))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    monitor.close()
    table = rows(tmp_path, "param_updated")
    assert {int(row["step"]) for row in table} == {6, 7}
    names = [name for name, _ in model.named_parameters()]
    assert sorted(row["name"] for row in table if row["step"] == "6") == sorted(names)
