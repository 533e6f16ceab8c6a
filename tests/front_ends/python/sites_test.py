"""Groups of sites: each has its interval and its statistics, also of a tensor that sites of two groups share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jobs import rows, same_tensors, sgd_job, watched

import torch

LARGE = 128  # a square of it is remembered, so that the next module does not read it again


def trained(tmp_path: Path, sites: list[dict[str, Any]], steps: int, **config: Any) -> list[torch.Tensor]:
    """Train a chain of two modules under the monitor; return the first one's outputs."""
    torch.manual_seed(1)
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Linear(LARGE, LARGE), torch.nn.Identity()))
    seen: list[torch.Tensor] = []
    with watched(tmp_path, model, optimizer, **{"ops": ["norm"], **config}, stepwatch={"sites": sites}):
        for _ in range(steps):
            hidden = model[0](torch.randn(LARGE, LARGE, requires_grad=True))
            seen.append(hidden.detach())
            optimizer.zero_grad()
            model[1](hidden).sum().backward()
            optimizer.step()
    return seen


def places(tmp_path: Path, kind: str) -> set[tuple[str, int]]:
    found = [(row["name"], int(row["step"])) for row in rows(tmp_path, kind)]
    assert len(found) == len(set(found))
    return set(found)


def test_a_tensor_that_two_groups_see_has_the_statistics_of_each(tmp_path: Path) -> None:
    groups = [{"match": "0", "kinds": ["actv"], "ops": ["max"]}, {"match": "1", "kinds": ["actv"], "ops": ["min"]}]
    (hidden,) = trained(tmp_path, groups, 1)
    table = {row["name"]: row for row in rows(tmp_path, "actv")}
    assert (table["0.output"]["norm"], table["0.output"]["min"]) == ("", "")
    assert (table["1.input"]["norm"], table["1.input"]["max"]) == ("", "")
    assert float(table["0.output"]["max"]) == hidden.max().item()
    assert float(table["1.input"]["min"]) == hidden.min().item()


def test_a_tensor_is_not_taken_over_from_a_group_into_one_that_is_not_due(tmp_path: Path) -> None:
    trained(tmp_path, [{"match": "1", "every": 3}], 5, xy_distribution=True)
    for kind in ("actv", "actv_grad"):
        first = {(f"0.{port}", step) for step in range(5) for port in ("input", "output")}
        assert places(tmp_path, kind) == first | {
            (f"1.{port}", step) for step in (0, 3) for port in ("input", "output")
        }


def test_parameters_of_a_group_are_read_in_its_steps_alone(tmp_path: Path) -> None:
    groups = [{"match": "**.bias", "every": 0}, {"match": "0", "kinds": ["param_updated"], "every": 2}]
    trained(tmp_path, groups, 4, wg_distribution=True)
    assert places(tmp_path, "grad_reduced") == places(tmp_path, "grad_unreduced") == {("0.weight", s) for s in range(4)}
    assert places(tmp_path, "param_updated") == {("0.weight", 0), ("0.weight", 2)}


@pytest.mark.parametrize("every", [1, 2])
def test_training_does_not_notice_groups(tmp_path: Path, every: int) -> None:
    plain = trained(tmp_path / "plain", [], 4)
    grouped = trained(tmp_path / "grouped", [{"match": "**", "every": every}], 4, xy_distribution=True)
    assert same_tensors(plain, grouped)
