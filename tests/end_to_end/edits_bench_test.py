"""The benchmark of edits runs and prints the figures that others read. No test measures time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from build_tree import ROOT, STEPWATCH

pytestmark = [pytest.mark.long, pytest.mark.skipif(not STEPWATCH.exists(), reason=f"{STEPWATCH} is not built")]


def test_edits_of_both_ways_are_armed_and_their_swaps_counted() -> None:
    command = [sys.executable, str(ROOT / "bench/edits.py"), "--stepwatch", str(STEPWATCH)]
    command += ["--count", "2", "--pause", "0.2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["apply_to_armed"]["edits"] == 2
    assert found["saved_to_armed_beyond_quiet_time"]["edits"] == 2
    assert found["swap_on_step_thread"]["swaps"] >= 1
