"""A Prometheus that finds a training job through stepwatchd, and scrapes it with the token of the job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import python_programs
from monitoring_tools import free_ports, prometheus, until
from stepwatchd_process import Stepwatchd, own_jobs

JOB = Path(__file__).with_name("stepwatchd_job.py")
TOKEN = "0123456789abcdef0123456789abcdef"


def test_prometheus_finds_a_job_by_its_stepwatchd_and_scrapes_it(runtime: Path, tmp_path: Path) -> None:
    pytest.importorskip("stepwatch", reason="the Python package is not installed")
    pytest.importorskip("torch")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    port_daemon, port_job, port_prometheus = free_ports(3)
    listen = {"listen": {"tcp": f"127.0.0.1:{port_daemon}", "token_file": str(token)}}
    variables = {
        "OMP_NUM_THREADS": "1",
        "STEPWATCH_SOCKET_TCP": f"127.0.0.1:{port_job}",
        "STEPWATCH_SOCKET_TOKEN_FILE": str(token),
    }
    (tmp_path / "prometheus.yml").write_text(f"""\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: training
    authorization: {{credentials_file: {token}}}
    http_sd_configs:
      - url: http://127.0.0.1:{port_daemon}/v1/sd/jobs
        refresh_interval: 1s
        authorization: {{type: Bearer, credentials_file: {token}}}
""")
    with Stepwatchd(tmp_path, {**own_jobs(), **listen}) as daemon:
        job = python_programs.start([str(JOB), str(tmp_path), "100000"], env={**os.environ, **variables})
        try:
            daemon.until(lambda: daemon.get("/v1/runs")["runs"])
            run = daemon.get("/v1/runs")["runs"][0]["id"]
            with prometheus(tmp_path, port_prometheus, tmp_path / "prometheus.yml") as server:

                def targets() -> list[dict[str, object]]:
                    found: list[dict[str, object]] = server.get("/api/v1/targets?state=active")["data"]["activeTargets"]
                    return found

                until(lambda: [each for each in targets() if each["health"] == "up"], targets)
                (target,) = targets()
                labels = target["labels"]
                assert isinstance(labels, dict)
                assert (labels["instance"], labels["run"], labels["rank"]) == (f"127.0.0.1:{port_job}", run, "0")
                up = server.get(f"/api/v1/query?query=up%7Brun%3D%22{run}%22%7D")["data"]["result"]
                assert up[0]["value"][1] == "1"
                job.kill()
                job.wait()
                until(lambda: not targets(), targets)
        finally:
            job.kill()
            job.wait()
