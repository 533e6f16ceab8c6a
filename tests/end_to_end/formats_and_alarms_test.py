"""The formats and alarms of the real binary: TensorBoard's own reader and the analysis against the CSV files."""

from __future__ import annotations

import json
import math
import subprocess
import time
from pathlib import Path

import numpy
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from rehearse_process import BINARY, Rehearsal

TASKS = {"grad_unreduced": "acc_grad", "grad_reduced": "post_grad"}
EVERYTHING = {
    "xy_distribution": True,
    "wg_distribution": True,
    "monitor_mbs_grad": True,
    "param_distribution": True,
    "mv_distribution": True,
    "ops": ["norm", "mean", "min", "max", "zeros", "nans", "id", "shape"],
    "collect_times": 3,
    "dynamic_on": True,
}


def rehearse(directory: Path, **fields: object) -> Rehearsal:
    """Run a rehearsal of two micro-batches to its end; its rows depend on the config alone."""
    directory.mkdir()
    arguments = ("--steps", "6", "--step-time", "1ms", "--grad-acc", "2")
    with Rehearsal(directory, json.dumps({**EVERYTHING, **fields}), *arguments) as run:
        assert run.finish() == 0
    run.check_ledgers()
    return run


def scalars(run: Rehearsal) -> dict[tuple[str, int], float]:
    """Return every scalar of the run's event file, as TensorBoard reads it."""
    (directory,) = run.out.glob("*-rank0-*")
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    found = {}
    for tag in accumulator.Tags()["scalars"]:
        for event in accumulator.Scalars(tag):
            assert (tag, event.step) not in found
            found[tag, event.step] = event.value
    return found


def expected_scalars(run: Rehearsal) -> dict[tuple[str, int], float]:
    """Return the same from the CSV files of a run."""
    expected = {}
    for kind in ("actv", "actv_grad", "grad_unreduced", "grad_reduced", "param_origin", "param_updated", "exp_avg"):
        for row in run.rows(kind):
            micro_step = f":{row['micro_step']}" if "micro_step" in row else ""
            tag = f"{row['vpp_stage']}:{row['name']}{micro_step}/rank0/{TASKS.get(kind, kind)}"
            for op in ("norm", "mean", "min", "max", "zeros", "nans"):
                expected[f"{tag}_{op}", int(row["step"])] = float(numpy.float32(float(row[op])))
    return expected


def test_tensorboard_reads_the_numbers_that_csv_has(tmp_path: Path) -> None:
    expected = expected_scalars(rehearse(tmp_path / "csv"))
    run = rehearse(tmp_path / "tensorboard", format="tensorboard")
    found = {key: value for key, value in scalars(run).items() if "/exp_avg_sq_" not in key[0]}
    assert len(expected) > 500
    assert found == expected
    assert not list(run.out.glob("*/*.csv"))
    assert len(list(run.out.glob("*/manifest.json"))) == 1


@pytest.mark.parametrize("milliseconds", [0, 30, 80, 150, 300])
def test_a_killed_run_leaves_whole_alarms_and_readable_scalars(tmp_path: Path, milliseconds: int) -> None:
    rules = [{"rule_name": "AnomalyNan", "args": {"threshold": 0}}]
    fields = {**EVERYTHING, "format": "tensorboard", "collect_times": 10**6, "alert": {"rules": rules, "dump": True}}
    anomalies = tmp_path / "out/anomaly_detected/rank0/anomaly.json"
    seen = 0
    with Rehearsal(tmp_path, json.dumps(fields), "--steps", "1000000", "--step-time", "1ms") as run:
        run.until_event("alarm")
        deadline = time.monotonic() + milliseconds / 1000
        while not seen or time.monotonic() < deadline:
            if anomalies.exists():
                seen = len(json.loads(anomalies.read_text()))  # whole, whenever one looks
        run.process.kill()
        run.process.wait()
    assert len(json.loads(anomalies.read_text())) >= seen > 0
    (path,) = run.out.glob("*/*tfevents*")
    events = list(RawEventFileLoader(str(path)).Load())
    assert len(events) > 1


def test_alarms_of_csv_are_those_of_its_numbers(tmp_path: Path) -> None:
    threshold = 0.004
    rules = [{"rule_name": "AnomalyTurbulence", "args": {"threshold": threshold}}, {"rule_name": "AnomalyNan"}]
    run = rehearse(tmp_path / "run", alert={"rules": rules, "dump": True}, ops=["norm", "mean"], collect_times=20)
    expected = set()
    for kind in ("actv", "actv_grad", "grad_unreduced", "grad_reduced", "param_origin", "param_updated", "exp_avg"):
        means: dict[tuple[str, str], float] = {}
        for row in sorted(run.rows(kind), key=lambda row: int(row["step"])):
            micro_step = f":{row['micro_step']}" if "micro_step" in row else ""
            tag = f"{row['vpp_stage']}:{row['name']}{micro_step}/rank0/{TASKS.get(kind, kind)}"
            for op in ("norm", "mean"):
                value = abs(float(row[op]))
                mean = means.setdefault((tag, op), value)
                if value > mean * (1 + threshold):
                    expected.add((tag, op, int(row["step"])))
                means[tag, op] = 0.99 * mean + 0.01 * value
    anomalies = json.loads((run.out / "anomaly_detected/rank0/anomaly.json").read_text())
    found = {
        (entry["tag_name"], entry["message"].split("'")[3], entry["step"])
        for entry in anomalies.values()
        if not entry["tag_name"].endswith("exp_avg_sq")
    }
    assert found == expected
    assert 0 < len(found) < len(run.rows("actv")) * 10
    assert len(anomalies) == len(run.events("alarm"))
    assert all(math.isfinite(entry["call_id"]) and entry["call_id"] >= 0 for entry in anomalies.values())


def test_the_analysis_reads_the_alarms_of_a_run(tmp_path: Path) -> None:
    rules = [{"rule_name": "AnomalyNan", "args": {"threshold": 0}}]
    run = rehearse(tmp_path / "run", alert={"rules": rules, "dump": True}, ops=["norm"])
    anomalies = run.out / "anomaly_detected"
    done = subprocess.run(
        [str(BINARY), "anomaly", "-d", str(anomalies), "-k", "100000"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    sorted_entries = list(json.loads((anomalies / "anomaly_analyse.json").read_text()).values())
    entries = json.loads((anomalies / "rank0/anomaly.json").read_text()).values()
    assert len(sorted_entries) == len(entries) == run.events("drained")[0]["ledger"]["written"]
    keys = [(entry["step"], entry["micro_step"]) for entry in sorted_entries]
    assert keys == sorted(keys)
    assert {entry["micro_step"] for entry in entries} == {0, 1}
