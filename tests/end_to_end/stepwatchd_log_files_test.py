"""Jobs that stepwatchd knows by their log files alone."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from command_line import stepwatch
from stepwatchd_process import NO_JOBS, Stepwatchd, beat, start

PATTERN = "{run}/rank_{rank}.log"
# Thresholds of a job whose steps are short.
RANKS = 4
QUICK = {"stuck": {"silence_seconds_min": 6, "odd_rank_seconds": 4}, "pace": {"straggler_rounds": 4}}
TRACEBACK = """Traceback (most recent call last):
  File "/job/train.py", line 41, in step
    batch = next(batches)
ValueError: sequence 17 is longer than 4096 tokens
"""


def settings_with(directory: Path, **logs: Any) -> dict[str, Any]:
    return {**NO_JOBS, "detectors": QUICK, "logs": {"files": [{"path": f"{directory}/{PATTERN}"}], **logs}}


class LoggedJob:
    """A job of four ranks without a monitor: it writes a log for each rank."""

    def __init__(self, directory: Path, run: str = "r1") -> None:
        self.place = directory / run
        self.place.mkdir(parents=True)
        self.ranks: list[TextIO] = [(self.place / f"rank_{rank}.log").open("a") for rank in range(RANKS)]
        self.step = 0

    def write(self, rank: int, text: str) -> None:
        """Write whole lines."""
        self.ranks[rank].write(text)
        self.ranks[rank].flush()

    def train(self, steps: int, seconds: float = 0.05, **numbers: float) -> None:
        """Log some steps of all ranks; `numbers` of rank 1 differ."""
        for _ in range(steps):
            self.step += 1
            for rank in range(RANKS):
                usual = {"loss": 2.0 + 0.01 * (self.step % 5), "grad_norm": 1.0, "step_seconds": 0.1}
                seen = {**usual, **(numbers if rank == 1 else {})}
                self.write(rank, f"Step {self.step}: {', '.join(f'{key}={value}' for key, value in seen.items())}\n")
            time.sleep(seconds)

    def close(self) -> None:
        """End the job: no process writes its logs any more."""
        for rank in self.ranks:
            rank.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LoggedJob]:
    with contextlib.closing(LoggedJob(tmp_path / "logs")) as made:
        yield made


def step_of(daemon: Stepwatchd, run: str = "r1") -> int | None:
    """Return the step of a run, or None as long as there is no such run."""
    status, _, text = daemon.ask("GET", f"/v1/runs/{run}")
    return json.loads(text).get("step") if status == 200 else None


def incident(daemon: Stepwatchd, kind: str) -> dict[str, Any]:
    """Wait for an incident of this kind, and return it."""

    def find() -> dict[str, Any] | None:
        return next((each for each in daemon.incidents("r1") if each["incident"] == kind), None)

    found: dict[str, Any] = daemon.until(find)
    return found


def test_a_nan_in_a_log_is_opened_with_its_step_and_rank(tmp_path: Path, job: LoggedJob) -> None:
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs")) as daemon:
        job.train(40)
        job.train(1, loss=float("nan"))
        found = incident(daemon, "loss_nonfinite")
        assert (found["ranks"], found["since_step"]) == ([1], 40)


def test_an_exception_in_a_log_is_opened_with_its_rank_and_ends_the_run(tmp_path: Path, job: LoggedJob) -> None:
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs")) as daemon:
        job.train(40)
        job.write(1, TRACEBACK)
        found = incident(daemon, "exception")
        assert (found["ranks"], found["since_step"]) == ([1], 40)
        assert found["evidence"]["type"] == "ValueError" and "4096 tokens" in found["evidence"]["message"]
        assert found["log_line"]["rank"] == 1 and found["log_line"]["source"] == f"{job.place}/rank_1.log"
        why = stepwatch("why", "r1", "--stepwatchd", daemon.socket).stdout
        assert "rank 1: ValueError: sequence 17" in why
        records = stepwatch("logs", "r1", "--rank", "1", "--severity", "error", "--stepwatchd", daemon.socket).stdout
        assert "4096 tokens" in records
        steps = stepwatch("logs", "r1", "--grep", "Step 40:", "--stepwatchd", daemon.socket).stdout
        assert steps.count("Step 40:") == RANKS
        job.close()
        daemon.until(lambda: daemon.get("/v1/runs/r1")["end_reason"] == "error")


def test_a_log_that_stands_still_is_opened_with_the_rank_that_is_behind(tmp_path: Path, job: LoggedJob) -> None:
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs")) as daemon:
        job.train(60, seconds=0.2)
        for rank in (0, 2, 3):
            job.write(rank, "Step 61: loss=2.0, grad_norm=1.0, step_seconds=0.1\n")
        found = incident(daemon, "stuck")
        assert found["ranks"] == [1] and found["since_step"] in (60, 61)


def test_a_rank_that_is_slower_in_its_log_is_opened_as_straggler(tmp_path: Path, job: LoggedJob) -> None:
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs")) as daemon:
        job.train(160)

        def train_on() -> bool:
            job.train(10, step_seconds=0.2)
            return any(each["incident"] == "straggler" for each in daemon.incidents("r1"))

        daemon.until(train_on)
        found = incident(daemon, "straggler")
        assert found["ranks"] == [1] and found["since_step"] >= 60


def test_lines_that_are_caught_up_with_open_nothing(tmp_path: Path, job: LoggedJob) -> None:
    job.train(60, seconds=0)
    job.write(0, "Step 61: loss=nan\n" + TRACEBACK)
    out = tmp_path / "out.jsonl"
    output = {"name": "file", "type": "file", "path": str(out)}
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs", outputs=[output])) as daemon:
        daemon.until(lambda: out.exists() and "4096 tokens" in out.read_text())
        assert step_of(daemon) is None
        job.step = 61
        job.train(1)
        daemon.until(lambda: step_of(daemon) == 62)
        assert daemon.incidents("r1") == []


def test_a_log_is_followed_as_soon_as_the_settings_name_it_and_no_longer(tmp_path: Path, job: LoggedJob) -> None:
    with Stepwatchd(tmp_path, dict(NO_JOBS)) as daemon:
        job.train(3)
        assert "stepwatchd_logs_file" not in daemon.ask("GET", "/metrics")[2]
        daemon.config.write_text(json.dumps(settings_with(tmp_path / "logs")))
        daemon.until(lambda: "stepwatchd_logs_file_lines_total 12" in daemon.ask("GET", "/metrics")[2])
        job.train(1)
        daemon.until(lambda: step_of(daemon) == 4)
        daemon.config.write_text(json.dumps(dict(NO_JOBS)))
        daemon.until(lambda: "stepwatchd_logs_files 0" in daemon.ask("GET", "/metrics")[2])
        job.train(1)
        daemon.config.write_text(json.dumps(settings_with(tmp_path / "logs")))
        daemon.until(lambda: step_of(daemon) == 5)


def test_a_fixed_name_is_the_run_of_a_pattern_without_one(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.touch()
    files = [{"path": str(log), "run": "pretrain-7b"}]
    with Stepwatchd(tmp_path, {**NO_JOBS, "logs": {"files": files}}) as daemon, log.open("a") as stream:
        stream.write("Step 1: loss=2.0\n")
        stream.flush()
        daemon.until(lambda: step_of(daemon, "pretrain-7b") == 1)


def test_a_job_that_reports_beats_is_not_watched_twice_and_its_log_gives_events(tmp_path: Path, job: LoggedJob) -> None:
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs")) as daemon:
        daemon.send(start(), *[beat(step) for step in range(1, 4)])
        job.train(50, seconds=0)
        job.write(1, TRACEBACK)
        daemon.until(lambda: "stepwatchd_logs_file_lines_total 204" in daemon.ask("GET", "/metrics")[2])
        assert step_of(daemon) == 3
        assert daemon.get("/v1/runs/r1")["end_reason"] is None


def test_a_run_that_a_log_began_goes_on_after_a_kill_of_stepwatchd(tmp_path: Path, job: LoggedJob) -> None:
    out = tmp_path / "out.jsonl"
    output = {"name": "file", "type": "file", "path": str(out)}
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs", outputs=[output])) as daemon:
        job.train(20)
        daemon.until(lambda: step_of(daemon) == 20)
        daemon.kill()
        job.train(10)
        daemon.start()
        daemon.until(lambda: step_of(daemon) == 30)
        job.train(10)
        daemon.until(lambda: step_of(daemon) == 40)
        run = daemon.get("/v1/runs/r1")
        assert run["restarts"] == 0 and run["end_reason"] is None
        daemon.until(lambda: len(out.read_text().splitlines()) >= 160)
        records = [json.loads(line) for line in out.read_text().splitlines()]
        texts = {record["event.id"]: record["message"] for record in records}
        assert sorted(texts.values()) == sorted(
            line for rank in range(RANKS) for line in (job.place / f"rank_{rank}.log").read_text().splitlines()
        )


WRITER = """
import sys, time
with open(sys.argv[1], "a") as log:
    for step in range(1, 41):
        print(f"Step {step}: loss=2.0", file=log, flush=True)
        time.sleep(0.1)
"""


def test_a_run_ends_well_once_no_process_writes_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs/r1/rank_0.log"
    log.parent.mkdir(parents=True)
    with Stepwatchd(tmp_path, settings_with(tmp_path / "logs")) as daemon:
        subprocess.run([sys.executable, "-c", WRITER, str(log)], check=True, env=dict(os.environ))
        daemon.until(lambda: step_of(daemon) is not None and daemon.get("/v1/runs/r1")["end_reason"] == "ok")
        assert daemon.incidents("r1") == []
