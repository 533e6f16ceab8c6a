"""The heat maps of `ur_distribution`: what is counted of Adam's state, and the images in TensorBoard's reader."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from jobs import mlp, sgd_job, train, watched
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import torch
from stepwatch.optimizers import update_ratios

BINS = 30
IMAGES = {"ur_distribution": True, "format": "tensorboard"}


def adam(model: torch.nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.8, 0.95), eps=1e-3)


def expected_counts(optimizer: torch.optim.Adam, parameter: torch.Tensor) -> tuple[list[int], list[int]]:
    """Return the bins of update and ratio, computed in float64."""
    state, (group,) = optimizer.state[parameter], optimizer.param_groups
    m, v = (state[name].double().numpy().ravel() for name in ("exp_avg", "exp_avg_sq"))
    first, second = (1 - beta ** state["step"].item() for beta in group["betas"])
    with numpy.errstate(invalid="ignore", divide="ignore"):
        update = m / first / (numpy.sqrt(v / second) + group["eps"])
        ratio = m / first / numpy.sqrt(v / second)
    return bins_of(update), bins_of(ratio)


def bins_of(values: numpy.ndarray) -> list[int]:
    return numpy.histogram(values[numpy.isfinite(values)], BINS, (-1.00001, 1.00001))[0].tolist()


def images(tmp_path: Path) -> dict[str, dict[int, numpy.ndarray]]:
    """Return the red, green and blue of every image, by tag and step, as TensorBoard reads it."""
    (directory,) = tmp_path.glob("*-rank0-*")
    accumulator = EventAccumulator(str(directory), size_guidance={"images": 0, "tensors": 0})
    accumulator.Reload()
    found: dict[str, dict[int, numpy.ndarray]] = {}
    for tag in accumulator.Tags()["images"]:
        for event in accumulator.Images(tag):
            picture = Image.open(io.BytesIO(event.encoded_image_string)).convert("RGB")
            assert (event.width, event.height) == picture.size == (640, 480)
            found.setdefault(tag, {})[event.step] = numpy.asarray(picture).astype(int)
    return found


def cells(picture: numpy.ndarray, columns: int) -> numpy.ndarray:
    """Return bins x steps of brightness, the lowest bin first."""
    bright = picture.sum(axis=2)
    rows = bright[8::16][::-1]
    return rows[:, [(2 * column + 1) * 640 // (2 * columns) for column in range(columns)]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Return the rows that the front end passes on, a list for each step."""
    steps: list[Any] = []

    class Spy:
        def __init__(self, session: Any) -> None:
            self.session = session

        def __getattr__(self, name: str) -> Any:
            return getattr(self.session, name)

        def observe_updates(self, rows: Any) -> None:
            steps.append(rows)
            self.session.observe_updates(rows)

    original = update_ratios.UpdateRatios.__init__
    monkeypatch.setattr(update_ratios.UpdateRatios, "__init__", lambda self, session: original(self, Spy(session)))
    yield steps


def test_update_and_ratio_are_counted_from_the_state_before_the_update(tmp_path: Path, counted: list[Any]) -> None:
    model = mlp()
    optimizer = adam(model)
    expected: list[Any] = []
    parameters = list(model.parameters())

    def look(step: int) -> None:
        expected.append(
            [(i, *expected_counts(optimizer, p)) for i, p in enumerate(parameters)] if optimizer.state else []
        )

    with watched(tmp_path, model, optimizer, **IMAGES):
        train(model, optimizer, 4, before_step=look)
    assert expected[0] == [] and counted == expected[1:]
    assert all(0 < sum(update) <= parameters[i].numel() for rows in counted for i, update, _ in rows)


def test_after_one_update_every_ratio_is_at_an_end_however_it_is_rounded() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1000))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.randn(1000, generator=torch.Generator().manual_seed(5))
    optimizer.step()
    counts = update_ratios.spread_of(optimizer.state[parameter], optimizer.param_groups[0])
    assert counts is not None
    assert counts[1, 0] == (parameter.grad < 0).sum() and counts[1, -1] == (parameter.grad > 0).sum()


def test_images_grow_by_a_column_in_every_collected_step(tmp_path: Path, counted: list[Any]) -> None:
    model = mlp()
    optimizer = adam(model)
    with watched(tmp_path, model, optimizer, **IMAGES, step_interval=2, targets={"0.weight": {}}):
        train(model, optimizer, 8)
    found = images(tmp_path)
    assert set(found) == {"0:0.weight/rank0/adam_update", "0:0.weight/rank0/adam_ratio"}
    for which, task in ((1, "adam_update"), (2, "adam_ratio")):
        pictures = found[f"0:0.weight/rank0/{task}"]
        assert list(pictures) == [2, 4, 6]  # at step 0 there is no state yet
        counts = numpy.array([rows[0][which] for rows in counted]).T
        for columns, picture in enumerate(pictures.values(), start=1):
            drawn, numbers = cells(picture, columns), counts[:, :columns]
            assert (drawn[numbers == numbers.max()] == 3 * 255).all()
            assert (drawn[numbers == 0] == 11).all()
            order = numpy.argsort(numbers, axis=None, kind="stable")
            assert (numpy.diff(drawn.ravel()[order]) >= 0).all()


