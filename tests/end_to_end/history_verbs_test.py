"""`stepwatch history`, `show` and `rollback`: the edits of a run, and the way back to one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import stepwatch
from rehearse_process import Rehearsal, save

FIRST = '{"dynamic_on": true, "wg_distribution": true, "collect_times": 2} // the first\n'
SECOND = '{"dynamic_on": true, "param_distribution": true, "collect_times": 3} // the second\n'


@pytest.fixture
def run(tmp_path: Path) -> Rehearsal:
    """A run of two plans that has ended, with a refused edit between them."""
    with Rehearsal(tmp_path, FIRST, "--steps", "100000", "--step-time", "2ms") as rehearsal:
        rehearsal.until_event("wrote_back")
        save(rehearsal.config, '{\n  "ops": "norm"\n}')
        rehearsal.until_event("refused")
        save(rehearsal.config, SECOND)
        rehearsal.until_event("wrote_back")
    return rehearsal


def test_history_lists_the_outcome_of_each_edit(run: Rehearsal) -> None:
    (directory,) = run.out.iterdir()
    for path in (run.out, directory, directory / "stepwatch_history.jsonl"):
        lines = [json.loads(line) for line in stepwatch("history", path, "--json").stdout.splitlines()]
        assert [line["outcome"] for line in lines] == ["applied", "finished", "refused", "applied", "finished"]
        assert all(line["version"] == 1 and line["config"] == str(run.config) for line in lines)
    assert (lines[2]["line"], lines[2]["column"], lines[2]["key"]) == (2, 10, "ops")
    assert lines[4]["ledger"]["produced"] == lines[4]["ledger"]["written"] > 0
    text = stepwatch("history", run.out)
    assert text.returncode == 0
    assert "plan 2   finished" in text.stdout and 'line 2, column 10  "ops"' in text.stdout


def test_a_running_job_needs_no_directory(tmp_path: Path) -> None:
    with Rehearsal(tmp_path, FIRST, "--steps", "100000", "--step-time", "2ms") as rehearsal:
        rehearsal.until_event("wrote_back")
        rehearsal.until_socket_opens()
        for where in (str(rehearsal.config), str(rehearsal.process.pid)):
            lines = [json.loads(line) for line in stepwatch("history", where, "--json").stdout.splitlines()]
            assert [line["outcome"] for line in lines] == ["applied", "finished"]
            assert stepwatch("show", 1, where).stdout == FIRST


def test_a_torn_last_line_is_left_out_and_reported(run: Rehearsal) -> None:
    (history,) = run.out.glob("*/stepwatch_history.jsonl")
    with history.open("a") as file:
        file.write('{"version": 1, "outc')
    result = stepwatch("history", run.out, "--json")
    assert result.returncode == 5 and len(result.stdout.splitlines()) == 5
    assert "the last line was cut off" in result.stderr


def test_show_prints_the_bytes_of_a_plan(run: Rehearsal) -> None:
    assert stepwatch("show", 1, run.out).stdout == FIRST
    assert json.loads(stepwatch("show", 2, run.out, "--json").stdout)["text"] == SECOND
    missing = stepwatch("show", 3, run.out)
    assert missing.returncode == 2 and "no plan 3" in missing.stderr
    assert stepwatch("show", 1, run.config).returncode == 2


def test_rollback_goes_back_to_the_config_before_the_last(run: Rehearsal) -> None:
    back = stepwatch("rollback", "--config", run.config, "--history", run.out)
    assert (back.returncode, run.config.read_text()) == (0, FIRST)
    assert "plan 1" in back.stdout
    assert stepwatch("rollback", 1, "--config", run.config, "--history", run.out).returncode == 7
    assert stepwatch("rollback", 2, "--config", run.config, "--history", run.out).returncode == 0
    assert run.config.read_text() == SECOND
    assert stepwatch("rollback", 9, "--config", run.config, "--history", run.out).returncode == 2
    guarded = stepwatch("rollback", "--config", run.config, "--history", run.out, "--if-match", "0" * 64)
    assert (guarded.returncode, run.config.read_text()) == (3, SECOND)


def test_rollback_looks_in_the_usual_place_and_only_for_this_config(run: Rehearsal, tmp_path: Path) -> None:
    run.out.rename(tmp_path / "monitor_output")
    assert stepwatch("rollback", "--config", "config.json", cwd=tmp_path).returncode == 0
    assert run.config.read_text() == FIRST
    other = tmp_path / "other.json"
    other.write_text("{}")
    none = stepwatch("rollback", "--config", other, cwd=tmp_path)
    assert none.returncode == 2 and "has no history in ./monitor_output" in none.stderr
    assert other.read_text() == "{}"
