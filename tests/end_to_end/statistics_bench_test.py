"""The benchmark of the statistics runs and writes the figures that others read from its file. No test measures time."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from build_tree import BUILD

BENCH = Path(os.environ.get("STEPWATCH_STATS_BENCH", BUILD / "bin/stats_bench"))

pytestmark = [pytest.mark.long, pytest.mark.skipif(not BENCH.exists(), reason=f"{BENCH} is not built")]

SHORT = ["--rounds", "1", "--dram-mb", "4"]
RATIOS = {
    "dram": {"fp32_dram_over_read", "bf16_dram_over_read", "fp16_dram_over_read"},
    "l3": {"fp32_l3_over_read", "bf16_l3_over_read", "fp16_l3_over_read"},
    "small": {"small_batch_over_read"},
    "nan": {"nan_blocks_over_clean"},
}


def run_bench(tmp_path: Path, *arguments: str, **environment: str) -> dict:
    file = tmp_path / "figures.json"
    command = [str(BENCH), *SHORT, "--json", str(file), *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text(encoding="utf-8"))


def ratios_of(found: dict) -> dict[str, float]:
    for ratio in found["ratios"]:
        low, high = ratio["spread"]
        assert 0 < low <= ratio["ratio"] <= high and math.isfinite(high), ratio
    return {ratio["name"]: ratio["ratio"] for ratio in found["ratios"]}


@pytest.mark.parametrize("part", RATIOS)
def test_each_part_writes_its_ratios_with_their_spread(tmp_path, part):
    assert set(ratios_of(run_bench(tmp_path, "--only", part))) >= RATIOS[part]


def test_one_instruction_set_can_be_forced(tmp_path):
    found = run_bench(tmp_path, "--only", "small", STEPWATCH_CPU_TARGET="scalar")
    assert found["facts"]["cpu_target"] == "scalar"


def test_an_unknown_part_is_refused(tmp_path):
    done = subprocess.run([str(BENCH), "--only", "everything"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "everything" in done.stderr
