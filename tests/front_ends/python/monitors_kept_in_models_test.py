"""A monitor that is kept in what is trained is copied and saved with it; the copy does nothing, and loads anywhere."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import io
import pickle
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs import mlp, rows, sgd_job, train, watched, write_config

import python_programs
import stepwatch
import torch
from stepwatch.control_socket import JobError, JobUnreachableError
from stepwatch.core.monitor import utils
from stepwatch.jobs import Job
from stepwatch.offline import anomaly_processor, csv2db
from stepwatch.pytorch.monitor import module_hook

# These hold nothing of a monitor, and are copied and saved as they are.
DATA = [
    Job("/tmp/1-1.sock"),
    JobError("no", status=412, code="changed"),
    JobUnreachableError("gone"),
    anomaly_processor.AnomalyAnalyse(),
    anomaly_processor.AnomalyDataFactory(0, 0, [0]),
    anomaly_processor.AnomalyDataLoader("."),
    anomaly_processor.AnomalyDataWriter(".", 0),
    anomaly_processor.AnomalyNan(),
    anomaly_processor.AnomalyScanner(),
    anomaly_processor.AnomalyTurbulence(0.5),
    anomaly_processor.GradAnomalyData(tag_name="fc/actv"),
    anomaly_processor.ScanRule(),
    csv2db.CSV2DBConfig("."),
    module_hook.CommunicationContext(),
    module_hook.FeatureHookContext("fc"),
    module_hook.GradContext(),
    module_hook.ModuleHookContext("fc"),
    module_hook.OptimizerContext(),
    utils.MVResult(1, 2, 3, 4),
    utils.MsgConst(),
]

SAVED: dict[str, Callable[[Any], bytes]] = {
    "2": lambda kept: pickle.dumps(kept, 2),
    "3": lambda kept: pickle.dumps(kept, 3),
    "4": lambda kept: pickle.dumps(kept, 4),
    "5": lambda kept: pickle.dumps(kept, 5),
    "torch": lambda kept: _torch_bytes(kept),
}
COPIED: dict[str, Callable[[Any], Any]] = {"shallow": copy.copy, "deep": copy.deepcopy}

# Loads in an interpreter without Stepwatch, calls each method, and saves and copies once more.
ELSEWHERE = """
import copy, io, pickle, sys
sys.modules["stepwatch"] = None  # importing it fails
import torch
for argument in sys.argv[1:]:
    path, _, names = argument.partition("=")
    data = open(path, "rb").read()
    kept = torch.load(io.BytesIO(data), weights_only=False) if path.endswith("torch") else pickle.loads(data)
    for found in kept, copy.deepcopy(kept), pickle.loads(pickle.dumps(kept)):
        for name in filter(None, names.split(",")):
            assert not getattr(found, name)(3, loss=1.0), (argument, name)
        if not names:
            with found:
                pass
"""

TRAINS_ELSEWHERE = """
import sys
sys.modules["stepwatch"] = None
import torch
model = torch.load(sys.argv[1], weights_only=False)
with model.evaluation:
    model(torch.ones(2, 4)).sum().backward()
model.report(loss=1.0)
model.monitor.reporter.checkpoint()
model.monitor.close()
"""


def _torch_bytes(kept: Any) -> bytes:
    file = io.BytesIO()
    torch.save(kept, file)
    return file.getvalue()


def _public_classes() -> set[type]:
    """Return the classes that the package and the modules with msProbe's names hand out."""
    modules = [stepwatch]
    for package in map(importlib.import_module, ("stepwatch.pytorch", "stepwatch.core")):
        inside = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
        modules += [package, *(importlib.import_module(module.name) for module in inside)]
    names = [(module, name) for module in modules for name in getattr(module, "__all__", dir(module))]
    values = [getattr(module, name) for module, name in names if not name.startswith("_")]
    return {value for value in values if inspect.isclass(value) and value.__module__.startswith("stepwatch")}


def _public_names(kept: Any) -> list[str]:
    return [name for name in dir(kept) if not name.startswith("_")]


def _methods(kept: Any) -> list[str]:
    return [name for name in _public_names(kept) if callable(getattr(type(kept), name, None))]


