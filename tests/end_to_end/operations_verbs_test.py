"""`stepwatch runs`, `incidents`, `ack`, `silence` and `why` beside a real stepwatchd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import command_line
from rehearse_process import BINARY, Rehearsal, open_job, save
from stepwatchd_process import DEADLINE_SECONDS, NO_JOBS, Stepwatchd, beat, event, start

NO_STEPWATCHD = 8


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stepwatchd]:
    """Run one where verbs look for it; it looks for no jobs."""
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(Path(os.environ["STEPWATCH_RUNTIME_DIR"]) / "ops"))
    monkeypatch.chdir(tmp_path)
    with Stepwatchd(tmp_path, NO_JOBS, "stepwatchd.sock") as running:
        yield running


def stepwatch(*arguments: object, code: int = 0, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = command_line.stepwatch(*arguments, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def answer(*arguments: object, code: int = 0, env: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stepwatch(*arguments, "--json", code=code, env=env).stdout)
    assert found["version"] == 1
    return found


def make_exception(daemon: Stepwatchd, run: str = "r2") -> dict[str, Any]:
    stack = 'Traceback\n  File "train.py", line 7, in <module>\n  File "gpt.py", line 12, in forward\nValueError'
    raised = event(run, "exception", type="ValueError", message="bad sample", stack=stack)
    daemon.send(start(run, 2), *[beat(step, run=run, rank=rank) for step in range(9) for rank in (0, 1)])
    daemon.send({**raised, "rank": 1})
    return daemon.incident_of(run)


# --- runs and incidents ---


def test_runs_are_listed_and_those_that_have_ended_only_on_request(daemon: Stepwatchd) -> None:
    assert "has no runs" in stepwatch("runs").stderr
    daemon.send(start("alive", 2), *[beat(step, run="alive", rank=rank) for step in range(9) for rank in (0, 1)])
    daemon.send(start("over"), beat(3, run="over"), event("over", "end", reason="ok"))
    daemon.until(lambda: daemon.get("/v1/runs/over")["state"] == "ended")
    listed = stepwatch("runs")
    assert "alive" in listed.stdout and "over" not in listed.stdout
    assert "1 ended run hidden" in listed.stderr
    assert "ended (ok)" in stepwatch("runs", "--all").stdout
    assert [run["id"] for run in answer("runs")["runs"]] == ["alive"]
    runs = {run["id"]: run for run in answer("runs", "--all")["runs"]}
    assert runs["alive"]["step"] == 8 and runs["over"]["end_reason"] == "ok"


def test_incidents_that_are_open_are_listed_with_culprits_and_the_last_good_step(daemon: Stepwatchd) -> None:
    assert "no incident is open" in stepwatch("incidents").stderr
    incident = daemon.make_incident()
    line = stepwatch("incidents").stdout.splitlines()[1].split()
    assert line[:6] == [incident["id"], "critical", "loss_nonfinite", "r1", "0", "9"]
    assert answer("incidents", "--run", "r")["incidents"][0]["id"] == incident["id"]
    assert answer("incidents", "--limit", 1)["incidents"][0]["id"] == incident["id"]
    assert "1 open" in stepwatch("runs").stdout
    refused = stepwatch("incidents", "--run", "nothing", code=2)
    assert 'no run with the id prefix "nothing"' in refused.stderr
    stepwatch("incidents", "--limit", 0, code=2)


def test_without_a_stepwatchd_each_verb_prints_where_it_looked_and_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(tmp_path / "none"))
    for arguments in (["runs"], ["incidents"], ["incidents", "--watch"], ["ack", "1"], ["silence", "--list"], ["why"]):
        failed = stepwatch(*arguments, code=NO_STEPWATCHD)
        assert failed.stdout == ""
        assert str(tmp_path / "none" / "stepwatchd.sock") in failed.stderr and "stepwatchd run" in failed.stderr
        assert answer(*arguments, code=NO_STEPWATCHD)["error"]["code"] == "unreachable"
    elsewhere = tmp_path / "other.sock"
    assert f"{elsewhere}: no such file" in stepwatch("runs", "--stepwatchd", elsewhere, code=NO_STEPWATCHD).stderr


def test_a_job_in_the_place_of_stepwatchd_is_not_taken_for_it(tmp_path: Path, runtime: Path) -> None:
    with open_job(tmp_path, '{"dynamic_on": false}'):
        socket = next(runtime.glob("*.sock"))
        assert "another program" in stepwatch("runs", "--stepwatchd", socket, code=NO_STEPWATCHD).stderr


def test_a_stepwatchd_may_be_named_by_its_socket(daemon: Stepwatchd, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.make_incident()
    monkeypatch.delenv("STEPWATCH_RUNTIME_DIR")
    assert "r1" in stepwatch("runs", "--stepwatchd", daemon.socket).stdout


# --- acknowledgements and silences ---


def test_an_incident_is_acknowledged_by_the_beginning_of_its_id(daemon: Stepwatchd) -> None:
    nan, raised = daemon.make_incident(), make_exception(daemon)
    done = stepwatch("ack", nan["id"][:6], "--note", "looking", "--by", "kim")
    assert "acknowledged by kim: looking" in done.stdout
    assert "acknowledged by kim: looking" in stepwatch("incidents").stdout
    assert daemon.incident_of("r1")["acknowledged"]["by"] == "kim"
    assert answer("ack", raised["id"])["incident"]["acknowledged"]["by"] != ""
    ambiguous = stepwatch("ack", "", code=2)
    assert f"{nan['id']} (loss_nonfinite in r1)" in ambiguous.stderr
    assert f"{raised['id']} (exception in r2)" in ambiguous.stderr
    assert answer("ack", "nothing", code=2)["error"]["code"] == "not_found"


def test_a_silence_is_made_listed_and_ended(daemon: Stepwatchd) -> None:
    daemon.make_incident("run-1")
    assert "no active silence" in stepwatch("silence", "--list").stderr
    made = stepwatch("silence", "--run", "run", "--kind", "loss_*", "--for", "2h", "--note", "known", "--by", "kim")
    identity = made.stdout.split()[1].rstrip(":")
    assert "loss_* in run-1, until " in made.stdout
    line = stepwatch("silence", "--list").stdout.splitlines()[1]
    assert line.startswith(identity) and "1 h 59 m" in line and "kim" in line and "known" in line
    assert "silenced" in stepwatch("incidents").stdout
    assert stepwatch("silence", "--end", identity[:5]).stdout == f"silence {identity} ended\n"
    assert answer("silence", "--list")["silences"] == []
    assert "silenced" not in stepwatch("incidents").stdout
    stepwatch("silence", "--end", identity, code=2)


def test_an_unusable_silence_is_refused_with_the_accepted_values(daemon: Stepwatchd) -> None:
    refused = stepwatch("silence", "--kind", "stragler", "--for", "2h", code=2)
    assert "unknown kind of incident stragler; the nearest kind is straggler" in refused.stderr
    assert "the kinds are stuck, " in stepwatch("silence", "--kind", "zzzzzzzzz", "--for", "2h", code=2).stderr
    assert "examples: 90m, 2h, 3d" in stepwatch("silence", "--for", "2 hours", code=2).stderr
    assert "--for" in stepwatch("silence", "--kind", "stuck", code=2).stderr
    stepwatch("silence", "--list", "--end", "1", code=2)
    note = stepwatch("silence", "--run", "to-come", "--for", "1m").stderr
    assert "a run with exactly this name" in note
    assert daemon.get("/v1/silences")["silences"][0]["run"] == "to-come"


# --- following ---


class Watching:
    """`stepwatch incidents --watch`, whose lines are read as they come."""

    def __init__(self, *arguments: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [str(BINARY), "incidents", "--watch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.notes: list[str] = []
        self.readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.notes), daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, stream: Any, into: list[str]) -> None:
        into.extend(iter(stream.readline, ""))

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)


def test_changes_are_printed_as_they_come_until_it_is_interrupted(daemon: Stepwatchd) -> None:
    first = daemon.make_incident()
    with Watching() as plain, Watching("--json", "--run", "r2") as of_one_run:
        daemon.until(lambda: plain.lines)
        assert "  open  " in plain.lines[0] and first["id"] in plain.lines[0]
        second = make_exception(daemon)
        daemon.until(lambda: of_one_run.lines)  # it asks from now on
        stepwatch("ack", second["id"], "--by", "kim")
        daemon.until(lambda: any("acknowledged by kim" in line for line in plain.lines))
        daemon.until(lambda: any('"acknowledged"' in line and "kim" in line for line in of_one_run.lines))
        changes = [json.loads(line) for line in of_one_run.lines]
        assert {each["run"] for each in changes} == {"r2"}
        assert any("  opened  " in line and second["id"] in line for line in plain.lines)
        # Whether the second one had asked yet when the incident opened is not known.
        assert changes[0]["change"] in ("open", "opened") and changes[-1]["change"] == "acknowledged"
        assert plain.end(signal.SIGINT) == 0
        assert of_one_run.end(signal.SIGTERM) == 0


def test_a_change_during_a_restart_of_stepwatchd_is_printed_once(daemon: Stepwatchd) -> None:
    with Watching("--json") as watching:
        first = daemon.make_incident()
        daemon.until(lambda: watching.lines)
        watching.process.send_signal(signal.SIGSTOP)
        daemon.kill()
        daemon.start()
        second = make_exception(daemon)
        watching.process.send_signal(signal.SIGCONT)
        daemon.until(lambda: any(second["id"] in line for line in watching.lines))
        changes = [json.loads(line) for line in watching.lines]
        assert {each["id"] for each in changes} == {first["id"], second["id"]}
        numbers = [each["number"] for each in changes if each["change"] != "open"]
        assert numbers == sorted(set(numbers))
        assert any("reconnected" in note for note in watching.notes)
        assert watching.end(signal.SIGTERM) == 0


def test_a_stepwatchd_with_another_store_is_followed_after_a_gap(daemon: Stepwatchd) -> None:
    first = daemon.make_incident()
    with Watching() as watching:
        daemon.until(lambda: watching.lines)
        daemon.kill(signal.SIGTERM)
        (daemon.directory / "state").rename(daemon.directory / "before")
        daemon.start()
        daemon.until(lambda: any(line.startswith("gap: ") for line in watching.lines))
        second = make_exception(daemon)
        daemon.until(lambda: any(second["id"] in line for line in watching.lines))
        assert first["id"] != second["id"]


# --- why ---


def test_why_shows_time_culprit_layer_and_advice_on_one_screen(daemon: Stepwatchd) -> None:
    incident = make_exception(daemon)
    text = stepwatch("why").stdout
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80
    assert f"critical exception: a rank raised an exception  [{incident['id']}]" in text
    assert "last good step 8" in text
    assert "\nfirst     rank 1\n" in text
    assert '\nlayer     File "gpt.py", line 12, in forward\n' in text
    assert "\nevidence  ValueError: bad sample" in text
    assert "\nchanged   edits unknown: no job of the run responds on this machine" in text
    assert "--stacks" in text and "\nnext      " in text
    assert 'File "train.py", line 7, in <module>' in stepwatch("why", "r2", "--stacks").stdout
    found = answer("why", "r")
    assert found["run"]["id"] == "r2" and found["incidents"][0]["id"] == incident["id"]
    assert found["changed_unknown"] and found["layer"].startswith("File")


def test_why_without_a_run_means_the_worst_and_of_an_ended_run_the_last(daemon: Stepwatchd) -> None:
    assert "no incident is open" in stepwatch("why").stdout
    assert answer("why")["incidents"] == []
    stepwatch("ack", daemon.make_incident()["id"])
    make_exception(daemon)
    assert answer("why")["run_id"] == "r2"  # the other is acknowledged
    daemon.send(event("r1", "end", reason="ok"))
    found = answer("why", "r1")
    assert found["run"]["state"] == "ended" and found["incidents"][0]["incident"] == "loss_nonfinite"
    daemon.send(start("well"), beat(3, run="well"))
    assert "no incidents" in stepwatch("why", "well").stdout
    assert 'no run with the id prefix "x"' in stepwatch("why", "x", code=2).stderr


def test_why_shows_a_jump_of_the_learning_rate(daemon: Stepwatchd) -> None:
    daemon.send(start(), *[beat(step, lr=1e-4 if step < 9 else 1e-2) for step in range(10)])
    daemon.send(*[beat(step, "nan", lr=1e-2) for step in range(10, 14)])
    daemon.incident_of("r1")
    text = stepwatch("why").stdout.replace("\n          ", " ")
    assert "the learning rate went from 0.0001 to 0.01 at step 9" in text


def test_why_asks_the_running_job_which_edits_came_before(daemon: Stepwatchd, tmp_path: Path) -> None:
    config = {"dynamic_on": True, "collect_times": 1000000, "wg_distribution": True, "ops": ["norm"]}
    with Rehearsal(tmp_path, json.dumps(config), "--steps", "100000000", "--step-time", "5ms") as job:
        job.until_event("applied")
        save(job.config, json.dumps({**config, "ops": ["norm", "nans"], "step_interval": 2}))
        job.until_event("applied")
        threading.Thread(target=job.finish, daemon=True).start()
        run = run_of(job)
        daemon.until(lambda: "plan 2" in command_line.stepwatch("history", run).stdout)
        daemon.make_incident(run)
        found = answer("why", run)
        assert found["changed_unknown"] is None
        assert found["changed"][0].startswith("plan 2 began at step ")
        assert "step_interval 1 -> 2" in found["changed"][0] and f"by uid {os.geteuid()}" in found["changed"][0]
        assert found["changed"][1].startswith("plan 1 began at step ")
        # The job measures gradients, which are finite.
        daemon.until(lambda: "finite" in answer("why", run)["layer_unknown"])
    # It has ended, and its history is not in the usual place.
    assert "no job of the run responds" in answer("why", run)["changed_unknown"]
    assert answer("why", run, env={"MONITOR_OUTPUT_DIR": str(job.out)})["changed"] == found["changed"]


def run_of(job: Rehearsal) -> str:
    """Return the id of its run, as soon as its control socket is open."""
    job.until_socket_opens()
    listed = answer("ps")["jobs"]
    (status,) = [each["status"] for each in listed if each["pid"] == job.process.pid]
    return str(status["run_id"])
