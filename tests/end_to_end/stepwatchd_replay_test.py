"""`stepwatchd replay` as a program: lines in, incidents out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from build_tree import STEPWATCHD


def beats(steps: int) -> list[dict[str, Any]]:
    """Return the lines of a run of two ranks that trains a step a second."""
    lines: list[dict[str, Any]] = [{"t": 0, "run": "r1", "event": {"kind": "start", "world": 2}}]
    for step in range(1, steps + 1):
        for rank in range(2):
            beat = {"step": step, "phase": "train", "loss": 2 + 0.01 * (step % 7)}
            lines.append({"t": step + rank / 100, "run": "r1", "rank": rank, "beat": beat})
    return lines


def replay(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Replay lines from standard input."""
    return subprocess.run(
        [STEPWATCHD, "replay", "-", *options], input=text, capture_output=True, text=True, check=False
    )


def as_text(lines: list[dict[str, Any]]) -> str:
    """Return lines as a trace."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_lost_process_is_one_json_object_a_change() -> None:
    """The incident has all keys, and the exit status is 0."""
    lines = [*beats(50), {"t": 51, "run": "r1", "rank": 1, "event": {"kind": "process_gone"}}]
    done = replay(as_text(lines), "--json")
    assert done.returncode == 0
    first = json.loads(done.stdout.splitlines()[0])
    assert (first["incident"], first["state"], first["run"], first["ranks"]) == ("process_lost", "opened", "r1", [1])
    assert first["since_step"] == 50
    assert 51 <= first["t"] <= 54
    assert {"id", "severity", "evidence"} <= set(first)


def test_the_tail_is_time_that_passes() -> None:
    """A file that ends is a run that is silent: it is stuck when its deadline has passed, and not before."""
    assert replay(as_text(beats(50)), "--json", "--tail", "60").stdout == ""
    assert json.loads(replay(as_text(beats(50)), "--json").stdout.splitlines()[0])["incident"] == "stuck"


def test_bad_lines_are_named_and_passed_over() -> None:
    """The rest is replayed."""
    text = "garbage\n\n" + as_text(beats(20)) + '{"t":21,"run":"r1","event":{"kind":"end","reason":"ok"}}\n{"t":1}\n'
    text += '{"t":22,"rank":0,"beat":{"step":1}}\n'
    done = replay(text)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "line 1: the line is not a JSON object" in done.stderr
    assert 'line 45: a line must have either "beat" or "event"' in done.stderr
    assert 'line 46: "run", the name of the run, is missing' in done.stderr
    assert "3 of 46 lines were invalid" in done.stderr


def test_people_get_a_sentence(tmp_path: Path) -> None:
    """Without --json a change is a line of words; a missing file is an error."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text(as_text(beats(50)), encoding="utf-8")
    printed = subprocess.run([STEPWATCHD, "replay", trace], capture_output=True, text=True, check=True).stdout
    assert "opened critical stuck in r1" in printed
    missing = subprocess.run([STEPWATCHD, "replay", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "cannot open" in missing.stderr