def _of_every_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any, optimizer: Any) -> dict[type, Any]:
    """Return what can be kept in a model, in use."""
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "of_trainer_mon"))
    monitor = watched(tmp_path, model, optimizer, wg_distribution=True)
    trainer_mon = stepwatch.TrainerMon(write_config(tmp_path / "other.json", wg_distribution=True))
    trainer_mon.set_monitor(model, optimizer)
    trainer_mon.set_wrapped_optimizer(optimizer)
    phase = stepwatch.phase("eval")
    phase.__enter__()
    part = stepwatch.part("data")
    part.__enter__()
    found = (monitor, trainer_mon, monitor.reporter, phase, part)
    return {type(kept): kept for kept in found}


def _answers(kept: Any, but: frozenset[str]) -> dict[str, Any]:
    """Return what each method answers."""
    model = mlp()
    arguments = {
        "model": model,
        "module": model[0],
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "numbers": {"loss": 1.0},
        "step": 0,
        "kind": "grad_reduced",
        "part": 0,
        "phase": "train",
        "expires": None,
        "before": None,
        "target_tensor": torch.ones(2),
        "rank_list": [],
        "ops_list": ["norm"],
        "cc_tensor": module_hook.CommunicationContext(),
        "ends_run": False,
        **dict.fromkeys(("message", "stack", "fingerprint", "key", "text"), "text"),
        **dict.fromkeys(("module_name", "tensor_name", "cc_name"), "name"),
    }
    answers = {}
    for name in _methods(kept):
        if name in but:
            continue
        needed = [
            parameter.name
            for parameter in inspect.signature(getattr(kept, name)).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        ]
        answers[name] = getattr(kept, name)(*(arguments[each] for each in needed))
    return answers


def _close(kept: dict[type, Any]) -> None:
    kept[stepwatch.part].__exit__(None, None, None)
    kept[stepwatch.phase].__exit__(None, None, None)
    kept[stepwatch.TrainerMon].close()
    kept[stepwatch.Watch].close()


# Each begins to watch: a copied TrainerMon does, a copied Watch reports that it cannot, one that is closed raises.
BEGIN = frozenset(["attach", "set_monitor", "monitor_gnorm_with_ad"])


def test_no_public_class_is_forgotten_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    kept = _of_every_class(tmp_path, monkeypatch, model, torch.optim.SGD(model.parameters(), lr=0.1))
    known = {*kept, *map(type, DATA)}
    assert _public_classes() <= known
    for monitor in (kept[stepwatch.Watch], kept[stepwatch.TrainerMon]):
        attributes = [type(getattr(monitor, name)) for name in _public_names(monitor)]
        assert {kind for kind in attributes if kind.__module__.startswith("stepwatch")} <= known
    _close(kept)


@pytest.mark.parametrize("way", COPIED)
def test_a_copy_does_nothing_and_the_original_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    model, optimizer = sgd_job()
    kept = _of_every_class(tmp_path, monkeypatch, model, optimizer)
    train(model, optimizer, 1)
    copies = {kind: COPIED[way](each) for kind, each in kept.items()}
    answers = {}
    for kind, each in copies.items():
        assert type(each) is kind
        answers[kind] = _answers(COPIED[way](each), BEGIN)  # a copy is copied as well
        assert _answers(each, BEGIN) == answers[kind]
    with copies[stepwatch.part], copies[stepwatch.phase], copies[stepwatch.Watch] as entered:
        assert entered is copies[stepwatch.Watch]
    train(model, optimizer, 2)
    assert kept[stepwatch.Watch].status()["step"] == 3
    kept[stepwatch.Watch].reporter.warn_once("text", "printed by a copy as well")
    _close(kept)
    assert "printed by a copy as well" in capfd.readouterr().out
    for base in (tmp_path, tmp_path / "of_trainer_mon"):
        assert [row["step"] for row in rows(base, "grad_reduced") if row["name"] == "0.weight"] == ["0", "1", "2"]

    unused = mlp()
    closed = watched(tmp_path / "of_trainer_mon", unused, torch.optim.SGD(unused.parameters(), lr=0.1))
    closed.close()
    expected = {**closed.status(), "output_dir": ""}
    assert answers[stepwatch.Watch] == {**_answers(closed, BEGIN), "status": expected}
    assert answers[stepwatch.TrainerMon] == _answers(kept[stepwatch.TrainerMon], BEGIN)


