"""A separate stepwatchd for a test: its process, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from build_tree import STEPWATCHD

DAEMON = STEPWATCHD
DEADLINE_SECONDS = 60


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=DEADLINE_SECONDS)
        self.path = str(path)

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE_SECONDS)
        self.sock.connect(self.path)


class Stepwatchd:
    """`stepwatchd run` with its state and socket in a directory of the test."""

    def __init__(self, directory: Path, config: Path | None = None, name: str = "d.sock") -> None:
        self.directory = directory
        self.config = config
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
        config = [] if self.config is None else ["--config", str(self.config)]
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

    def ask(self, method: str, target: str, body: str | None = None) -> tuple[int, dict[str, str], str]:
        """Send one request, and return status, headers and body of the response."""
        connection = UnixConnection(self.socket)
        try:
            connection.request(method, target, body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

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

    def tell(self, *lines: dict[str, Any]) -> dict[str, Any]:
        """Post lines of a trace."""
        return self.post("/v1/beats", "".join(json.dumps(line) + "\n" for line in lines))
