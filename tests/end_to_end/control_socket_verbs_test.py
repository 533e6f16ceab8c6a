"""`stepwatch start`, `stop`, `apply` and `rollback` of a running job: through its control socket, also with --wait."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import answer, check, stepwatch
from rehearse_process import BINARY, Rehearsal, open_job

pytestmark = pytest.mark.usefixtures("runtime")

OFF = '{"dynamic_on": false, "collect_times": 3, "wg_distribution": true, "ops": ["norm"]} // by hand\n'
ON = OFF.replace("false", "true")
LONG = ON.replace("3", "1000000")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with open_job(tmp_path, OFF) as job:
        yield job


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.json"
    path.write_text(LONG)
    return path


def test_a_verb_on_the_file_of_a_running_job_goes_through_its_control_socket(job: Rehearsal, new: Path) -> None:
    code, applied = answer("apply", new, "--config", job.config)
    check("Change", applied)
    assert (code, applied["via"], applied["outcome"], applied["taken"]) == (0, "door", "written", "armed")
    assert (applied["replaced_sha256"], applied["sha256"]) == (sha256(OFF), sha256(LONG))
    assert job.config.read_text() == LONG
    job.until_event("applied")
    assert answer("start", job.config)[0] == 7
    assert answer("stop", job.config)[1]["taken"] == "stopping"
    assert job.config.read_text() == LONG.replace("true", "false", 1)
    job.until_event("drained")
    code, conflict = answer("start", job.config, "--if-match", sha256("x"))
    assert (code, conflict["error"]["code"]) == (3, "conflict")
    assert conflict["error"]["found_sha256"] == sha256(job.config.read_text())
    new.write_text('{\n  "ops": "norm"\n}')
    refused = stepwatch("apply", new, "--config", job.config)
    assert refused.returncode == 2 and f'{new}:2:10: error: "ops"' in refused.stderr


def test_the_only_job_need_not_be_named_and_a_job_is_named_as_for_status(job: Rehearsal, new: Path) -> None:
    assert answer("apply", new)[1]["config"] == str(job.config)
    for word in (job.process.pid, job.config):
        assert answer("stop", word)[1]["via"] == "door"
    assert stepwatch("start").returncode == 0


def test_without_a_job_the_file_is_written(tmp_path: Path, new: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(OFF)
    code, started = answer("start", config)
    assert (code, started["via"], config.read_text()) == (0, "file", ON)
    code, alone = answer("stop", config, "--wait", "drained")
    assert (code, alone["error"]["code"], config.read_text()) == (6, "no_job", ON)


def test_a_static_job_is_gone_past(tmp_path: Path) -> None:
    with Rehearsal(tmp_path, ON, "--steps", "1000000", dynamic=False) as job:
        job.until_socket_opens()
        code, stopped = answer("stop", job.config)
        assert (code, stopped["via"]) == (0, "file")
        code, refused = answer("start", job.process.pid)
        assert (code, refused["error"]["code"]) == (5, "static")


def test_wait_applied_means_that_rows_are_written(job: Rehearsal, new: Path) -> None:
    code, applied = answer("apply", new, "--config", job.config, "--wait", "applied", "--timeout", "60")
    assert (code, applied["reached"]) == (0, True)
    assert [row for row in job.rows("grad_reduced") if int(row["step"]) == applied["applied_step"]]
    code, stopped = answer("stop", job.config, "--wait", "drained", "--timeout", "60")
    assert (code, stopped["reached"], stopped["plan_id"]) == (0, True, 1)
    ledger = stopped["ledger"]
    rows = job.rows("grad_reduced") + job.rows("grad_unreduced")
    assert ledger["produced"] == ledger["written"] == len(rows) > 0


def test_a_stop_with_now_ends_when_the_plan_is_out_of_force(tmp_path: Path, new: Path) -> None:
    with open_job(tmp_path, OFF, step_time="50ms") as job:
        assert answer("apply", new, "--config", job.config, "--wait", "applied", "--timeout", "60")[0] == 0
        code, stopped = answer("stop", job.config, "--now", "--timeout", "60")
        assert (code, stopped["taken"], stopped["reached"]) == (0, "stopping", True)
        assert answer("status", job.config)[1]["state"] in ("DRAINING", "IDLE")
        again = stepwatch("stop", job.config, "--now")  # nothing is in force
        assert again.returncode == 7 and "stopped" in again.stdout
        code, drained = answer("stop", job.config, "--wait", "drained", "--timeout", "60")
        assert (code, drained["reached"]) == (7, True)
        job.until_event("drained")
        job.check_ledgers()
        assert job.rows("grad_reduced")


def test_now_needs_a_job_and_excludes_wait(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(ON)
    code, alone = answer("stop", config, "--now")
    assert (code, alone["error"]["code"], config.read_text()) == (6, "no_job", ON)
    for words in (["--now", "--wait", "drained"], ["--timeout", "3"]):
        refused = stepwatch("stop", config, *words)
        assert refused.returncode == 2 and "--wait" in refused.stderr
    assert stepwatch("start", config, "--timeout", "3").returncode == 2
    assert config.read_text() == ON


def test_wait_drained_ends_when_all_rows_are_written(job: Rehearsal) -> None:
    code, started = answer("start", job.config, "--wait", "drained", "--timeout", "60")
    assert (code, started["reached"], started["collected_steps"]) == (0, True, 3)
    assert len(job.row_steps("grad_reduced")) == 3


def test_an_edit_for_a_step_begins_there_and_gives_way_to_the_next(job: Rehearsal, new: Path, tmp_path: Path) -> None:
    code, applied = answer("apply", new, "--config", job.config, "--at-step", "100000000")
    check("Change", applied)
    assert (code, applied["taken"], applied["at_step"]) == (0, "armed", 100000000)
    again = stepwatch("apply", new, "--config", job.config, "--at-step", "7")
    assert again.returncode == 7 and "plan 1 waits for step 100000000" in again.stdout
    short = tmp_path / "short.json"
    short.write_text(ON)
    step = answer("status", job.config)[1]["step"] + 400
    code, applied = answer("apply", short, "--config", job.config, "--at-step", step, "--wait", "drained")
    assert (code, applied["at_step"], applied["applied_step"]) == (0, step, step)
    assert job.until_event("superseded")["plan"] == 1
    refused = stepwatch("apply", new, "--config", job.config, "--at-step", "-1")
    assert refused.returncode not in (0, 7) and "--at-step" in refused.stderr


def test_a_file_has_no_steps(tmp_path: Path, new: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(OFF)
    code, refused = answer("apply", new, "--config", config, "--at-step", "5")
    assert (code, refused["error"]["code"]) == (6, "no_job")
    assert config.read_text() == OFF


def test_a_wait_that_takes_too_long_is_reported_and_the_change_stays(job: Rehearsal, new: Path) -> None:
    code, late = answer("apply", new, "--config", job.config, "--wait", "drained", "--timeout", "0.3")
    assert (code, late["reached"]) == (5, False)
    assert "0.3 s" in late["why"]
    assert job.config.read_text() == LONG


def test_a_job_that_goes_away_ends_the_wait(job: Rehearsal, new: Path) -> None:
    command = [str(BINARY), "apply", str(new), "--config", str(job.config), "--wait", "drained"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verb:
        assert verb.stdout is not None
        assert "waits for step" in verb.stdout.readline()
        job.process.kill()
        _, errors = verb.communicate(timeout=60)
    assert verb.returncode == 6
    assert "the job is gone" in errors


def test_a_wait_for_a_replaced_edit_fails(tmp_path: Path, new: Path) -> None:
    with Rehearsal(tmp_path, OFF, "--steps", "1000000", "--step-time", "3s") as job:
        job.until_event("seen")
        job.until_socket_opens()
        command = [str(BINARY), "apply", str(new), "--config", str(job.config), "--wait", "applied", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as verb:
            job.until_event("armed")
            assert answer("apply", "--config", job.config, save_as(tmp_path, LONG + "\n"))[0] == 0
            output, _ = verb.communicate(timeout=60)
        assert verb.returncode == 4
        assert "superseded" in json.loads(output)["why"]


def save_as(directory: Path, text: str) -> Path:
    path = directory / "newer.json"
    path.write_text(text)
    return path


def test_dry_run_changes_nothing(job: Rehearsal, new: Path) -> None:
    code, verdict = answer("apply", new, "--dry-run", "--config", job.config)
    assert (code, verdict["valid"], verdict["via"]) == (0, True, "door")
    new.write_text('{"ops": 3}')
    code, verdict = answer("apply", new, "--dry-run", "--config", job.config)
    assert (code, verdict["valid"], verdict["error"]["key"]) == (2, False, "ops")
    assert job.config.read_text() == OFF


def test_rollback_knows_where_the_job_keeps_its_history(job: Rehearsal, new: Path) -> None:
    assert answer("start", job.config, "--wait", "drained", "--timeout", "60")[0] == 0
    job.until_event("wrote_back")
    new.write_text(ON.replace("norm", "max"))
    assert answer("apply", new, "--config", job.config, "--wait", "drained", "--timeout", "60")[0] == 0
    job.until_event("wrote_back")
    code, back = answer("rollback", "--config", job.config, "--wait", "applied", "--timeout", "60")
    assert (code, back["old_plan_id"], back["sha256"]) == (0, 1, sha256(ON))
    assert answer("rollback", "77", "--config", job.config)[0] == 2
    listed = stepwatch("history", job.out)
    assert f"through the control socket: uid {os.geteuid()}, pid " in listed.stdout


def test_a_job_that_is_stopped_for_a_while_is_asked_once(job: Rehearsal, new: Path) -> None:
    """The verb asks again with the same request id: what was under way is not done twice."""
    command = [str(BINARY), "apply", str(new), "--config", str(job.config), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as verb:
        job.process.send_signal(signal.SIGSTOP)
        subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {job.process.pid}"])
        output, _ = verb.communicate(timeout=60)
    assert verb.returncode in (0, 7)
    assert json.loads(output)["sha256"] == sha256(LONG)
    job.until_event("applied")
    assert len(job.events("armed")) == 1