@pytest.mark.parametrize("way", COPIED)
def test_copies_begin_to_watch_where_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    model = mlp()
    kept = _of_every_class(tmp_path, monkeypatch, model, torch.optim.SGD(model.parameters(), lr=0.1))
    other = mlp()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    COPIED[way](kept[stepwatch.Watch]).attach(other, optimizer)
    train(other, optimizer, 1)
    assert "a copy of a monitor does not watch a model" in capfd.readouterr().out
    trainer_mon = COPIED[way](kept[stepwatch.TrainerMon])
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "of_copy"))
    trainer_mon.set_monitor(other, optimizer)
    train(other, optimizer, 2)
    trainer_mon.close()
    _close(kept)
    assert rows(tmp_path, "grad_reduced") == rows(tmp_path / "of_trainer_mon", "grad_reduced") == []
    assert {row["step"] for row in rows(tmp_path / "of_copy", "grad_reduced")} == {"0", "1"}


def test_a_pickle_loads_without_stepwatch_and_does_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mlp()
    kept = _of_every_class(tmp_path, monkeypatch, model, torch.optim.SGD(model.parameters(), lr=0.1))
    saved = []
    for kind, each in kept.items():
        for way, save in SAVED.items():
            path = tmp_path / f"{kind.__name__}.{way}"
            path.write_bytes(save(each))
            saved.append(f"{path}={','.join(_methods(each))}")
    _close(kept)
    loaded = python_programs.run(["-c", ELSEWHERE, *saved])
    assert loaded.returncode == 0, loaded.stderr
    trainer_mon = pickle.loads(pickle.dumps(kept[stepwatch.TrainerMon]))
    assert trainer_mon.summary_writer is trainer_mon
    assert not trainer_mon.monitoring and trainer_mon.rank == 0
    for kind in (stepwatch.phase, stepwatch.part):
        assert isinstance(pickle.loads(pickle.dumps(kept[kind])), contextlib.nullcontext)


@pytest.mark.parametrize("data", DATA, ids=lambda data: type(data).__name__)
def test_data_is_copied_and_saved_as_it_is(data: Any) -> None:
    for other in (copy.copy(data), copy.deepcopy(data), *(pickle.loads(pickle.dumps(data, each)) for each in (2, 5))):
        assert type(other) is type(data)
        assert other == data or vars(other) == vars(data)


def _fit(model: Any, optimizer: Any, steps: int) -> None:
    """Train a model, and use all that it keeps."""
    for _ in range(steps):
        loss = model(torch.ones(2, 4)).pow(2).mean()
        loss.backward()
        model.report(loss=loss)
        model.monitor.reporter.checkpoint()
        with model.evaluation:
            model.monitor.begin_micro_batch()
        optimizer.step()
        optimizer.zero_grad()


def _keeping(tmp_path: Path, dynamic: bool) -> tuple[Any, Any]:
    """Return a watched model that keeps its monitor, a method of that and a phase, and its optimizer."""
    model: Any = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    config = write_config(tmp_path / "config.json", dynamic_on=True, xy_distribution=True, wg_distribution=True)
    model.monitor = stepwatch.watch(model, optimizer, config, dynamic=dynamic, output_dir=tmp_path)
    model.report = model.monitor.report
    model.evaluation = stepwatch.phase("eval")
    model.monitor.refresh()
    _fit(model, optimizer, 3)
    assert model.monitor.status()["collected"] > 0
    return model, optimizer


MODELS: dict[str, Callable[[Any], Any]] = {
    "deep": copy.deepcopy,
    "averaged": lambda model: torch.optim.swa_utils.AveragedModel(model).module,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "saved": lambda model: torch.load(io.BytesIO(_torch_bytes(model)), weights_only=False),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("way", MODELS)
def test_a_watched_model_that_keeps_its_monitor_is_copied(tmp_path: Path, way: str, dynamic: bool) -> None:
    model, optimizer = _keeping(tmp_path, dynamic)
    other = MODELS[way](model)
    _fit(other, torch.optim.AdamW(other.parameters()), 2)
    other.monitor.close()
    _fit(model, optimizer, 2)
    model.monitor.close()
    for kind, name in (("grad_reduced", "0.weight"), ("actv", "0.input")):
        written = [row["step"] for row in rows(tmp_path, kind) if row["name"] == name]
        assert written == [str(step) for step in range(1 if dynamic else 0, 5)]


def test_a_saved_model_that_keeps_its_monitor_trains_without_stepwatch(tmp_path: Path) -> None:
    model, _ = _keeping(tmp_path, dynamic=False)
    path = tmp_path / "model.pt"
    torch.save(model, path)
    model.monitor.close()
    loaded = python_programs.run(["-c", TRAINS_ELSEWHERE, str(path)])
    assert loaded.returncode == 0, loaded.stderr
