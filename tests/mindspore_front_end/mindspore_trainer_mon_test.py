"""The rows of stepwatch.mindspore.TrainerMon, with MindSpore or with a fake of the same shape."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mindspore
import numpy
import pytest
from mindspore import Tensor, nn, ops

from stepwatch.mindspore import TrainerMon

_ALL = {
    "xy_distribution": True,
    "all_xy": True,
    "wg_distribution": True,
    "param_distribution": True,
    "mv_distribution": True,
    "ops": ["norm", "mean", "min", "max", "zeros"],
}


class _Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 6)
        self.shared = nn.Dense(6, 6)
        self.last = nn.Dense(6, 2)

    def construct(self, x: Any, factor: Any = 1.0) -> Any:
        x = ops.tanh(self.first(x))
        x = self.shared(self.shared(x))
        return self.last(x) * factor


class _Job:
    """A model, its optimizer and one step of training."""

    def __init__(self) -> None:
        numpy.random.seed(1)
        mindspore.set_seed(1)
        self.net = _Net()
        self.optimizer = nn.Adam(self.net.trainable_params(), 0.01)
        self._value_and_grad = mindspore.value_and_grad(self._loss, None, self.optimizer.parameters)
        self._random = numpy.random.RandomState(2)
        self.gradients: Any = None

    def _loss(self, x: Any, y: Any) -> Any:
        difference = self.net(x) - y
        return (difference * difference).mean()

    def backward(self) -> tuple[Any, ...]:
        x = Tensor(self._random.randn(3, 4).astype(numpy.float32))
        y = Tensor(self._random.randn(3, 2).astype(numpy.float32))
        _, self.gradients = self._value_and_grad(x, y)
        return self.gradients

    def step(self) -> None:
        self.optimizer(self.backward())

    def weights(self) -> list[bytes]:
        return [parameter.asnumpy().tobytes() for parameter in self.net.trainable_params()]


def _write(tmp_path: Path, **config: Any) -> Path:
    path = tmp_path / "config.json"
    new = tmp_path / "config.json.new"
    new.write_text(json.dumps({"format": "csv", **config}))
    os.replace(new, path)
    return path


def _watched(job: _Job, path: Path, **options: Any) -> TrainerMon:
    monitor = TrainerMon(path)
    monitor.set_monitor(job.net, job.optimizer, **options)
    return monitor


def _rows(monitor: TrainerMon, kind: str) -> list[dict[str, str]]:
    assert monitor._watch.flush()
    found = []
    for path in sorted(Path(monitor.tensorboard_dir).glob(f"{kind}_[0-9]*.csv")):
        with path.open(newline="") as file:
            found += list(csv.DictReader(file))
    return found


def _check(row: dict[str, str], values: Any) -> None:
    values = numpy.asarray(values)
    exact = values.astype(numpy.float64)
    assert float(row["min"]) == exact.min()
    assert float(row["max"]) == exact.max()
    assert float(row["norm"]) == pytest.approx(numpy.linalg.norm(exact.ravel()), rel=1e-12)
    assert float(row["mean"]) == pytest.approx(exact.mean(), rel=1e-9, abs=1e-15)


def test_rows_of_weights_gradients_and_moments_are_those_of_numpy(tmp_path: Path) -> None:
    job = _Job()
    monitor = _watched(job, _write(tmp_path, **_ALL))
    names = [name for name, _ in job.net.parameters_and_names()]
    for step in range(3):
        before = [parameter.asnumpy().copy() for parameter in job.optimizer.parameters]
        own = {parameter.name: parameter for parameter in job.optimizer.get_parameters()}
        moments = {
            kind: [own[f"{prefix}.{each.name}"].asnumpy().copy() for each in job.optimizer.parameters]
            for kind, prefix in (("exp_avg", "moment1"), ("exp_avg_sq", "moment2"))
        }
        gradients = [gradient.asnumpy().copy() for gradient in job.backward()]
        job.optimizer(job.gradients)
        after = [parameter.asnumpy().copy() for parameter in job.optimizer.parameters]
        expected = {
            "param_origin": before,
            "param_updated": after,
            "grad_unreduced": gradients,
            "grad_reduced": gradients,
            **moments,
        }
        for kind, values in expected.items():
            rows = {row["name"]: row for row in _rows(monitor, kind) if row["step"] == str(step)}
            assert sorted(rows) == sorted(names)
            for name, each in zip(names, values):
                _check(rows[name], each)
    monitor._watch.close()


def test_rows_of_activations_and_their_gradients_name_each_call(tmp_path: Path) -> None:
    job = _Job()
    seen: dict[str, list[Any]] = {}

    def note(cell, *rest):
        seen.setdefault("input", []).append(rest[0][0].asnumpy().copy())
        seen.setdefault("output", []).append(rest[2].asnumpy().copy())

    def note_gradient(cell, *rest):
        seen.setdefault("input_grad", []).append(rest[0][0].asnumpy().copy())
        seen.setdefault("output_grad", []).append(rest[1][0].asnumpy().copy())

    job.net.shared.register_forward_hook(note, with_kwargs=True)
    job.net.shared.register_backward_hook(note_gradient)
    monitor = _watched(job, _write(tmp_path, **_ALL))
    job.step()
    rows = {row["name"]: row for row in _rows(monitor, "actv")}
    gradients = {row["name"]: row for row in _rows(monitor, "actv_grad")}
    for port in ("input", "output"):
        for call, suffix in enumerate(("", "@1")):
            _check(rows[f"shared.{port}{suffix}"], seen[port][call])
            _check(gradients[f"shared.{port}{suffix}"], seen[f"{port}_grad"][1 - call])
    assert gradients["first.input"]["norm"] == "nan"  # the input of the network has no gradient
    assert {"first.output", "last.input", ".output"} <= rows.keys()
    monitor._watch.close()


def test_training_is_bit_equal_while_the_monitor_is_switched_on_and_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, watched = _Job(), _Job()
    monkeypatch.setenv("DYNAMIC_MONITOR", "true")
    monitor = _watched(watched, _write(tmp_path, dynamic_on=False, **_ALL))
    for step in range(12):
        if step % 2 == 0:
            _write(tmp_path, dynamic_on=step % 4 == 0, step_interval=1, **_ALL)
            assert monitor.refresh() in ("armed", "stopping")
        bare.step()
        watched.step()
        assert bare.weights() == watched.weights()
    steps = sorted({int(row["step"]) for row in _rows(monitor, "grad_reduced")})
    assert steps and {int(row["step"]) for row in _rows(monitor, "actv")} == set(steps)
    monitor._watch.close()


def test_a_window_ends_after_collect_times_and_is_written_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _Job()
    monkeypatch.setenv("DYNAMIC_MONITOR", "true")
    path = _write(tmp_path, dynamic_on=True, collect_times=2, step_interval=1, **_ALL)
    monitor = _watched(job, path)
    monitor.refresh()
    for _ in range(6):
        job.step()
    assert len({row["step"] for row in _rows(monitor, "grad_reduced")}) == 2
    monitor._watch.close()
    assert json.loads(path.read_text())["dynamic_on"] is False


def test_micro_batches_have_rows_of_their_own(tmp_path: Path) -> None:
    job = _Job()
    monitor = _watched(job, _write(tmp_path, monitor_mbs_grad=True, **_ALL), grad_acc_steps=2)
    job.backward()
    job.step()
    rows = _rows(monitor, "actv")
    assert {row["micro_step"] for row in rows} == {"0", "1"}
    assert {row["micro_step"] for row in _rows(monitor, "grad_unreduced")} == {"0", "1"}
    monitor._watch.close()


def test_calls_outside_of_training_have_no_rows(tmp_path: Path) -> None:
    job = _Job()
    monitor = _watched(job, _write(tmp_path, **_ALL))
    job.net(Tensor(numpy.ones((3, 4), numpy.float32)))
    job.step()
    assert {row["micro_step"] for row in _rows(monitor, "actv")} == {"0"}
    monitor._watch.close()


def test_hooks_are_gone_after_the_end(tmp_path: Path) -> None:
    job = _Job()
    monitor = _watched(job, _write(tmp_path, **_ALL))
    job.step()
    monitor._watch.close()
    before = len(_rows_written(tmp_path))
    job.step()
    assert len(_rows_written(tmp_path)) == before


def _rows_written(tmp_path: Path) -> list[str]:
    return [line for path in tmp_path.glob("output/*/*.csv") for line in path.read_text().splitlines()]


def test_linear_hook_measures_the_stable_rank(tmp_path: Path) -> None:
    job = _Job()
    targets = {"linear_hook": ["first"]}
    monitor = _watched(job, _write(tmp_path, recording_l2_features=True, l2_targets=targets, ops=["norm"]))
    weight = job.net.first.weight.asnumpy().astype(numpy.float64)
    sigma = numpy.linalg.norm(weight, 2)
    job.step()
    (row,) = _rows(monitor, "linear_hook")
    assert float(row["kernel_norm"]) == pytest.approx(sigma, rel=1e-4)
    assert float(row["sr"]) == pytest.approx(numpy.linalg.norm(weight) / sigma, rel=1e-4)
    monitor._watch.close()


def test_call_stacks_are_recorded(tmp_path: Path) -> None:
    job = _Job()
    monitor = _watched(job, _write(tmp_path, stack_info=True, **_ALL))
    job.step()
    directory = Path(monitor.tensorboard_dir)
    monitor._watch.close()  # waits for the file
    assert Path(__file__).name in (directory / "stack_info.csv").read_text()


def test_graph_mode_is_refused_in_words_and_training_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = _Job()
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    monitor = _watched(job, _write(tmp_path, **_ALL))
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    monitor._watch.close()
    assert "MindSpore is in GRAPH_MODE" in "".join(capfd.readouterr())


def test_a_model_or_optimizer_of_another_framework_is_refused(tmp_path: Path) -> None:
    job = _Job()
    path = _write(tmp_path, **_ALL)
    with pytest.raises(TypeError, match=r"model should be a mindspore\.nn\.Cell"):
        TrainerMon(path).set_monitor(object(), job.optimizer)
    with pytest.raises(TypeError, match=r"optimizer should be a mindspore\.nn\.Optimizer"):
        TrainerMon(path).set_monitor(job.net, object())


def test_communication_operators_are_refused_in_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = _Job()
    monitor = _watched(job, _write(tmp_path, cc_distribution={"enable": True}, **_ALL))
    job.step()
    monitor._watch.close()
    assert "cc_distribution" in "".join(capfd.readouterr())


def test_the_package_imports_without_mindspore_and_names_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['mindspore'] = None; sys.modules['torch'] = None\n"
        "from stepwatch.mindspore import TrainerMon\n"
        "try:\n    TrainerMon('config.json')\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert "pip install" in done.stdout, done.stderr
