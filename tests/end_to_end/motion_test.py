"""A running job paused, resumed and rotated from the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_socket_client import ask, socket_of
from control_socket_test import check, stepwatch
from rehearse_process import BINARY, Rehearsal, save

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")

ON = '{"dynamic_on": true, "collect_times": 1000000, "step_count_per_record": 1000000, "wg_distribution": true}'


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "r"
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with Rehearsal(tmp_path, ON, "--steps", "1000000", "--step-time", "5ms") as rehearsal:
        rehearsal.until_step(2)
        rehearsal.until_socket_opens()
        yield rehearsal


def test_a_job_is_paused_and_goes_on(job: Rehearsal, runtime: Path) -> None:
    paused = stepwatch(runtime, "pause", job.config)
    assert paused.returncode == 0
    first = job.until_event("paused")["step"]
    assert paused.stdout == f"plan 1 is paused from step {first} on\n"
    assert "state       COLLECTING, paused, plan 1" in stepwatch(runtime, "status", job.config).stdout
    again = stepwatch(runtime, "pause", job.config)
    assert again.returncode == 7 and again.stdout == "plan 1 is paused already\n"
    answer = json.loads(stepwatch(runtime, "resume", job.config, "--json").stdout)
    check("Paused", answer)
    assert answer["outcome"] == "resumed" and not answer["paused"]
    second = job.until_event("resumed")["step"]
    job.until_step(second + 3)
    collected = job.collected(1)
    assert not [step for step in collected if first <= step < second]
    assert {first - 1, second, second + 1} <= set(collected)


def test_a_rotation_leaves_the_closed_file_alone(job: Rehearsal, runtime: Path) -> None:
    rotated = stepwatch(runtime, "rotate", job.config)
    assert rotated.returncode == 0
    head, *names = rotated.stdout.splitlines()
    assert head.startswith("segment 2 begins; closed in ") and "grad_reduced_0-999999.csv" in names
    closed = Path(head.partition("closed in ")[2]) / "grad_reduced_0-999999.csv"
    text = closed.read_text()
    event = job.until_event("rotated")
    job.until_step(event["step"] + 5)
    answer = json.loads(stepwatch(runtime, "rotate", job.config, "--json").stdout)
    check("Rotated", answer)
    assert answer["segment"] == 3 and "grad_reduced_0-999999_s2.csv" in answer["files"]
    assert closed.read_text() == text
    second = (closed.parent / "grad_reduced_0-999999_s2.csv").read_text().splitlines()
    assert {int(row.split(",")[2]) for row in text.splitlines()[1:]} == set(range(1, event["step"] + 1))
    assert {int(row.split(",")[2]) for row in second[1:]} == set(range(event["step"] + 1, answer["last_step"] + 1))


def test_what_does_not_run_is_neither_paused_nor_rotated(job: Rehearsal, runtime: Path) -> None:
    save(job.config, ON.replace("true", "false", 1))
    job.until_event("drained")
    for verb in ("pause", "resume", "rotate"):
        refused = stepwatch(runtime, verb, job.config)
        assert refused.returncode == 5 and "no plan is in force" in refused.stderr
        told = json.loads(stepwatch(runtime, verb, job.config, "--json").stdout)
        check("Error", told)
        assert told["error"]["code"] == "not_collecting"
    assert stepwatch(runtime, "pause", "nobody").returncode == 6


def test_the_answers_are_as_the_schema_says_also_where_a_step_takes_long(tmp_path: Path, runtime: Path) -> None:
    with Rehearsal(tmp_path, ON, "--steps", "1000000", "--step-time", "2500ms") as rehearsal:
        rehearsal.until_event("applied")
        time.sleep(0.1)  # into the step; the answer is the same wherever in it
        path = socket_of(runtime)
        for target, schema in {"/v1/pause": "Paused", "/v1/rotate": "Rotated"}.items():
            status, _, text = ask(path, "POST", target)
            assert status in (200, 202)
            check(schema, json.loads(text))
        rehearsal.until_event("rotated")
        assert json.loads(ask(path, "GET", "/v1/status")[2])["paused"] is True
