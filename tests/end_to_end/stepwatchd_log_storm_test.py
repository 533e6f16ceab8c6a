"""Rotations of every kind beside the real rsyslog, with kills of stepwatchd: nothing is lost, nothing is doubled."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from monitoring_tools import rsyslog, until
from stepwatchd_process import NO_JOBS, Stepwatchd

RSYSLOG = """
global(workDirectory="{work}")
module(load="imfile")
template(name="raw" type="string" string="%msg%\\n")
ruleset(name="out") {{ action(type="omfile" file="{out}" template="raw") }}
input(type="imfile" File="{logs}/*.log" Tag="storm" ruleset="out")
"""


def has_open(pid: int, path: Path) -> bool:
    """Return whether a process has the file open."""
    wanted = path.stat()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            seen = os.stat(entry.path)
        except OSError:
            continue
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


class Storm:
    """A writer of numbered lines whose log is rotated in random ways."""

    def __init__(self, log: Path, dice: random.Random) -> None:
        self.log = log
        self.dice = dice
        self.lines = 0
        self.rotations = 0

    def write(self) -> None:
        """Write some lines in pieces that end anywhere."""
        text = ""
        for _ in range(self.dice.randint(1, 1500)):
            text += f"line {self.lines:08d} {'x' * self.dice.randint(0, 120)}\n"
            self.lines += 1
        with self.log.open("a") as log:
            while text:
                size = self.dice.randint(1, 20000)
                log.write(text[:size])
                log.flush()
                text = text[size:]

    def rotate(self, how: str) -> None:
        """Remove or rename the log, and compress it then."""
        if how == "unlink":
            self.log.unlink()
            return
        self.rotations += 1
        rotated = self.log.with_name(f"{self.log.name}.{self.rotations}")
        self.log.rename(rotated)
        if how == "gzip":
            with rotated.open("rb") as plain, gzip.open(f"{rotated}.gz", "wb") as packed:
                shutil.copyfileobj(plain, packed)
            rotated.unlink()


def play(tmp_path: Path, rounds: int, dice: random.Random) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "work").mkdir()
    theirs, ours = tmp_path / "rsyslog.out", tmp_path / "ours.jsonl"
    config = tmp_path / "rsyslog.conf"
    config.write_text(RSYSLOG.format(work=tmp_path / "work", out=theirs, logs=logs))
    output = {"name": "file", "type": "file", "path": str(ours), "file_mib": 1000}
    settings = {**NO_JOBS, "logs": {"files": [{"path": f"{logs}/*.log"}], "outputs": [output]}}
    storm = Storm(logs / "rank0.log", dice)
    with rsyslog(tmp_path, config) as other, Stepwatchd(tmp_path, settings) as daemon:
        until((tmp_path / "pid").exists, (tmp_path / "rsyslogd.log").read_text)
        for _ in range(rounds):
            storm.write()
            assert daemon.process is not None
            how = dice.choice(["rename", "unlink", "gzip"])
            # A file that is removed before a reader has opened it is lost to that reader.
            until(lambda: has_open(other.pid, storm.log), lambda: "rsyslog has not opened the log")
            until(lambda: has_open(daemon.process.pid, storm.log), daemon.log.read_text)
            storm.write()
            is_killed = how != "unlink" and dice.random() < 0.4
            if is_killed:
                daemon.kill()
            storm.rotate(how)
            if is_killed:
                storm.write()
                daemon.start()
            elif how == "unlink":
                # Its text is gone with the process that has it open.
                until(lambda: ours_has(ours, storm.lines), daemon.log.read_text)
            if not storm.log.exists():
                storm.write()
        until(lambda: ours_has(ours, storm.lines), daemon.log.read_text)
        until(lambda: theirs.read_text().count("\n") >= storm.lines, lambda: f"rsyslog lost lines of {storm.lines}")
    expected = {f"line {number:08d}" for number in range(storm.lines)}
    records = {}
    for line in ours.read_text().splitlines():
        record = json.loads(line)
        text = record["message"][:13]
        # The same id twice is the same line: a receiver drops it.
        assert records.setdefault(record["event.id"], text) == text
    counts = Counter(records.values())
    assert {text for text, count in counts.items() if count > 1} == set(), "doubled"
    assert set(counts) == expected
    assert {line.strip()[:13] for line in theirs.read_text().splitlines()} == expected, "those of rsyslog"


def ours_has(path: Path, lines: int) -> bool:
    """Return whether the last line has arrived, and as many as were written."""
    if not path.exists():
        return False
    ids = {json.loads(line)["event.id"] for line in path.read_text().splitlines() if line.endswith("}")}
    return len(ids) >= lines


@pytest.mark.parametrize("rounds", [8, pytest.param(120, marks=pytest.mark.long)])
def test_nothing_is_lost_or_doubled_over_rotations_and_kills(
    tmp_path: Path, rounds: int, request: pytest.FixtureRequest
) -> None:
    play(tmp_path, rounds, random.Random(request.config.getoption("--seed")))
