"""The control socket of a running job through `stepwatch ps`, `status` and `events`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import answer, check, stepwatch
from control_socket_client import ask, socket_of
from rehearse_process import BINARY, Rehearsal, open_job, save

OFF = '{"dynamic_on": false}'
ON = '{"dynamic_on": true, "collect_times": 1000000, "wg_distribution": true, "ops": ["norm", "max"]}'


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with open_job(tmp_path, OFF) as job:
        yield job


def test_status_follows_the_file(job: Rehearsal, runtime: Path, tmp_path: Path) -> None:
    path = socket_of(runtime)
    _, headers, text = ask(path, "GET", "/v1/status")
    idle = json.loads(text)
    assert idle["state"] == "IDLE" and headers["ETag"] == f'"{idle["file_sha256"]}"'
    save(job.config, ON)
    job.until_event("applied")
    running = json.loads(ask(path, "GET", "/v1/status")[2])
    check("Status", running)
    assert running["state"] == "COLLECTING" and running["plan"]["collect_times"] == 1000000
    latest = json.loads(ask(path, "GET", "/v1/latest/grad_reduced")[2])
    while not latest["values"]:  # kept from the first question on
        latest = json.loads(ask(path, "GET", "/v1/latest/grad_reduced")[2])
    check("Latest", latest)
    assert latest["values"][0]["values"]["norm"] > 0
    save(job.config, '{\n  "ops": 3\n}')
    job.until_event("refused")
    refused = stepwatch("status")
    assert refused.returncode == 5
    assert re.search(r'^refused +line 2, column 10, "ops"', refused.stdout, re.MULTILINE)
    assert re.search(r"^drift +the content of the config file was refused", refused.stdout, re.MULTILINE)


def test_ps_status_and_events_show_the_job(job: Rehearsal, runtime: Path) -> None:
    name = socket_of(runtime).stem
    listed = stepwatch("ps")
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[0].split() == ["JOB", "RANK", "STATE", "STEP", "PLAN", "COLLECTED", "CONFIG"]
    assert listed.stdout.splitlines()[1].split()[:3] == [name, "0/1", "IDLE"]
    assert "\x1b" not in listed.stdout
    as_json = answer("ps")[1]
    check("Status", as_json["jobs"][0]["status"])
    for word in (name, job.process.pid, job.config, socket_of(runtime)):
        assert answer("status", word)[1]["pid"] == job.process.pid
    nobody = stepwatch("status", "nobody")
    assert nobody.returncode == 6 and name in nobody.stderr

    command = [str(BINARY), "events", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["event"] == "seen"
        save(job.config, ON)
        job.until_event("applied")
        job.process.send_signal(signal.SIGINT)
        events = [json.loads(line) for line in follower.stdout]
    assert follower.returncode == 0  # the job has ended
    assert [event["event"] for event in events] == ["seen", "armed", "applied", "finished", "drained"]
    assert [event["id"] for event in events] == list(range(2, 7))
    for event in events:
        check("Event", event)


def test_a_job_that_is_stopped_is_shown_as_silent(job: Rehearsal, runtime: Path) -> None:
    name = socket_of(runtime).stem
    job.process.send_signal(signal.SIGSTOP)
    listed = stepwatch("ps")
    job.process.send_signal(signal.SIGCONT)
    assert listed.returncode == 5
    assert re.search(rf"^{name} .*no answer.*has not answered in time", listed.stdout, re.MULTILINE)


def test_two_jobs_are_distinguished_by_name(job: Rehearsal, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with open_job(other, OFF) as second:
        several = stepwatch("status")
        assert several.returncode == 2 and "ambiguous JOB" in several.stderr
        assert answer("status", second.process.pid)[1]["config_path"] == str(second.config)
