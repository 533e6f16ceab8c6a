"""stepwatchd beside real jobs: it finds them without settings, and follows them to their end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import python_programs
from monitoring_tools import alertmanager, free_ports
from stepwatchd_process import Stepwatchd, own_jobs

pytest.importorskip("stepwatch", reason="the Python package is not installed")
torch = pytest.importorskip("torch")
JOB = Path(__file__).with_name("stepwatchd_job.py")
MANY = 100_000
Start = Callable[..., python_programs.Program]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Stepwatchd]:
    with Stepwatchd(tmp_path, own_jobs()) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[python_programs.Program] = []

    def begin(*arguments: object, **variables: str) -> python_programs.Program:
        command = [str(JOB), str(tmp_path), *map(str, arguments)]
        jobs.append(python_programs.start(command, env={**os.environ, "OMP_NUM_THREADS": "1", **variables}))
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
    assert daemon.incidents(run) == []


def test_the_rank_that_is_stopped_is_named_and_not_the_one_that_waits_for_it(daemon: Stepwatchd, start: Start) -> None:
    ranks = [start(MANY, MANY, rank, 2) for rank in (0, 1)]
    run = run_of(daemon)
    ranks[1].send_signal(signal.SIGSTOP)
    incident = daemon.incident_of(run)
    assert (incident["incident"], incident["ranks"][:1]) == ("stuck", [1]), incident
    ranks[1].send_signal(signal.SIGCONT)
    daemon.until(lambda: daemon.incidents(run)[0]["state"] == "resolved")
    assert len(daemon.incidents(run)) == 1


def test_the_owner_and_partition_of_a_job_reach_metrics_routes_and_alerts(tmp_path: Path, start: Start) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    url = f"http://127.0.0.1:{port}"
    delivery = {
        "receivers": [{"name": name, "type": "alertmanager", "url": url} for name in ("team", "others")],
        "routes": [{"owner": "ml-*", "receivers": ["team"]}, {"receivers": ["others"]}],
    }
    with (
        alertmanager(tmp_path, port, config) as server,
        Stepwatchd(tmp_path, {**own_jobs(), "delivery": delivery}) as daemon,
    ):
        start(MANY, 40, STEPWATCH_OWNER="ml-team", SLURM_JOB_USER="ada", SLURM_JOB_PARTITION="a100")
        run = run_of(daemon)
        daemon.until(lambda: daemon.get(f"/v1/runs/{run}")["owner"])  # beats come later than the pulse
        detail = daemon.get(f"/v1/runs/{run}")
        assert (detail["owner"], detail["partition"]) == ("ml-team", "a100")
        info = f'stepwatch_run_info{{run="{run}",host="{detail["hosts"][0]}",owner="ml-team",partition="a100"}} 1'
        assert info in daemon.ask("GET", "/metrics")[2].splitlines()
        incident = daemon.incident_of(run)["id"]

        def labels() -> list[dict[str, str]]:
            alerts = [alert["labels"] for alert in server.get("/api/v2/alerts")]
            return [each for each in alerts if each["incident"] == incident]

        assert daemon.until(labels)[0]["owner"] == "ml-team"
