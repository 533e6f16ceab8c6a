"""The real InternEvo on the replacement of its monitor: the same names, and its call sites with one import changed."""

from __future__ import annotations

import ast
import collections
import importlib
import importlib.util
import inspect
import math
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import torch
from stepwatch.compat import internevo
from stepwatch.compat.internevo import alert, monitor, utils

INTERNLM = importlib.util.find_spec("internlm")
pytestmark = pytest.mark.skipif(INTERNLM is None, reason="InternEvo is not installed")
WEBHOOK = "http://127.0.0.1:9/hook"
OURS = {"alert": alert, "monitor": monitor, "utils": utils}


def folder() -> Path:
    assert INTERNLM is not None and INTERNLM.submodule_search_locations
    return Path(INTERNLM.submodule_search_locations[0])


class Config(dict):  # type: ignore[type-arg]
    __getattr__ = dict.__getitem__


class Context:
    """InternEvo's global context of a job of one rank."""

    config = Config(
        JOB_NAME="7b_train",
        monitor=Config(
            alert=Config(enable_feishu_alert=True, feishu_alert_address=WEBHOOK, light_monitor_address=None)
        ),
    )

    def __getattr__(self, name: str) -> Any:
        return {"get_global_rank": lambda: 0, "get_world_size": lambda _: 1}.get(name, lambda: True)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    """Let InternEvo's modules be imported one by one, without those that need CUDA."""

    def stub(name: str, **names: Any) -> None:
        module = types.ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)

    for name in list(sys.modules):
        if name.partition(".")[0] == "internlm":
            monkeypatch.delitem(sys.modules, name)
    found = Context()
    stub("internlm", __path__=[str(folder())])
    stub("internlm.core", __path__=[])
    stub("internlm.core.context", global_context=found)
    stub("internlm.utils", __path__=[str(folder() / "utils")])
    stub("internlm.utils.common", SingletonMeta=type(monitor.MonitorManager))
    return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the messages to Feishu, instead of sending them."""
    messages: list[str] = []
    for name in ("JOB_NAME", "LAST_ACTIVE_TIMESTAMP", "LOSS", "STEP_ID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(alert, "queue_feishu_message", lambda webhook, title, message: messages.append(message))
    yield messages
    monitor.monitor_manager.stop_monitor()


def functions_of(tree: ast.AST, prefix: str = "") -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found.update(functions_of(node, f"{node.name}."))
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            found[prefix + node.name] = node
    return found


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_function_of_the_module_has_a_replacement_with_its_parameters(name: str) -> None:
    for path, node in functions_of(ast.parse((folder() / "monitor" / f"{name}.py").read_text())).items():
        ours: Any = OURS[name]
        for part in path.split("."):
            ours = getattr(ours, part)
        parameters = list(inspect.signature(ours).parameters)
        theirs = [argument.arg for argument in node.args.args]
        assert parameters[: len(theirs)] == theirs, path


def test_every_name_of_the_package_has_a_replacement(context: Context) -> None:
    names = importlib.import_module("internlm.monitor").__all__
    assert names and set(names) <= set(internevo.__all__)


def test_internevos_own_manager_runs_on_our_alerts_and_utils(
    context: Context, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = types.ModuleType("internlm.monitor")
    package.__path__ = [str(folder() / "monitor")]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "internlm.monitor", package)
    monkeypatch.setitem(sys.modules, "internlm.monitor.alert", alert)
    monkeypatch.setitem(sys.modules, "internlm.monitor.utils", utils)
    posted: list[str] = []
    monkeypatch.setattr(alert, "send_feishu_msg_with_webhook", lambda webhook, title, message: posted.append(title))
    theirs = importlib.import_module("internlm.monitor.monitor")
    theirs.send_alert_message(address=WEBHOOK, message="a text")
    assert posted == [utils.get_job_key()]


def call_site(context: Context, file: str, name: str, **names: Any) -> Any:
    """Return a function of InternEvo whose imports from `internlm.monitor` are replaced by ours."""
    tree = ast.parse((folder() / file).read_text())
    node = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    node.decorator_list = []
    imported: dict[str, Any] = {}
    for each in tree.body:
        if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("internlm.monitor"):
            each.module = (each.module or "").replace("internlm.monitor", "stepwatch.compat.internevo")
            exec(compile(ast.Module([each], []), file, "exec"), imported)
    assert "__builtins__" in imported and len(imported) > 1
    space = {**imported, "gpc": context, "torch": torch, "time": time, "math": math, **names}
    exec(compile(ast.Module([node], []), file, "exec"), space)
    return space[name]


class Anything:
    """Has every attribute, takes every call, and is 1 as a number."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __round__(self, *_: Any) -> int:
        return 1


def test_the_metrics_of_a_step_are_recorded(context: Context, sent: list[str]) -> None:
    record = call_site(
        context, "train/pipeline.py", "record_current_batch_training_metrics", timer=Anything(), ParallelMode=Anything()
    )
    statistic: dict[str, Any] = collections.defaultdict(float)
    statistic.update(SMA_tg_50_list=collections.deque(), SMA_time_50_list=collections.deque())
    train_state = types.SimpleNamespace(
        num_consumed_tokens=0, step_count=0, inf_nan_skip_batches=0, tgs_statistic=statistic
    )
    optimizer = types.SimpleNamespace(param_groups=[{"lr": 1e-4}])
    monitor.monitor_manager.start_monitor("7b_train", WEBHOOK)
    for number, loss in enumerate([2.0, 2.0, 2.0, math.nan, math.nan, 2.0]):
        record(
            get_tflops_func=lambda _: 1.0,
            logger=Anything(),
            writer=Anything(),
            success_update=True,
            batch_count=number,
            batch=[{"cu_seqlens": [torch.tensor([0, 4, 8])]}, torch.zeros(1, 8)],
            train_state=train_state,
            optimizer=optimizer,
            beta2_scheduler=Anything(),
            trainer=Anything(),
            start_time=time.time() - 1,
            loss=torch.tensor(loss),
            moe_loss=None,
            grad_norm={"0_default": 1.0},
            metric=types.SimpleNamespace(get_metric=lambda: {"real_token_num": 8, "acc": 0.5}),
        )
    assert [text.split(" at step")[0] for text in sent] == ["The loss is nan", "The loss is a number again: 2"]


def test_the_stop_file_is_announced_once(
    context: Context, sent: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "broadcast", lambda tensor, src: None)
    monkeypatch.setattr(monitor, "_stop_notices", monitor.StopNotices())
    handler = call_site(
        context,
        "checkpoint/checkpoint_manager.py",
        "quit_signal_handler",
        CheckpointSaveType=Anything(),
        get_current_device=lambda: "cpu",
    )
    stop = tmp_path / "stop"
    stop.write_text("12")
    manager = types.SimpleNamespace(stop_file_path=str(stop), feishu_address=WEBHOOK)
    stops = [handler(manager, types.SimpleNamespace(step_count=step))[0] for step in range(5, 13)]
    assert stops == [False] * 7 + [True]
    assert len(sent) == 1 and "Stop at step_count 12" in sent[0]
