"""A running job paused, resumed and rotated from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import answer, check, stepwatch
from rehearse_process import Rehearsal, open_job, save

ON = '{"dynamic_on": true, "collect_times": 1000000, "step_count_per_record": 1000000, "wg_distribution": true}'


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with open_job(tmp_path, ON) as job:
        job.until_step(2)
        yield job


def test_a_job_is_paused_and_goes_on(job: Rehearsal) -> None:
    paused = stepwatch("pause", job.config)
    assert paused.returncode == 0
    first = job.until_event("paused")["step"]
    assert paused.stdout == f"plan 1 is paused from step {first} on\n"
    assert "state       COLLECTING, paused, plan 1" in stepwatch("status", job.config).stdout
    again = stepwatch("pause", job.config)
    assert again.returncode == 7 and again.stdout == "plan 1 is paused already\n"
    _, resumed = answer("resume", job.config)
    check("Paused", resumed)
    assert resumed["outcome"] == "resumed" and not resumed["paused"]
    second = job.until_event("resumed")["step"]
    job.until_step(second + 3)
    collected = job.collected(1)
    assert not [step for step in collected if first <= step < second]
    assert {first - 1, second, second + 1} <= set(collected)


def test_a_rotation_leaves_the_closed_file_alone(job: Rehearsal) -> None:
    rotated = stepwatch("rotate", job.config)
    assert rotated.returncode == 0
    head, *names = rotated.stdout.splitlines()
    assert head.startswith("segment 2 begins; closed in ") and "grad_reduced_0-999999.csv" in names
    closed = Path(head.partition("closed in ")[2]) / "grad_reduced_0-999999.csv"
    text = closed.read_text()
    event = job.until_event("rotated")
    job.until_step(event["step"] + 5)
    _, rotation = answer("rotate", job.config)
    check("Rotated", rotation)
    assert rotation["segment"] == 3 and "grad_reduced_0-999999_s2.csv" in rotation["files"]
    assert closed.read_text() == text
    second = (closed.parent / "grad_reduced_0-999999_s2.csv").read_text().splitlines()
    assert {int(row.split(",")[2]) for row in text.splitlines()[1:]} == set(range(1, event["step"] + 1))
    assert {int(row.split(",")[2]) for row in second[1:]} == set(range(event["step"] + 1, rotation["last_step"] + 1))


def test_without_a_plan_in_force_each_verb_fails(job: Rehearsal) -> None:
    save(job.config, ON.replace("true", "false", 1))
    job.until_event("drained")
    for verb in ("pause", "resume", "rotate"):
        refused = stepwatch(verb, job.config)
        assert refused.returncode == 5 and "no plan is in force" in refused.stderr
