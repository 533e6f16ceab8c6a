"""A running `stepwatch rehearse FILE --json`, read line by line."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from build_tree import STEPWATCH, skip_without

skip_without(STEPWATCH)
BINARY = STEPWATCH


def save(config: Path, text: str) -> None:
    """Save by renaming a new file over the old one."""
    temporary = config.with_name(config.name + ".new")
    temporary.write_text(text)
    temporary.replace(config)


class Rehearsal:
    """The process, every line it printed, and its rows."""

    def __init__(self, directory: Path, text: str, *arguments: str, dynamic: bool = True) -> None:
        self.config = directory / "config.json"
        self.out = directory / "out"
        save(self.config, text)
        command = [str(BINARY), "rehearse", str(self.config), "--json", "--out", str(self.out), *arguments]
        command += ["--dynamic"] if dynamic else []
        environment = {name: value for name, value in os.environ.items() if name != "DYNAMIC_MONITOR"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.lines: list[dict] = []

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def read_until(self, wanted: Callable[[dict], bool]) -> dict:
        """Return the first matching line from here on."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if wanted(self.lines[-1]):
                return self.lines[-1]
        raise AssertionError("the rehearsal ended before the line came:\n" + "\n".join(map(str, self.lines)))

    def until_step(self, step: int) -> None:
        """Read up to the line of a step."""
        self.read_until(lambda line: "event" not in line and line["step"] >= step)

    def until_event(self, kind: str) -> dict:
        """Read up to the next event of a kind."""
        return self.read_until(lambda line: line.get("event") == kind)

    def until_socket_opens(self) -> None:
        """Wait for the control socket of the job, which opens concurrently with the first steps, not before them."""
        socket = Path(os.environ["STEPWATCH_RUNTIME_DIR"], f"{self.process.pid}-1.sock")
        deadline = time.monotonic() + 60
        while not socket.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, f"{socket} has not come"
            time.sleep(0.01)

    def finish(self) -> int:
        """Read the remaining output; return the exit code."""
        assert self.process.stdout is not None
        self.lines += [json.loads(text) for text in self.process.stdout]
        return self.process.wait(timeout=60)

    def steps(self) -> list[dict]:
        """Return the step objects."""
        return [line for line in self.lines if "event" not in line]

    def collected(self, plan: int | None = None) -> list[int]:
        """Return the collected steps, of one plan or of all."""
        return [s["step"] for s in self.steps() if s["collected"] and plan in (None, s["plan"])]

    def events(self, kind: str) -> list[dict]:
        """Return the events of a kind."""
        return [line for line in self.lines if line.get("event") == kind]

    def rows(self, kind: str) -> list[dict[str, str]]:
        """Return the rows of all CSV files of a kind."""
        rows = []
        for path in sorted(self.out.glob(f"*-rank0-*/{kind}_*.csv")):
            if re.fullmatch(kind + r"_\d+-\d+(_p\d+)?\.csv", path.name):
                with path.open(newline="") as file:
                    rows += list(csv.DictReader(file))
        return rows

    def row_steps(self, kind: str) -> list[int]:
        """Return the distinct steps of the rows of a kind."""
        return sorted({int(row["step"]) for row in self.rows(kind)})

    def check_ledgers(self) -> None:
        """Check that every plan that began was drained, with complete rows."""
        drained = {event["plan"]: event["ledger"] for event in self.events("drained")}
        assert set(drained) == {event["plan"] for event in self.events("applied")}
        for plan, ledger in drained.items():
            assert ledger["produced"] == ledger["written"] + sum(ledger["dropped"].values()), plan


@contextlib.contextmanager
def open_job(directory: Path, text: str, *arguments: str, step_time: str = "5ms") -> Iterator[Rehearsal]:
    """Run a job that ends with the test, and whose control socket is open."""
    with Rehearsal(directory, text, "--steps", "1000000000", "--step-time", step_time, *arguments) as job:
        job.until_step(1)
        job.until_socket_opens()
        yield job