def test_elements_outside_of_the_bins_and_nan_are_not_counted() -> None:
    state = {
        "exp_avg": torch.tensor([0.0, 0.5, -1.0, 3.0, float("nan"), float("inf")]),
        "exp_avg_sq": torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        "step": torch.tensor(1.0),
    }
    counts = update_ratios.spread_of(state, {"betas": (0.0, 0.0), "eps": 0.0})
    assert counts is not None and counts.dtype == torch.int64
    update, ratio = counts.tolist()
    assert update == ratio and sum(ratio) == 2 and ratio[0] == 1 and ratio[22] == 1


def test_big_parameters_are_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    state = {
        "exp_avg": torch.randn(50, 41, generator=generator).t(),
        "exp_avg_sq": torch.rand(50, 41, generator=generator).t(),
        "step": 3,
    }
    group = {"betas": (0.9, 0.99), "eps": 1e-8}
    whole = update_ratios.spread_of(state, group)
    monkeypatch.setattr(update_ratios, "_CHUNK", 64)
    assert torch.equal(update_ratios.spread_of(state, group), whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_state_of_any_floating_dtype_is_counted(dtype: torch.dtype) -> None:
    state = {"exp_avg": torch.full((3,), 0.25, dtype=dtype), "exp_avg_sq": torch.full((3,), 1.0, dtype=dtype)}
    counts = update_ratios.spread_of(state, {"betas": (0.5, 0.5), "eps": 0.0, "step": 1})
    assert counts is not None and counts.tolist()[0][20] == sum(counts.tolist()[0]) == 3


@pytest.mark.parametrize("lacks", ["exp_avg", "exp_avg_sq", "step"])
def test_a_state_that_is_not_adams_or_new_gives_nothing(lacks: str) -> None:
    state = {"exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2), "step": torch.tensor(1.0)}
    group = {"betas": (0.9, 0.99), "eps": 1e-8}
    assert update_ratios.spread_of(state, group) is not None
    assert update_ratios.spread_of({**state, "step": torch.tensor(0.0)}, group) is None
    assert update_ratios.spread_of({name: value for name, value in state.items() if name != lacks}, group) is None
    assert update_ratios.spread_of(state, {}) is None


def test_a_state_whose_memory_is_released_gives_nothing() -> None:
    state = {"exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2), "step": 1}
    group = {"betas": (0.9, 0.99), "eps": 1e-8}
    assert update_ratios.spread_of({**state, "exp_avg": torch.ones(0), "exp_avg_sq": torch.ones(0)}, group) is None
    state["exp_avg_sq"].untyped_storage().resize_(0)
    assert update_ratios.spread_of(state, group) is None


def test_this_ranks_part_of_a_sharded_state_is_counted() -> None:
    class Sharded:
        _local_tensor = torch.ones(3)

    state = {"exp_avg": Sharded(), "exp_avg_sq": Sharded(), "step": 1}
    counts = update_ratios.spread_of(state, {"betas": (0.0, 0.0), "eps": 0.0})
    assert counts is not None and counts[0, -1] == counts.sum() / 2 == 3


def test_deterministic_algorithms_are_on_again_after_counting() -> None:
    state = {"exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2), "step": 1}
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert update_ratios.spread_of(state, {"betas": (0.9, 0.99), "eps": 1e-8}) is not None
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_two_optimizers_count_each_parameter_once(tmp_path: Path, counted: list[Any]) -> None:
    model = mlp()
    first, second = adam(model[0]), adam(model[3])
    watch = watched(tmp_path, model, second, **IMAGES)
    watch.attach(model, first)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        first.step()
        second.step()
    watch.close()
    assert [[number for number, _, _ in rows] for rows in counted[1:]] == [[0, 1, 4, 5]]


def test_an_optimizer_without_moments_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, **IMAGES):
        train(model, optimizer, 3)
    assert capfd.readouterr().out.count("SGD keeps no exp_avg and exp_avg_sq for 6 parameters") == 1
    assert not list(tmp_path.glob("*/*tfevents*"))


def test_counting_that_fails_is_reported_once_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no such state")

    monkeypatch.setattr(update_ratios, "spread_of", broken)
    model = mlp()
    optimizer = adam(model)
    with watched(tmp_path, model, optimizer, **IMAGES, wg_distribution=True):
        train(model, optimizer, 3)
    assert capfd.readouterr().out.count("no such state") == 1


@pytest.mark.parametrize("format", ["csv", "api"])
def test_without_tensorboard_nothing_is_counted_and_a_warning_is_logged(
    tmp_path: Path, counted: list[Any], capfd: pytest.CaptureFixture[str], format: str
) -> None:
    model = mlp()
    optimizer = adam(model)
    with watched(tmp_path, model, optimizer, ur_distribution=True, format=format):
        train(model, optimizer, 3)
    assert counted == []
    out = capfd.readouterr().out
    assert out.count('"ur_distribution"') == 1 and 'images need "format": "tensorboard"' in out
