"""The main job for real: the example GPT trains on text while its config is edited; the rows are read with pandas."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pandas
import pytest

from build_tree import BUILD
from rehearse_process import save

GPT = Path(os.environ.get("STEPWATCH_GPT", BUILD / "bin/gpt"))

pytestmark = pytest.mark.skipif(not GPT.exists(), reason=f"{GPT} is not built (LibTorch is off)")

CONFIG = """{{
  // comments and   spaces must stay
  "dynamic_on": {on},  /* the switch */
  "targets": {{"layers.0.attention.qkv": {{}}, "head": {{}}}},
  "xy_distribution": true, "wg_distribution": true, "param_distribution": true, "mv_distribution": true,
  "step_interval": {interval},
  "collect_times": {times},
  "ops": ["norm", "mean", "min", "max", "zeros", "nans"]
}}
"""
OPS = "norm,mean,min,max,zeros,nans,shape,dtype".split(",")
WITH_MICRO_STEP = ["vpp_stage", "name", "step", "micro_step", *OPS]
WITHOUT_MICRO_STEP = ["vpp_stage", "name", "step", *OPS]
HEADERS = {
    "actv": WITH_MICRO_STEP,
    "actv_grad": WITH_MICRO_STEP,
    "grad_unreduced": WITHOUT_MICRO_STEP,
    "grad_reduced": WITHOUT_MICRO_STEP,
    "param_origin": WITHOUT_MICRO_STEP,
    "param_updated": WITHOUT_MICRO_STEP,
    "exp_avg": WITHOUT_MICRO_STEP,
    "exp_avg_sq": WITHOUT_MICRO_STEP,
}


class Job:
    """A training run whose lines are read one by one."""

    def __init__(self, directory: Path, steps: int, **environment: str) -> None:
        self.config = directory / "config.json"
        self.output = directory / "out"
        text = directory / "text.txt"
        text.write_text("to be or not to be, that is the question. " * 500)
        arguments = ["--config", self.config, "--text", text, "--steps", steps, "--layers", 2, "--width", 32]
        arguments += ["--context", 32, "--batch", 4, "--threads", 1, "--eval-every", 0, "--heads", 2]
        self.process = subprocess.Popen(
            [str(GPT), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "MONITOR_OUTPUT_DIR": str(self.output), **environment},
        )
        self.lines: list[str] = []

    def read_until(self, pattern: str) -> re.Match[str]:
        """Return the first match of a line; fails when the run ends without one."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"no line matched {pattern!r}:\n" + "".join(self.lines))

    def finish(self) -> int:
        """Read what is left and return the exit code."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.readlines()
        return self.process.wait()

    def tables(self) -> dict[str, pandas.DataFrame]:
        """Return the rows of the run by kind."""
        (directory,) = self.output.glob("*-rank0-*")
        tables: dict[str, list[pandas.DataFrame]] = {}
        for path in sorted(directory.glob("*_*-*.csv")):
            tables.setdefault(re.sub(r"_\d+-\d+$", "", path.stem), []).append(pandas.read_csv(path))
        return {kind: pandas.concat(parts, ignore_index=True) for kind, parts in tables.items()}

    def manifest(self) -> dict:
        """Return the run's manifest.json."""
        (path,) = self.output.glob("*-rank0-*/manifest.json")
        return json.loads(path.read_text())


def test_an_edit_in_mid_training_is_collected_from_the_promised_step_and_switched_off_again(tmp_path: Path) -> None:
    save(tmp_path / "config.json", CONFIG.format(on="false", interval=2, times=3))
    job = Job(tmp_path, 4000, DYNAMIC_MONITOR="true")
    try:
        job.read_until(r"^step 5 ")
        edit = CONFIG.format(on="true", interval=2, times=3)
        save(job.config, edit)
        first = int(job.read_until(r"plan 1 applied: first step (\d+)")[1])
        assert "6 written" not in job.read_until(r"plan 1 drained: (.*)")[1]
        job.read_until(r"plan 1 wrote back")
    finally:
        job.process.terminate()
        job.finish()

    tables = job.tables()
    assert {kind: list(table.columns) for kind, table in tables.items()} == HEADERS
    for kind, table in tables.items():
        assert sorted(table["step"].unique()) == [first, first + 2, first + 4], kind
        assert (table["nans"].fillna(0) == 0).all()
    assert set(tables["grad_reduced"]["name"]) == {
        "layers.0.attention.qkv.weight",
        "layers.0.attention.qkv.bias",
        "head.weight",
    }
    assert set(tables["actv"]["name"]) == {
        f"{module}.{port}" for module in ("layers.0.attention.qkv", "head") for port in ("input", "output")
    }
    assert job.config.read_text() == edit.replace('"dynamic_on": true', '"dynamic_on": false')
    (plan,) = job.manifest()["plans"]
    ledger = plan["ledger"]
    assert ledger["produced"] == ledger["written"] == sum(len(table) for table in tables.values())


def test_a_static_run_collects_by_its_config_and_ends_well(tmp_path: Path) -> None:
    save(tmp_path / "config.json", CONFIG.format(on="false", interval=1, times=2))
    job = Job(tmp_path, 5)
    assert job.finish() == 0, "".join(job.lines)
    tables = job.tables()
    assert sorted(tables["grad_reduced"]["step"].unique()) == [0, 1]
    assert sorted(tables["exp_avg"]["step"].unique()) == [1], "the first step has no moments yet"
    origin, updated = tables["param_origin"], tables["param_updated"]
    first_after = updated[(updated["step"] == 0) & (updated["name"] == "head.weight")]["norm"].item()
    second_before = origin[(origin["step"] == 1) & (origin["name"] == "head.weight")]["norm"].item()
    assert first_after == second_before


def test_a_broken_config_ends_a_static_run_before_training_with_a_placed_message(tmp_path: Path) -> None:
    save(tmp_path / "config.json", '{\n  "wg_distribution": yes\n}\n')
    job = Job(tmp_path, 5)
    assert job.finish() == 1
    assert re.search(r"line 2, column 22", "".join(job.lines))
