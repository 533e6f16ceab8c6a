"""Logs of training frameworks, before modules with the shapes of theirs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from jobs import lines_of_job, mlp, sgd_job, write_config

import stepwatch
import torch


class Run:
    """A watched model, and a framework that the program has imported before."""

    def __init__(self, folder: Path) -> None:
        self.model, self.optimizer = sgd_job(lr=0.125)
        self.folder = folder

    def watch(self) -> stepwatch.Watch:
        path = write_config(self.folder / "config.json", targets={}, dynamic_on=False)
        return stepwatch.watch(self.model, self.optimizer, config=path, dynamic=True, output_dir=self.folder / "out")


@pytest.fixture
def run(tmp_path: Path, runtime: Path) -> Run:
    return Run(tmp_path)


def numbers() -> list[dict[str, Any]]:
    return [line["beat"] for line in lines_of_job() if "lr" in line.get("beat", {})]


def put(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_the_trainer_of_transformers_reports_loss_phase_and_checkpoints(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    class CallbackHandler:
        def __init__(self, optimizer: Any) -> None:
            self.optimizer = optimizer

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any]) -> str:
            called.append("log")
            return "control"

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any) -> None:
            called.append("evaluate")

        def on_prediction_step(self, args: Any, state: Any, control: Any) -> None:
            called.append("prediction")

        def on_predict(self, args: Any, state: Any, control: Any, metrics: Any) -> None:
            called.append("predict")

        def on_step_begin(self, args: Any, state: Any, control: Any) -> None:
            called.append("begin")

    originals = dict(vars(CallbackHandler))
    put(monkeypatch, "transformers.trainer_callback", CallbackHandler=CallbackHandler)
    with run.watch():
        trainer = CallbackHandler(run.optimizer)
        run.optimizer.step()
        logs = {"loss": 2.5, "grad_norm": torch.tensor(1.5), "learning_rate": 1e-3, "epoch": 0.5}
        assert trainer.on_log(None, None, None, logs) == "control"
        assert trainer.on_log(None, None, None, logs=logs) == "control"
        trainer.on_log(None, None, None, {"eval_loss": 3})
        trainer.on_prediction_step(None, None, None)
        trainer.on_prediction_step(None, None, None)
        trainer.on_evaluate(None, None, None, {})
        for end in (lambda: trainer.on_predict(None, None, None, {}), lambda: trainer.on_step_begin(None, None, None)):
            trainer.on_prediction_step(None, None, None)
            end()
        CallbackHandler(torch.optim.SGD(mlp().parameters(), lr=1)).on_log(None, None, None, {"loss": 99})
        found = numbers()
        assert found[0] == {"step": 0, "phase": "train", "loss": 2.5, "grad_norm": 1.5, "lr": 1e-3, "epoch": 0.5}
        assert [beat["loss"] for beat in found] == [2.5, 2.5]
        phases = [line["beat"]["phase"] for line in lines_of_job() if "beat" in line]
        assert phases[-6:] == ["eval", "train"] * 3
    evaluations = ["prediction", "prediction", "evaluate", "prediction", "predict", "prediction", "begin"]
    assert called == ["log", "log", "log", *evaluations, "log"]
    for name in ("on_log", "on_evaluate", "on_prediction_step", "on_predict", "on_step_begin"):
        assert vars(CallbackHandler)[name] is originals[name]


class FrameworkJob:
    """The frameworks' work beside training, in functions of the shapes of theirs."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.optimizers = [optimizer]
        self.trainer = self

    def work(self, fails: bool = False, **_: Any) -> int:
        if fails:
            raise RuntimeError("no space left")
        return 7


LIGHTNINGS = ["lightning.pytorch", "pytorch_lightning"]
PHASED = [
    ("transformers.trainer", "Trainer", "_save_checkpoint", "checkpoint"),
    *[(package + ".trainer.trainer", "Trainer", "save_checkpoint", "checkpoint") for package in LIGHTNINGS],
    *[(package + ".loops.evaluation_loop", "_EvaluationLoop", "run", "eval") for package in LIGHTNINGS],
    ("megatron.training.training", None, "save_checkpoint", "checkpoint"),
    ("megatron.training.training", None, "evaluate", "eval"),
]


