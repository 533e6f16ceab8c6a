"""The DDP example, started in three ways: its config is edited in mid-run; both ranks follow at one step."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import python_programs

pytest.importorskip("stepwatch", reason="the Python package is not installed")
torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/ddp.py"
RANKS = 2
LAUNCHERS = {"spawned": [], "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]}


def collected(directory: Path) -> set[int]:
    return {int(file.stem.split("-")[1]) for file in directory.glob("grad_reduced_*.csv")}


def launched(launcher: str, options: list[str]) -> str:
    """Return what the ranks print, who have been started by a launcher."""
    done = subprocess.run(
        [sys.executable, *LAUNCHERS[launcher], str(EXAMPLE), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},  # the ranks' lines meet on one stdout
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def started_one_by_one(options: list[str], folder: Path) -> str:
    """Return what the ranks print, who have been started as on a cluster that has a launcher of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = [folder / f"rank{rank}.log" for rank in range(RANKS)]
    ranks = []
    for rank, log in enumerate(logs):
        place = {"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        variables = {**os.environ, **{name: str(value) for name, value in place.items()}}
        with open(log, "w") as out:
            ranks.append(python_programs.start([str(EXAMPLE), *options], folder, variables, out, subprocess.STDOUT))
    codes = [rank.wait(300) for rank in ranks]
    printed = "".join(log.read_text() for log in logs)
    assert codes == [0] * RANKS, printed
    return printed


@pytest.mark.parametrize(
    "launcher", ["one_by_one", *(pytest.param(name, marks=pytest.mark.long) for name in LAUNCHERS)]
)
def test_both_ranks_take_the_edit_over_at_the_same_step(tmp_path: Path, launcher: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 500)
    options = ["--steps", "90", "--pause", "0.03", "--text", str(text), "--output", str(tmp_path / "out")]
    printed = started_one_by_one(options, tmp_path) if launcher == "one_by_one" else launched(launcher, options)
    lines = re.findall(r"rank (\d): run (\w+), plan 1: 5 steps collected, the first was (\d+), in (\S+)", printed)
    assert sorted(rank for rank, *_ in lines) == ["0", "1"], printed
    (_, run, first, one), (_, other_run, other_first, two) = lines
    assert run == other_run and Path(one).name.endswith(run) and Path(two).name.endswith(run)
    assert first == other_first
    steps = {int(first) + 2 * i for i in range(5)}
    assert collected(Path(one)) == collected(Path(two)) == steps
    assert 30 < int(first) < 90, "the edit was made at step 30"
    config = (tmp_path / "out/config.json").read_text()
    assert '"dynamic_on": false,   // <- the switch' in config
    plans = json.loads((Path(one) / "manifest.json").read_text())["plans"]
    assert plans[0]["ledger"]["produced"] == plans[0]["ledger"]["written"] > 0
