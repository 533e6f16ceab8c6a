"""A separate stepwatchd for a test: its process, requests to it, and lines that it gets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import control_socket_client
from build_tree import STEPWATCHD, skip_without

skip_without(STEPWATCHD)
DAEMON = STEPWATCHD
DEADLINE_SECONDS = 180
NO_JOBS = {"discovery": {"enabled": False}}


def own_jobs() -> dict[str, Any]:
    """Return settings that find the jobs of this test process; those of others have control sockets elsewhere."""
    return {"discovery": {"directories": [os.environ["STEPWATCH_RUNTIME_DIR"]]}}


def event(run: str, kind: str, **members: object) -> dict[str, Any]:
    """Return the line of an event that happens now."""
    return {"t": time.time(), "run": run, "event": {"kind": kind, **members}}


def start(run: str = "r1", world: int = 1) -> dict[str, Any]:
    """Return the first line of a run."""
    return event(run, "start", world=world, host="h1")


def beat(step: int, loss: float | str = 2.0, run: str = "r1", rank: int = 0, **members: object) -> dict[str, Any]:
    """Return the line of a beat of now."""
    numbers = {"step": step, "phase": "train", "loss": loss, "grad_norm": 1.0, "step_seconds": 0.1, **members}
    return {"t": time.time(), "run": run, "rank": rank, "beat": numbers}


class Stepwatchd:
    """`stepwatchd run` with its state and socket in a directory of the test."""

    def __init__(self, directory: Path, settings: dict[str, Any] | None = None, name: str = "d.sock") -> None:
        self.directory = directory
        self.config = directory / "stepwatchd.json"
        self.has_config = settings is not None
        if settings is not None:
            self.config.write_text(json.dumps(settings))
        # The path of a socket is limited to 107 bytes.
        self.runtime = Path(os.environ["STEPWATCH_RUNTIME_DIR"])
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        self.socket = self.runtime / name
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stepwatchd:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill(signal.SIGTERM)

    def command(self) -> list[str]:
        """Return the command line."""
        config = ["--config", str(self.config)] if self.has_config else []
        return [str(DAEMON), "run", "--state", str(self.directory / "state"), "--socket", str(self.socket), *config]

    def start(self) -> None:
        """Start the process, and wait until it responds."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log)
        self.until(self.answers)

    def answers(self) -> bool:
        """Return whether it responds."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("GET", "/-/healthy")[0] == 200
        except OSError:
            return False

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal, and return the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def store(self) -> contextlib.closing[sqlite3.Connection]:
        """Return its opened store."""
        return contextlib.closing(sqlite3.connect(self.directory / "state/stepwatchd.db", timeout=DEADLINE_SECONDS))

    def until(self, holds: Any) -> Any:
        """Wait until a condition holds, and return its value."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return found

    def ask(self, method: str, target: str, body: str | None = None) -> tuple[int, http.client.HTTPMessage, str]:
        """Send one request, and return status, headers and body of the response."""
        return control_socket_client.ask(self.socket, method, target, body)

    def get(self, target: str) -> dict[str, Any]:
        """Return the JSON response to a GET request."""
        status, _, text = self.ask("GET", target)
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        assert answer["version"] == 1
        return answer

    def post(self, target: str, body: object) -> dict[str, Any]:
        """Return the JSON response to a POST request."""
        status, _, text = self.ask("POST", target, body if isinstance(body, str) else json.dumps(body))
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def send(self, *lines: dict[str, Any]) -> dict[str, Any]:
        """Post lines of a trace."""
        return self.post("/v1/beats", "".join(json.dumps(line) + "\n" for line in lines))

    def metric(self, name: str) -> float:
        """Return the first sample of a metric."""
        page = self.ask("GET", "/metrics")[2].splitlines()
        return next(float(line.split()[-1]) for line in page if line.startswith(name))

    def incidents(self, run: str = "", state: str = "all") -> list[dict[str, Any]]:
        """Return the incidents of a run, or of all."""
        found: list[dict[str, Any]] = self.get(f"/v1/incidents?state={state}&limit=2000&run={quote(run)}")["incidents"]
        return found

    def incident_of(self, run: str) -> dict[str, Any]:
        """Wait for an incident of a run."""
        return dict(self.until(lambda: self.incidents(run))[0])

    def make_incident(self, run: str = "r1") -> dict[str, Any]:
        """Post a loss that becomes NaN, and wait for its incident."""
        self.send(start(run), *[beat(step, run=run) for step in range(10)])
        self.send(*[beat(step, "nan", run=run) for step in range(10, 14)])
        return self.incident_of(run)
