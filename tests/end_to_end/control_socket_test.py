"""The control socket of a running job as programs see it: HTTP, and `stepwatch ps`, `status` and `events`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from control_socket_client import ask, socket_of
from rehearse_process import BINARY, ROOT, Rehearsal, save

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")

API = json.loads((ROOT / "schemas/control_api.json").read_text())
OFF = '{"dynamic_on": false}'
ON = '{"dynamic_on": true, "collect_times": 1000000, "wg_distribution": true, "ops": ["norm", "max"]}'


def check(schema: str, instance: object) -> None:
    reference = {"$ref": f"#/components/schemas/{schema}", "components": API["components"]}
    jsonschema.Draft202012Validator(reference).validate(instance)


def stepwatch(runtime: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STEPWATCH_RUNTIME_DIR": str(runtime)}
    command = [str(BINARY), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "r"
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with Rehearsal(tmp_path, OFF, "--steps", "1000000", "--step-time", "5ms") as rehearsal:
        rehearsal.until_step(1)
        rehearsal.until_socket_opens()
        yield rehearsal


def test_every_answer_is_as_the_schema_says(job: Rehearsal, runtime: Path) -> None:
    path = socket_of(runtime)
    for target, schema in {
        "/v1/status": "Status",
        "/v1/ranks": "Ranks",
        "/v1/doctor": "Doctor",
        "/v1/latest/grad_reduced": "Latest",
    }.items():
        status, headers, text = ask(path, "GET", target)
        assert status == 200 and headers["Content-Type"] == "application/json"
        check(schema, json.loads(text))
    for text in (OFF, '{"opps": []}', '{"ops": 1}', "{", ""):
        status, _, answer = ask(path, "POST", "/v1/validate", text)
        assert status == 200
        check("Validation", json.loads(answer))
    for method, target, expected in [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/latest/nothing", 404),
        ("DELETE", "/v1/status", 405),
        ("POST", "/v1/validate", 413),
    ]:
        status, _, answer = ask(path, method, target, " " * (2 << 20) if expected == 413 else None)
        assert status == expected
        check("Error", json.loads(answer))


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
    refused = stepwatch(runtime, "status")
    assert refused.returncode == 5
    assert re.search(r'^refused +line 2, column 10, "ops"', refused.stdout, re.MULTILINE)
    assert re.search(r"^drift +the content of the config file was refused", refused.stdout, re.MULTILINE)


def test_ps_status_and_events_tell_of_the_job(job: Rehearsal, runtime: Path) -> None:
    name = socket_of(runtime).stem
    listed = stepwatch(runtime, "ps")
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[0].split() == ["JOB", "RANK", "STATE", "STEP", "PLAN", "COLLECTED", "CONFIG"]
    assert listed.stdout.splitlines()[1].split()[:3] == [name, "0/1", "IDLE"]
    assert "\x1b" not in listed.stdout
    as_json = json.loads(stepwatch(runtime, "ps", "--json").stdout)
    check("Status", as_json["jobs"][0]["status"])
    for word in (name, job.process.pid, job.config, socket_of(runtime)):
        assert json.loads(stepwatch(runtime, "status", word, "--json").stdout)["pid"] == job.process.pid
    nobody = stepwatch(runtime, "status", "nobody")
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


def test_a_job_that_was_killed_leaves_a_socket_that_the_next_look_removes(job: Rehearsal, runtime: Path) -> None:
    path = socket_of(runtime)
    job.process.kill()
    job.process.wait()
    assert path.exists()
    assert stepwatch(runtime, "ps").returncode == 0
    assert not path.exists()
    assert stepwatch(runtime, "status").returncode == 6


def test_a_job_that_is_stopped_is_shown_as_silent(job: Rehearsal, runtime: Path) -> None:
    name = socket_of(runtime).stem
    job.process.send_signal(signal.SIGSTOP)
    listed = stepwatch(runtime, "ps")
    job.process.send_signal(signal.SIGCONT)
    assert listed.returncode == 5
    assert re.search(rf"^{name} .*no answer.*has not answered in time", listed.stdout, re.MULTILINE)


def test_two_jobs_are_told_apart_by_name(job: Rehearsal, runtime: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with Rehearsal(other, OFF, "--steps", "1000000") as second:
        second.until_step(1)
        second.until_socket_opens()
        several = stepwatch(runtime, "status")
        assert several.returncode == 2 and "ambiguous JOB" in several.stderr
        chosen = stepwatch(runtime, "status", second.process.pid, "--json")
        assert json.loads(chosen.stdout)["config_path"] == str(second.config)


def test_metrics_are_what_prometheus_reads(job: Rehearsal, runtime: Path) -> None:
    _, headers, text = ask(socket_of(runtime), "GET", "/metrics")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    sample = re.compile(r'^[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? [-+0-9.e]+$')
    comment = re.compile(r"^# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ (gauge|counter|summary))$")
    lines = text.splitlines()
    assert text.endswith("\n")
    assert [line for line in lines if not sample.match(line) and not comment.match(line)] == []
    assert 'stepwatch_state{state="IDLE"} 1' in lines


def test_nobody_is_asked_where_the_directory_is_open_to_others(job: Rehearsal, runtime: Path) -> None:
    socket_of(runtime)
    runtime.chmod(0o755)
    assert stepwatch(runtime, "status").returncode == 6
