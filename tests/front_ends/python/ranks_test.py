"""Several ranks on one host: every edit holds from one step on all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jobs import write_config

import python_programs
import torch

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

JOB = """
import itertools, os, sys, time, torch
sys.path.insert(0, {tests!r})
from jobs import mlp
from stepwatch import TrainerMon

rank = int(os.environ["RANK"])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method={init!r}, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = TrainerMon("config.json")
monitor.set_monitor(model, optimizer)
generator = torch.Generator().manual_seed(rank)
for step in itertools.count():
    if os.path.exists("enough"):
        break
    model(torch.randn(5, 4, generator=generator)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, flush=True)
    time.sleep(0.05)
monitor.close()
print("closed", flush=True)
os._exit(0)  # a process group whose other ranks were killed would wait for them
"""


class Job:
    """The ranks of a job, each with the lines that it has printed."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder = folder
        self.config = folder / "config.json"
        init = f"file://{folder}/rendezvous"
        text = JOB.format(tests=str(Path(__file__).parent), init=init)
        self.logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
        self.ranks = []
        for rank, log in enumerate(self.logs):
            variables = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MONITOR_OUTPUT_DIR": str(folder),
                "DYNAMIC_MONITOR": "true",
            }
            with open(log, "w") as out:
                started = python_programs.start(["-c", text], folder, variables, stdout=out, stderr=subprocess.STDOUT)
                self.ranks.append(started)

    def wait_for(self, text: str, rank: int = 0) -> None:
        deadline = time.monotonic() + 300
        while text not in self.logs[rank].read_text():
            assert time.monotonic() < deadline, self.logs[rank].read_text()
            time.sleep(0.02)

    def finish(self, *, ranks: list[int]) -> None:
        (self.folder / "enough").touch()
        for rank in ranks:
            self.ranks[rank].wait(300)
            assert "closed" in self.logs[rank].read_text(), self.logs[rank].read_text()

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()

    def switch_on(self) -> None:
        fresh = self.config.with_suffix(".new")
        fresh.write_text(self.config.read_text().replace('"dynamic_on": false', '"dynamic_on": true'))
        fresh.replace(self.config)

    def collected(self, rank: int) -> list[int]:
        (directory,) = self.folder.glob(f"*-rank{rank}-*")
        steps = set()
        for file in directory.glob("grad_reduced_*.csv"):
            steps |= {int(line.split(",")[2]) for line in file.read_text().splitlines()[1:]}
        return sorted(steps)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Job]]:
    jobs: list[Job] = []

    def make(ranks: int) -> Job:
        write_config(tmp_path / "config.json", dynamic_on=False, wg_distribution=True, collect_times=4)
        jobs.append(Job(tmp_path, ranks))
        return jobs[-1]

    yield make
    for job in jobs:
        job.kill()


Start = Callable[[int], Job]


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_edit_holds_from_one_step_on_all_ranks(tmp_path: Path, start: Start, ranks: int) -> None:
    job = start(ranks)
    job.wait_for("step 10")
    job.switch_on()
    job.wait_for("plan 1 wrote back")
    for rank in range(ranks):
        job.wait_for("plan 1 drained", rank)
    job.finish(ranks=list(range(ranks)))
    steps = [job.collected(rank) for rank in range(ranks)]
    assert len(steps[0]) == 4
    assert all(other == steps[0] for other in steps), steps
    assert json.loads(job.config.read_text())["dynamic_on"] is False


def test_a_rank_that_stalls_keeps_all_ranks_on_one_plan(tmp_path: Path, start: Start) -> None:
    job = start(2)
    job.wait_for("step 10", rank=1)
    job.ranks[1].send_signal(signal.SIGSTOP)
    job.switch_on()
    time.sleep(1)
    job.ranks[1].send_signal(signal.SIGCONT)
    for rank in range(2):
        job.wait_for("drained", rank)
    job.finish(ranks=[0, 1])
    assert job.collected(0) == job.collected(1)
    assert len(job.collected(0)) == 4


def test_a_rank_that_dies_harms_no_other(tmp_path: Path, start: Start) -> None:
    job = start(2)
    job.wait_for("step 10", rank=1)
    job.ranks[1].kill()
    job.ranks[1].wait()
    job.switch_on()
    job.wait_for("aborted")
    job.finish(ranks=[0])
    assert not list(tmp_path.glob("*-rank0-*")) or job.collected(0) == []
