"""Several ranks on one host: one directory each under one run id, and every edit at one step on all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

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

rank, steps = int(os.environ["RANK"]), os.environ["STEPS"]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method={init!r}, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
model = torch.nn.parallel.DistributedDataParallel(mlp()) if os.environ.get("DDP") else mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = TrainerMon("config.json")
monitor.set_monitor(model, optimizer)
generator = torch.Generator().manual_seed(rank)
for step in range(int(steps)) if steps else itertools.count():
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

    def __init__(self, folder: Path, ranks: int, steps: int | None, **environment: str) -> None:
        self.folder = folder
        init = f"file://{folder}/rendezvous"
        text = JOB.format(tests=str(Path(__file__).parent), init=init)
        self.logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
        self.ranks = []
        for rank, log in enumerate(self.logs):
            variables = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "STEPS": str(steps or ""),
                "MONITOR_OUTPUT_DIR": str(folder),
                **environment,
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

    def collected(self, rank: int) -> list[int]:
        (directory,) = self.folder.glob(f"*-rank{rank}-*")
        steps = set()
        for file in directory.glob("grad_reduced_*.csv"):
            steps |= {int(line.split(",")[2]) for line in file.read_text().splitlines()[1:]}
        return sorted(steps)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    jobs: list[Job] = []

    def make(ranks: int, steps: int | None = None, **environment: str) -> Job:
        jobs.append(Job(tmp_path, ranks, steps, **environment))
        return jobs[-1]

    yield make
    for job in jobs:
        job.kill()


def switch_on(config: Path) -> None:
    fresh = config.with_suffix(".new")
    fresh.write_text(config.read_text().replace('"dynamic_on": false', '"dynamic_on": true'))
    fresh.replace(config)


def test_ranks_share_the_run_id_and_unreduced_gradients_differ(tmp_path: Path, start: Any) -> None:
    write_config(tmp_path / "config.json", wg_distribution=True, collect_times=2)
    job = start(2, 3, DYNAMIC_MONITOR="false", DDP="1")
    for rank in range(2):
        job.wait_for("closed", rank)
    job.finish(ranks=[0, 1])
    names = sorted(path.name for path in tmp_path.glob("*-rank*-*"))
    assert len(names) == 2
    assert names[0].split("-")[-1] == names[1].split("-")[-1]
    one, two = (
        {
            row.split(",")[1]: row.split(",")[3]
            for row in (tmp_path / name / "grad_unreduced_0-0.csv").read_text().splitlines()[1:]
        }
        for name in names
    )
    reduced_one, reduced_two = (
        sorted((tmp_path / name / "grad_reduced_0-0.csv").read_text().splitlines()) for name in names
    )
    assert one["module.0.weight"] != two["module.0.weight"]  # before DDP has averaged them
    assert reduced_one == reduced_two


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_edit_holds_from_one_step_on_all_ranks(tmp_path: Path, start: Any, ranks: int) -> None:
    config = write_config(tmp_path / "config.json", dynamic_on=False, wg_distribution=True, collect_times=4)
    job = start(ranks, DYNAMIC_MONITOR="true")
    job.wait_for("step 10")
    switch_on(config)
    job.wait_for("plan 1 wrote back")
    for rank in range(ranks):
        job.wait_for("plan 1 drained", rank)
    job.finish(ranks=list(range(ranks)))
    steps = [job.collected(rank) for rank in range(ranks)]
    assert len(steps[0]) == 4
    assert all(other == steps[0] for other in steps), steps
    assert json.loads(config.read_text())["dynamic_on"] is False


def test_a_rank_that_stalls_keeps_all_ranks_on_one_plan(tmp_path: Path, start: Any) -> None:
    config = write_config(tmp_path / "config.json", dynamic_on=False, wg_distribution=True, collect_times=4)
    job = start(2, DYNAMIC_MONITOR="true")
    job.wait_for("step 10", rank=1)
    job.ranks[1].send_signal(signal.SIGSTOP)
    switch_on(config)
    time.sleep(1)
    job.ranks[1].send_signal(signal.SIGCONT)
    for rank in range(2):
        job.wait_for("drained", rank)
    job.finish(ranks=[0, 1])
    assert job.collected(0) == job.collected(1)
    assert len(job.collected(0)) == 4


def test_a_rank_that_dies_harms_no_other(tmp_path: Path, start: Any) -> None:
    config = write_config(tmp_path / "config.json", dynamic_on=False, wg_distribution=True, collect_times=4)
    job = start(2, DYNAMIC_MONITOR="true")
    job.wait_for("step 10", rank=1)
    job.ranks[1].kill()
    job.ranks[1].wait()
    switch_on(config)
    job.wait_for("aborted")
    job.finish(ranks=[0])
    assert not list(tmp_path.glob("*-rank0-*")) or job.collected(0) == []
