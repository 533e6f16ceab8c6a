"""`stepwatch logs` over files and standard input, without stepwatchd."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import stepwatch

LINES = (
    "2024-01-15 10:30:15 INFO Step 100: loss=1.234, lr=1e-4, time=0.5s\n"
    "Traceback (most recent call last):\n"
    '  File "train.py", line 7, in <module>\n'
    "ValueError: bad value\n"
)


def test_a_summary_names_the_cause_and_the_last_step_of_each_rank(tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_text(LINES)
    (tmp_path / "rank4.log").write_text("2024-01-15 10:30:15 INFO Step 101: loss=1.5, lr=1e-4\n")
    text = stepwatch("logs", tmp_path / "rank3.log", tmp_path / "rank4.log").stdout
    assert text.startswith("cause: ")
    assert "rank 3" in text and "ValueError: bad value" in text
    assert "101" in text and "1.234" in text


def test_json_has_one_object_per_record(tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_text(LINES)
    step, failed = map(json.loads, stepwatch("logs", tmp_path / "rank3.log", "--json").stdout.splitlines())
    assert (step["rank"], step["step"], step["progress"]["loss"], step["log.level"]) == (3, 100, 1.234, "info")
    assert failed["error.type"] == "ValueError" and failed["error.stack_trace"].startswith("Traceback")


def test_filters_print_the_records_that_match(tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_text(LINES)
    path = tmp_path / "rank3.log"
    assert "train.py" in stepwatch("logs", path, "--severity", "error").stdout
    assert "Step 100" not in stepwatch("logs", path, "--severity", "error").stdout
    assert stepwatch("logs", path, "--rank", "4").stdout == ""
    assert "Step 100" in stepwatch("logs", path, "--grep", r"Step \d+").stdout


def test_standard_input_is_read_to_its_end() -> None:
    done = stepwatch("logs", "--stdin", "--json", given=LINES)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2


def test_unusable_arguments_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n")
    for arguments, part in (
        ([], "files or --stdin"),
        ([tmp_path / "a.log", "--grep", "("], "regular expression"),
        ([tmp_path / "missing.log"], "cannot open"),
    ):
        done = stepwatch("logs", *arguments)
        assert done.returncode == 2 and part in done.stderr
