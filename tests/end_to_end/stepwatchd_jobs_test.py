"""stepwatchd beside real jobs: it finds them without being told, and says what becomes of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import python_programs
from stepwatchd_process import DAEMON, Stepwatchd

pytest.importorskip("stepwatch", reason="the Python package is not installed")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not DAEMON.exists(), reason=f"{DAEMON} is not built")

JOB = Path(__file__).with_name("stepwatchd_job.py")
MANY = 100_000
Start = Callable[..., python_programs.Program]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Stepwatchd]:
    # Jobs of other tests have control sockets elsewhere.
    settings = tmp_path / "stepwatchd.json"
    settings.write_text(json.dumps({"discovery": {"directories": [os.environ["STEPWATCH_RUNTIME_DIR"]]}}))
    with Stepwatchd(tmp_path, settings) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[python_programs.Program] = []

    def begin(*arguments: object) -> python_programs.Program:
        command = [str(JOB), str(tmp_path), *map(str, arguments)]
        jobs.append(python_programs.start(command, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.kill()
        job.wait()


def run_of(daemon: Stepwatchd) -> str:
    """Return the name of the run, as soon as it has made some steps under the eyes of stepwatchd."""

    def seen() -> list[str]:
        return [run["id"] for run in daemon.get("/v1/runs")["runs"] if (run["step"] or 0) > 20]

    return str(daemon.until(seen)[0])


def incidents_of(daemon: Stepwatchd, run: str) -> list[dict[str, Any]]:
    return [each for each in daemon.get("/v1/incidents?state=all")["incidents"] if each["run"] == run]


def first_incident_of(daemon: Stepwatchd, run: str) -> dict[str, Any]:
    return dict(daemon.until(lambda: incidents_of(daemon, run))[0])


def test_a_job_is_found_and_followed_to_its_end(daemon: Stepwatchd, start: Start) -> None:
    job = start(200)
    run = run_of(daemon)
    page = daemon.ask("GET", "/metrics")[2]
    assert f'run="{run}"' in page and "stepwatchd_jobs_scraped" in page
    assert job.wait(60) == 0

    def ended() -> bool:
        return str(daemon.get(f"/v1/runs/{run}")["state"]).startswith("ended")

    daemon.until(ended)
    detail = daemon.get(f"/v1/runs/{run}")
    assert "ok" in str(detail), detail
    assert daemon.get(f"/v1/runs/{run}/series/loss")["points"]
    assert incidents_of(daemon, run) == []


def test_a_killed_job_is_a_lost_process(daemon: Stepwatchd, start: Start) -> None:
    job = start(MANY)
    run = run_of(daemon)
    job.kill()
    incident = first_incident_of(daemon, run)
    assert (incident["incident"], incident["ranks"]) == ("process_lost", [0])
    assert incident["since_step"] > 20


def test_a_loss_that_becomes_nan_is_told_with_its_last_good_step(daemon: Stepwatchd, start: Start) -> None:
    start(MANY, 60)
    run = run_of(daemon)
    incident = first_incident_of(daemon, run)
    assert (incident["incident"], incident["since_step"]) == ("loss_nonfinite", 59)


def test_the_rank_that_is_stopped_is_named_and_not_the_one_that_waits_for_it(daemon: Stepwatchd, start: Start) -> None:
    ranks = [start(MANY, MANY, rank, 2) for rank in (0, 1)]
    run = run_of(daemon)
    ranks[1].send_signal(signal.SIGSTOP)
    incident = first_incident_of(daemon, run)
    assert (incident["incident"], incident["ranks"][:1]) == ("stuck", [1]), incident
    ranks[1].send_signal(signal.SIGCONT)
    daemon.until(lambda: incidents_of(daemon, run)[0]["state"] == "resolved")
    assert len(incidents_of(daemon, run)) == 1