@pytest.mark.parametrize(("module", "owner", "function", "phase"), PHASED)
def test_checkpoints_and_evaluations_of_frameworks_are_phases_of_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, module: str, owner: str | None, function: str, phase: str
) -> None:
    shape: Any = type("Shape", (FrameworkJob,), {function: FrameworkJob.work})
    job = shape(run.optimizer)
    content = {function: job.work} if owner is None else {owner: shape}
    put(monkeypatch, module, **content)
    place: Any = sys.modules[module] if owner is None else shape
    original = vars(place)[function]
    with run.watch():
        work: Any = getattr(place if owner is None else job, function)
        run.optimizer.step()
        assert work() == 7
        with pytest.raises(RuntimeError, match="no space left"):
            work(fails=True)
        found = lines_of_job()
        assert [line["beat"]["phase"] for line in found if "beat" in line][-4:] == [phase, "train"] * 2
        complete = [line["event"] for line in found if line.get("event", {}).get("kind") == "checkpoint"]
        assert complete == ([{"kind": "checkpoint", "step": 0}] if phase == "checkpoint" else [])
        stranger = shape(torch.optim.SGD(mlp().parameters(), lr=1))
        if owner is not None:
            assert getattr(stranger, function)() == 7
            assert len(lines_of_job()) == len(found)
    assert vars(place)[function] is original


@pytest.mark.parametrize("package", LIGHTNINGS)
def test_the_trainer_of_lightning_reports_its_logs(run: Run, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    class _LoggerConnector:  # noqa: N801
        def __init__(self, trainer: Any) -> None:
            self.trainer = trainer

        def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> int:
            return 7

    put(
        monkeypatch,
        package + ".trainer.connectors.logger_connector.logger_connector",
        _LoggerConnector=_LoggerConnector,
    )
    with run.watch():
        wrapped = SimpleNamespace(_optimizer=run.optimizer)
        connector = _LoggerConnector(SimpleNamespace(training=True, optimizers=[wrapped]))
        run.optimizer.step()
        assert connector.log_metrics({"train_loss": 2.5, "accuracy": torch.tensor(0.5)}, step=0) == 7
        connector.trainer.training = False
        connector.log_metrics({"val_loss": 3})
        (beat,) = numbers()
        assert beat == {"step": 0, "phase": "train", "train_loss": 2.5, "accuracy": 0.5, "loss": 2.5, "lr": 0.125}


def test_megatron_s_training_log_reports_loss_and_rate_whatever_the_order_of_its_parameters(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def training_log(  # as its versions have it, of which some have more
        loss_dict: dict[str, Any],
        total_loss_dict: dict[str, Any],
        learning_rate: float,
        iteration: int,
        loss_scale: float,
        report_memory_flag: bool,
        skipped_iter: int,
        grad_norm: float | None,
        params_norm: float | None = None,
    ) -> bool:
        return False

    module = put(monkeypatch, "megatron.training.training", training_log=training_log)
    with run.watch():
        run.optimizer.step()
        losses = {"lm loss": torch.tensor(2.5), "moe loss": torch.tensor(0.25)}
        assert module.training_log(losses, {}, 1e-3, 1, 65536.0, False, 0, grad_norm=1.5) is False
        (beat,) = numbers()
        assert beat["loss"] == 2.5
        assert beat["moe_loss"] == 0.25
        assert beat["lr"] == 1e-3
        assert beat["grad_norm"] == 1.5
        assert beat["loss_scale"] == 65536
        assert "params_norm" not in beat
    assert module.training_log is training_log


def test_a_framework_of_another_shape_is_left_alone_and_its_logs_never_fail(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CallbackHandler:
        def on_log(self, *everything: Any) -> str:
            return "mine"

    put(monkeypatch, "transformers.trainer_callback", CallbackHandler=CallbackHandler)
    put(monkeypatch, "megatron.training", training_log="no function")
    put(monkeypatch, "pytorch_lightning.trainer.connectors.logger_connector.logger_connector")
    with run.watch():
        assert CallbackHandler().on_log() == "mine"
        assert CallbackHandler().on_log(1, 2, 3, "no dict") == "mine"
        run.optimizer.step()
        assert numbers() == []
