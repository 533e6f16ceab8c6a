"""Groups of sites through the real binary: exact rows, their plan, and their files in other readers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pandas
import pytest

from command_line import stepwatch
from rehearse_process import Rehearsal

CONFIG = r"""{
  "wg_distribution": true, "start_step": 2, "step_interval": 2, "collect_times": 6, "ops": ["norm"],
  "stepwatch": {"sites": [
    {"match": "layers.[01]", "kinds": ["actv"], "every": 3, "ops": ["max", "norm"]},
    {"match": "layers.2", "every": 0},
    {"match": "re:layers\\.[3-9].*", "exclude": ["layers.4"], "every": 2, "ops": ["zeros"]}
  ]}
}
"""
COLLECTED = [2, 4, 6, 8, 10, 12]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    arguments = ("--steps", "16", "--step-time", "1ms", "--sites", "5", "--elements", "100")
    with Rehearsal(tmp_path_factory.mktemp("run"), CONFIG, *arguments, dynamic=False) as rehearsal:
        assert rehearsal.finish() == 0
        yield rehearsal


def frame(run: Rehearsal, kind: str) -> pandas.DataFrame:
    (directory,) = run.out.glob("*-rank0-*")
    files = sorted(directory.glob(f"{kind}_*.csv"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))
    return pandas.concat([pandas.read_csv(path) for path in files], ignore_index=True)


def places(rows: pandas.DataFrame) -> set[tuple[int, str]]:
    found = list(zip(rows["step"], rows["name"], strict=True))
    assert len(found) == len(set(found))
    return set(found)


def test_every_group_has_the_rows_of_its_steps_and_the_account_is_exact(run: Rehearsal) -> None:
    assert run.collected() == COLLECTED
    ports = [f"layers.{layer}.{port}" for layer in (0, 1) for port in ("input", "output")]
    assert places(frame(run, "actv")) == {(step, name) for step in (2, 8) for name in ports}
    gradients = {(step, f"layers.{layer}.weight") for step in COLLECTED for layer in (0, 1, 4)}
    gradients |= {(step, "layers.3.weight") for step in (2, 6, 10)}
    for kind in ("grad_unreduced", "grad_reduced"):
        assert places(frame(run, kind)) == gradients
    run.check_ledgers()
    (drained,) = run.events("drained")
    assert drained["ledger"]["written"] == drained["ledger"]["produced"] == 8 + 2 * len(gradients)
    assert drained["collected_steps"] == 6


def test_pandas_reads_unselected_statistics_of_a_group_as_missing(run: Rehearsal) -> None:
    rows = frame(run, "grad_reduced")
    assert list(rows.columns) == ["vpp_stage", "name", "step", "norm", "zeros", "shape", "dtype"]
    of_group = rows["name"] == "layers.3.weight"
    assert rows["norm"].isna().tolist() == of_group.tolist() == rows["zeros"].notna().tolist()
    assert rows["shape"].notna().all() and rows["norm"].dtype == rows["zeros"].dtype == "float64"
    activations = frame(run, "actv")
    assert list(activations.columns)[4:] == ["norm", "max", "zeros", "shape", "dtype"]
    assert activations[["norm", "max"]].notna().all(axis=None)


def test_the_offline_tools_read_files_with_empty_cells(run: Rehearsal, tmp_path: Path) -> None:
    assert stepwatch("csv2db", "--data", run.out, "--db", tmp_path / "db").returncode == 0
    (database,) = (tmp_path / "db").rglob("*.db")
    with sqlite3.connect(database) as connection:
        counts = connection.execute(
            "SELECT COUNT(*), COUNT(norm), COUNT(zeros) FROM trend_data JOIN monitoring_metrics USING (metric_id) "
            "WHERE metric_name = 'grad_reduced'"
        ).fetchone()
    assert counts == (21, 18, 3)
    assert stepwatch("csv2tb", "--monitor-path", run.out, "--output-dirpath", tmp_path / "tb").returncode == 0


def test_plan_lists_sites_rows_and_bytes_of_each_group(run: Rehearsal) -> None:
    (manifest,) = run.out.glob("*/manifest.json")
    plan = json.loads(stepwatch("plan", run.config, "--sites", manifest, "--json").stdout)
    groups = [(group["match"], group["every"], group["sites"], group["rows"]) for group in plan["groups"]]
    assert groups == [("layers.[01]", 3, 4, 4), ("layers.2", 0, 0, 0), (r"re:layers\.[3-9].*", 2, 2, 2)]
    assert plan["groups"][2]["parameter_bytes"] == 2 * 100 * 4
    assert plan["groups"][2]["ops"] == ["zeros", "shape", "dtype"]
    assert plan["rows_per_step"] == 4 + 2 + 6
    assert plan["mean_rows_per_step"] == pytest.approx(4 / 3 + 2 / 2 + 6)
    assert plan["parameter_bytes_per_step"] == 8 * 100 * 4
    text = stepwatch("plan", run.config, "--sites", manifest).stdout
    assert 'sites[0]    "layers.[01]": 4 sites, 4 rows, 0.0 MB in one of 3 collected steps; max, norm' in text
    assert 'sites[1]    "layers.2": not collected' in text


def test_a_group_that_matches_nothing_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    text = '{"stepwatch": {"sites": [{"match": "layer.0", "kinds": ["actv"]}]}}'
    with Rehearsal(tmp_path, text, "--steps", "2", "--step-time", "1ms", dynamic=False) as rehearsal:
        assert rehearsal.finish() == 0
    warnings = [event["message"] for event in rehearsal.events("warning")]
    assert any("matches no module and no parameter" in text and '"layers.0"' in text for text in warnings), warnings
