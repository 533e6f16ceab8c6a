"""A script need not keep its monitor: until it is closed, or the process ends, the monitor goes on."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from jobs import rows, write_config

import python_programs
import torch

STEPS = 40
JOB = """
import gc, sys, torch, torch.multiprocessing
sys.path.insert(0, {tests!r})
from jobs import mlp, train
from stepwatch import TrainerMon

def watched():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    TrainerMon("config.json").set_monitor(model, optimizer)
    return model, optimizer

def run(rank, ranks):
    torch.set_num_threads(1)
    if ranks > 1:
        init = "file://" + {folder!r} + "/rendezvous"
        torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=ranks)
    model, optimizer = watched()
    gc.collect()
    train(model, optimizer, {steps})

if __name__ == "__main__":
    if sys.argv[1] == "fork":
        torch.multiprocessing.start_processes(run, (2,), nprocs=2, start_method="fork")
    else:
        run(int(sys.argv[1]), int(sys.argv[2]))
"""


@dataclass
class Launched:
    """A process, and the file that it prints to."""

    process: python_programs.Program
    log: Path

    def printed(self) -> str:
        """Return what it has printed, after it has ended well."""
        code = self.process.wait(300)
        text = self.log.read_text()
        assert code == 0, text
        return text


def launch(folder: Path, *arguments: str) -> Launched:
    script = folder / "job.py"
    script.write_text(JOB.format(tests=str(Path(__file__).parent), folder=str(folder), steps=STEPS))
    variables = {**os.environ, "MONITOR_OUTPUT_DIR": str(folder / "out"), "DYNAMIC_MONITOR": "false"}
    log = folder / f"{arguments[0]}.log"
    with open(log, "w") as out:
        started = python_programs.start([str(script), *arguments], folder, variables, out, subprocess.STDOUT)
    return Launched(started, log)


def assert_whole(folder: Path, ranks: int) -> None:
    names = ["0.bias", "0.weight", "2.bias", "2.weight", "3.bias", "3.weight"]
    expected = sorted((name, str(step)) for name in names for step in range(STEPS))
    assert sorted((row["name"], row["step"]) for row in rows(folder / "out", "grad_reduced")) == sorted(
        expected * ranks
    )


@pytest.fixture(autouse=True)
def config(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", wg_distribution=True, step_count_per_record=100)


def test_a_monitor_that_nobody_keeps_is_closed_when_the_process_ends(tmp_path: Path) -> None:
    assert f"{STEPS} collected, monitor closed" in launch(tmp_path, "0", "1").printed()
    assert_whole(tmp_path, 1)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_ranks_that_keep_no_monitor_end_well(tmp_path: Path) -> None:
    ranks = [launch(tmp_path, str(rank), "2") for rank in range(2)]
    for rank in ranks:
        rank.printed()
    assert_whole(tmp_path, 2)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_ranks_that_were_forked_write_everything_before_they_end(tmp_path: Path) -> None:
    text = launch(tmp_path, "fork").printed()
    assert text.count(f"{STEPS} collected, monitor closed") == 2, text
    assert_whole(tmp_path, 2)
