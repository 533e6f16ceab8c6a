"""Several processes as the ranks of one job: `stepwatch ps`, `status --ranks` and `apply --dry-run=ranks`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import answer, check, stepwatch
from rehearse_process import Rehearsal

WORLD = 3
OFF = '{"dynamic_on": false}'
ON = '{"dynamic_on": true, "collect_times": 1000000, "wg_distribution": true, "ops": ["norm"]}'


def start(directory: Path, rank: int, *arguments: str) -> Rehearsal:
    ranked = ("--rank", str(rank), "--world-size", str(WORLD), "--steps", "1000000", "--step-time", "5ms")
    return Rehearsal(directory, OFF, *ranked, *arguments)


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[list[Rehearsal]]:
    ranks = [start(tmp_path, rank, "--store", str(tmp_path / "store")) for rank in range(WORLD)]
    for rank in ranks:
        rank.until_step(1)
        rank.until_socket_opens()
    until(lambda: ranks_of()[0] == 0)
    yield ranks
    for rank in ranks:
        rank.__exit__()


def until(wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ranks_of(*job: object) -> tuple[int, dict]:
    return answer("status", "--ranks", *job)


def test_the_ranks_of_a_run_are_one_job(job: list[Rehearsal]) -> None:
    _, ranks = ranks_of()
    check("Ranks", ranks)
    assert [rank["rank"] for rank in ranks["ranks"]] == [0, 1, 2]
    assert [rank["pid"] for rank in ranks["ranks"]] == [rank.process.pid for rank in job]
    assert ranks["complete"] and not ranks["missing"]
    table = stepwatch("status", "--ranks").stdout
    assert "3 of 3 ranks" in table and table.count("IDLE") == 3
    # Every rank's own control socket says the same.
    for rank in job:
        assert ranks_of(rank.process.pid)[1]["complete"]

    listed = answer("ps")[1]
    assert len(listed["jobs"]) == WORLD
    assert [(run["ranks"], run["world_size"]) for run in listed["runs"]] == [([0, 1, 2], WORLD)]
    text = stepwatch("ps").stdout
    assert f"run {listed['runs'][0]['run_id'][:8]}" in text and "3/3 ranks" in text
    # The job need not be named, and rank 0 stands for it.
    assert answer("status")[1]["pid"] == job[0].process.pid


def test_all_ranks_pause_go_on_and_begin_an_edit_at_one_step(job: list[Rehearsal], tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(ON)
    step = max(rank["step"] for rank in ranks_of()[1]["ranks"]) + 600
    code, applied = answer("apply", new, "--config", job[0].config, "--at-step", step)
    assert code == 0 and applied["at_step"] == step
    for rank in job:
        assert rank.until_event("applied")["step"] == step
    for verb, event in (("pause", "paused"), ("resume", "resumed")):
        code, paused = answer(verb, job[2].process.pid)
        check("Paused", paused)
        # On a machine that is busy the ranks may take longer than the answer waits.
        assert code in (0, 5) and paused["outcome"] in (event, "under_way")
        assert paused["ranks"] == "all"
        first, *others = [rank.until_event(event)["step"] for rank in job]
        assert others == [first] * (WORLD - 1)


def test_a_rank_that_is_killed_is_missing(job: list[Rehearsal]) -> None:
    job[1].process.send_signal(signal.SIGSTOP)
    code, ranks = ranks_of(job[0].process.pid)
    job[1].process.send_signal(signal.SIGCONT)
    assert code == 5 and [rank["rank"] for rank in ranks["missing"]] == [1]
    check("Ranks", ranks)
    job[0].process.kill()
    job[0].process.wait()
    done = stepwatch("status", "--ranks", job[2].process.pid)
    assert done.returncode == 6 and "rank 0 has not answered" in done.stderr


def test_a_dry_run_asks_every_rank_and_changes_nothing(job: list[Rehearsal], tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(ON)
    config = job[0].config

    def dry_run() -> tuple[int, dict]:
        return answer("apply", new, "--config", config, "--dry-run=ranks")

    code, trials = dry_run()
    assert code == 0
    check("DryRun", trials)
    assert trials["accepted"] == WORLD and all(rank["rows_per_step"] > 0 for rank in trials["ranks"])
    assert "3 of 3 ranks would accept" in stepwatch("apply", new, "--config", config, "--dry-run=ranks").stdout
    assert config.read_text() == OFF
    assert {rank["state"] for rank in ranks_of()[1]["ranks"]} == {"IDLE"}

    new.write_text('{"ops": 3}')
    code, refused = dry_run()
    assert code == 2 and refused["error"]["code"] == "invalid"
    new.write_text(ON)
    job[2].process.kill()
    job[2].process.wait()
    code, missing = dry_run()
    assert code == 4
    check("DryRun", missing)
    assert stepwatch("apply", new, "--config", tmp_path / "other.json", "--dry-run=ranks").returncode == 6


def test_ranks_without_a_store_answer_for_themselves(tmp_path: Path, runtime: Path) -> None:
    with start(tmp_path, 1) as rank:
        rank.until_step(1)
        until(lambda: stepwatch("status").returncode == 0)
        code, ranks = ranks_of()
        check("Ranks", ranks)
        assert code == 5 and ranks["alone"] and [each["rank"] for each in ranks["ranks"]] == [1]
        new = tmp_path / "new.json"
        new.write_text(ON)
        done = stepwatch("apply", new, "--config", rank.config, "--dry-run=ranks")
        assert done.returncode == 5 and "only this rank was asked" in done.stdout
