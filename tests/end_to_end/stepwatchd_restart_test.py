"""stepwatchd is killed and comes back, and learns the end of its jobs meanwhile."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearse_process import Rehearsal
from stepwatchd_process import NO_JOBS, Stepwatchd, beat, event, own_jobs, start

OFF = json.dumps({"dynamic_on": False, "targets": {}, "format": "csv"})
MANY = "100000000"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Stepwatchd]:
    with Stepwatchd(tmp_path, own_jobs()) as running:
        yield running


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Rehearsal]:
    (tmp_path / "job").mkdir()
    with Rehearsal(tmp_path / "job", OFF, "--steps", MANY, "--step-time", "20ms") as running:
        yield running


def stored_run(daemon: Stepwatchd) -> str:
    """Return the run of the job, as soon as stepwatchd has stored that it knows its process."""

    def known() -> list[str]:
        with daemon.store() as store:
            return [json.loads(row[0])["run"] for row in store.execute("SELECT json FROM processes")]

    run = str(daemon.until(known)[0])
    daemon.until(lambda: (daemon.get(f"/v1/runs/{run}")["step"] or 0) > 5)
    return run


def state_of(daemon: Stepwatchd, run: str) -> str:
    return str(daemon.get(f"/v1/runs/{run}")["state"])


def end(job: Rehearsal, number: signal.Signals) -> None:
    job.process.send_signal(number)
    job.process.communicate(timeout=60)


def test_a_job_that_was_killed_while_stepwatchd_was_away_is_a_lost_process(daemon: Stepwatchd, job: Rehearsal) -> None:
    run = stored_run(daemon)
    daemon.kill()
    end(job, signal.SIGKILL)
    daemon.start()
    (incident,) = daemon.until(lambda: daemon.incidents(run))
    assert (incident["incident"], incident["ranks"]) == ("process_lost", [0])
    assert incident["since_step"] >= 5
    # It is reported once, however often stepwatchd starts.
    daemon.kill()
    daemon.start()
    assert [each["id"] for each in daemon.incidents(run)] == [incident["id"]]


def test_a_job_that_ended_well_while_stepwatchd_was_away_is_no_incident(daemon: Stepwatchd, job: Rehearsal) -> None:
    run = stored_run(daemon)
    daemon.kill()
    end(job, signal.SIGINT)
    daemon.start()
    daemon.until(lambda: state_of(daemon, run) == "ended")
    assert daemon.get(f"/v1/runs/{run}")["end_reason"] == "ok"
    # The process is known to be gone, too, so nobody will think otherwise later.
    with daemon.store() as store:
        daemon.until(lambda: store.execute("SELECT count(*) FROM processes").fetchone()[0] == 0)
    assert daemon.incidents(run) == []


def test_a_run_that_ended_long_ago_does_not_begin_again_because_something_of_it_is_open(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path) as daemon:
        daemon.send(start(), *[beat(step) for step in range(10)])
        daemon.send(event("r1", "end", reason="error"))
        (incident,) = daemon.until(lambda: daemon.incidents("r1"))
        assert incident["incident"] == "process_lost"
        daemon.until(lambda: state_of(daemon, "r1") == "ended")
        daemon.kill(signal.SIGTERM)
        with daemon.store() as store:
            # As they are ten minutes after the end.
            store.execute("DELETE FROM lines")
            store.execute("DELETE FROM begins")
            store.commit()
        daemon.start()
        assert state_of(daemon, "r1") == "ended"
        (same,) = daemon.incidents("r1")
        assert (same["id"], same["state"]) == (incident["id"], "opened")

        # When it is started again after all, and trains, the same incident is over.
        daemon.send(event("r1", "restart", world=1))
        daemon.send(beat(1))
        steps = iter(range(2, 1000))

        def resolved() -> bool:
            daemon.send(beat(next(steps)))
            (now,) = daemon.incidents("r1")
            return (now["id"], now["state"]) == (incident["id"], "resolved")

        daemon.until(resolved)


def test_discovery_is_switched_off_and_on_again_while_a_job_runs_and_is_killed(
    daemon: Stepwatchd, job: Rehearsal
) -> None:
    run = stored_run(daemon)
    on = daemon.config.read_text()
    daemon.config.write_text(json.dumps(NO_JOBS))
    daemon.until(lambda: daemon.log.read_text().count(": applied") == 1)
    end(job, signal.SIGKILL)
    daemon.config.write_text(on)
    (incident,) = daemon.until(lambda: daemon.incidents(run))
    assert incident["incident"] == "process_lost"
