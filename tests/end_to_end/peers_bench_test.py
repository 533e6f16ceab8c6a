"""The comparison with a bare loop runs, and prints and writes a row for each process. No test measures time."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")
pytest.importorskip("torch")

BENCH = Path(__file__).resolve().parents[2] / "bench/peers.py"


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCH), *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.long
def test_a_row_is_printed_and_written_for_each_process_of_each_group(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    short = ("--rounds", "1", "--steps", "2", "--only", "stepwatch", "--groups", "off,wg", "--json", str(file))
    done = run_bench(*short)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = [line.split()[:2] for line in done.stdout.splitlines()]
    for group in ("off", "wg"):
        for process in ("bare", "noise", "stepwatch"):
            assert [group, process] in printed, done.stdout
    found = json.loads(file.read_text())
    assert (found["facts"]["modules"], found["facts"]["parameters"]) == (501, 600)
    for ratio in found["ratios"]:
        assert 0 < ratio["ratio"] and math.isfinite(ratio["ratio"]), ratio
    rows = {(row["group"], row["process"]): row["rows_a_step"] for row in found["rows"]}
    assert rows["off", "stepwatch"] == 0
    assert rows["wg", "stepwatch"] == 1200, "a reduced and an un-reduced gradient of each parameter"


def test_an_unknown_group_is_refused_with_those_that_are_known() -> None:
    done = run_bench("--groups", "off,everything")
    assert done.returncode == 2
    assert "everything" in done.stderr and "param" in done.stderr
