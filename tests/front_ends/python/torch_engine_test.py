"""Torch's operators, forced on CPU tensors, give the rows that the native engine gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from jobs import mlp, rows, train, write_config

import stepwatch
import torch

ALL = ["norm", "mean", "min", "max", "zeros", "nans", "infs", "std", "abs_max", "id", "shape", "dtype"]
EXACT = ("min", "max", "zeros", "nans", "infs", "abs_max", "id", "shape", "dtype", "name", "step")
EVERYTHING = {
    "xy_distribution": True,
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "mg_direction": True,
}
KINDS = (
    "actv",
    "actv_grad",
    "grad_unreduced",
    "grad_reduced",
    "exp_avg",
    "exp_avg_sq",
    "param_origin",
    "param_updated",
    "other",
)


def same_number(a: str, b: str, tolerance: float) -> bool:
    if a == b:
        return True
    return math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance)


def tolerance_of(row: dict[str, str], key: str, tolerance: float) -> float:
    """Widen a tolerance as far as sums go wrong that cancel out: docs/design/statistics.md bounds mean and std so."""
    if key == "std" and float(row.get("std", "nan")) > 0:
        return tolerance * (1 + (float(row["mean"]) / float(row["std"])) ** 2)
    if key == "mean" and math.isfinite(float(row.get("abs_max", "nan"))):
        return tolerance * max(1.0, float(row["abs_max"]))
    return tolerance


def same_value(one: dict[str, str], other: dict[str, str], key: str, tolerance: float, exact: Sequence[str]) -> bool:
    if key in exact:
        return one[key] == other[key]
    return same_number(one[key], other[key], tolerance_of(one, key, tolerance))


def differences(
    expected: list[dict[str, str]],
    found: list[dict[str, str]],
    tolerance: float = 1e-12,
    exact: Sequence[str] = EXACT,
) -> list[str]:
    """Tell where rows differ."""
    if [row["name"] for row in expected] != [row["name"] for row in found]:
        return [f"{len(found)} rows instead of {len(expected)}"]
    return [
        f"{one['name']} {key}: {other[key]} instead of {one[key]}"
        for one, other in zip(expected, found)
        for key in one
        if not same_value(one, other, key, tolerance, exact)
    ]


def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Callable[[Path], None], kinds: tuple[str, ...]
) -> dict[str, list[str]]:
    """Run a job with either engine; return what differs in the rows of each kind."""
    job(tmp_path / "native")
    monkeypatch.setenv("STEPWATCH_ENGINE", "torch")
    job(tmp_path / "torch")
    expected = {kind: rows(tmp_path / "native", kind) for kind in kinds}
    assert all(expected.values())
    return {kind: wrong for kind in kinds if (wrong := differences(expected[kind], rows(tmp_path / "torch", kind)))}


def watching(directory: Path, model: torch.nn.Module, optimizer: Any, **config: Any) -> stepwatch.Watch:
    directory.mkdir(exist_ok=True)
    path = write_config(directory / "config.json", **{"ops": ALL, **config})
    return stepwatch.watch(model, optimizer, path, dynamic=False, output_dir=directory)


def test_a_training_has_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(directory: Path) -> None:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        with watching(directory, model, optimizer, **EVERYTHING):
            train(model, optimizer, 4)

    assert both(tmp_path, monkeypatch, job, KINDS) == {}


class Taker(torch.nn.Module):
    """A module that is given tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.weight.sum()


def given(directory: Path, tensors: list[torch.Tensor], **config: Any) -> None:
    model = torch.nn.Sequential()
    model.taker = Taker()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(directory, model, optimizer, xy_distribution=True, forward_only=True, **config):
        model.taker(*tensors)
        model.taker(tensors[0])  # alone
        optimizer.step()


def special_values(dtype: torch.dtype) -> list[torch.Tensor]:
    inf, nan = math.inf, math.nan
    values = [
        [nan, 1.0, -2.0],
        [inf, 1.0],
        [-inf, 1.0, 0.0],
        [inf, -inf, 2.0],
        [inf, nan],
        [-0.0, 0.0],
        [0.0],
        [1e-8, -1e-8, 2e-8, 0.0],
        [3.0] * 5,
    ]
    return [torch.tensor(each, dtype=torch.float64).to(dtype) for each in values]


@pytest.mark.parametrize("eps_mode", ["parity", "exact"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_special_numbers_of_floats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, eps_mode: str
) -> None:
    generator = torch.Generator().manual_seed(3)
    large = torch.randn(300, 70, generator=generator).to(dtype)
    small = [torch.randn(17, generator=generator).to(dtype) for _ in range(6)]  # measured together
    layouts = [large, large.t(), large[:, ::3], large[5, :7].expand(3, 7), torch.empty(0, 4, dtype=dtype), large[0, 0]]
    tiny = [torch.full((9,), 1e-20, dtype=torch.float64).to(dtype)]

    def job(directory: Path) -> None:
        given(directory, [*special_values(dtype), *layouts, *small, *tiny], stepwatch={"eps_mode": eps_mode})

    assert both(tmp_path, monkeypatch, job, ("actv",)) == {}


@pytest.mark.parametrize("eps", [1e-8, 0.5, 3.0, 1000.0])
def test_integers_bool_and_eight_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eps: float) -> None:
    tensors = [torch.tensor([True, False, True]), torch.tensor(True)]
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        limits = torch.iinfo(dtype)
        tensors.append(torch.tensor([limits.min, limits.max, 0, 1, 2, 3], dtype=dtype))
        tensors.append(torch.arange(100, dtype=torch.int64).to(dtype))
    tensors.append(torch.tensor([2**53 + 1, -(2**60) - 3]))
    tensors.append(torch.tensor([-5, -(2**33) - 7]))
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        tensors.append(torch.tensor([1.0, -3.5, 0.0, math.nan, 448.0]).to(dtype))

    def job(directory: Path) -> None:
        given(directory, tensors, eps=eps)

    assert both(tmp_path, monkeypatch, job, ("actv",)) == {}


def test_tensors_that_the_native_engine_refuses_are_refused_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEPWATCH_ENGINE", "torch")
    odd = torch.zeros(3, dtype=torch.complex64)
    given(tmp_path / "torch", [torch.ones(2), odd, odd])
    assert len(rows(tmp_path / "torch", "actv")) == 4  # the tensor beside them, the one alone, and two outputs
    out = capfd.readouterr()
    assert (out.out + out.err).count("a tensor cannot be measured because its dtype is not supported") == 1


def test_groups_of_sites_have_statistics_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [{"match": "0.*", "ops": ["max"], "every": 2}]

    def job(directory: Path) -> None:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        config = {**EVERYTHING, "ops": ["norm", "zeros"], "stepwatch": {"sites": sites}}
        with watching(directory, model, optimizer, **config):
            train(model, optimizer, 4)

    assert both(tmp_path, monkeypatch, job, KINDS) == {}
