"""The processes of the demo: stepwatchd, and the ranks of the job. Each ends with the block that started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from stepwatch.control_socket import JobError, ask

JOB = Path(__file__).with_name("job.py")
WORLD = 2
# At its end stepwatchd writes pending data, which takes a moment on a busy disk.
END_SECONDS = 20
IDLE_CONFIG = '{"dynamic_on": false, "targets": {}, "ops": ["norm"]}\n'


class Processes:
    """Child processes, each in a separate session, so that only this program handles Ctrl-C."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start a process with output to a file."""
        with log.open("ab") as out:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    def end(self) -> None:
        """End the running processes, the last one first."""
        for child in reversed(self._children):
            self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.kill()
        child.wait()


class Stepwatchd(Processes):
    """`stepwatchd run` with a separate state directory and socket.

    Parameters
    ----------
    program : pathlib.Path
    directory : pathlib.Path
        Directory of its settings, its log and its state.
    runtime : pathlib.Path
        Directory of its socket, and of the control sockets of the jobs that it should find.
    settings : dict, optional
        Further settings.
    """

    def __init__(self, program: Path, directory: Path, runtime: Path, settings: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.log = directory / "stepwatchd.log"
        self.socket = runtime / "stepwatchd.sock"
        self.state = directory / "state"
        config = directory / "stepwatchd.json"
        # The demo must not observe other jobs of this user.
        content = {"discovery": {"directories": [str(runtime)]}, **(settings or {})}
        config.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        where = ["--config", str(config), "--state", str(self.state), "--socket", str(self.socket)]
        self._command = [str(program), "run", *where]

    def __enter__(self) -> Stepwatchd:
        self._process = self.start(self._command, self.log, dict(os.environ))
        return self

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            super()._end(child)

    def answers(self) -> bool:
        """Return whether it answers requests."""
        if self._process.poll() is not None:
            raise RuntimeError(f"stepwatchd ended with {self._process.returncode}; {self.log} says why")
        try:
            self.get("/-/healthy")
        except JobError:
            return False
        return True

    def get(self, target: str) -> dict[str, Any]:
        """Return its answer to a GET request."""
        return ask(str(self.socket), "GET", target)


class Job(Processes):
    """The ranks of a training job, and the switches of its faults.

    Parameters
    ----------
    directory : pathlib.Path
        Directory of its config, its logs and its switches.
    runtime : pathlib.Path
        Directory of the ranks' control sockets.
    """

    def __init__(self, directory: Path, runtime: Path) -> None:
        super().__init__()
        self.directory = directory
        self.ranks: list[subprocess.Popen[bytes]] = []
        # Waiting threads must not spin: there may be fewer cores than processes.
        quiet = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}
        self._environment = {**os.environ, **quiet, "STEPWATCH_RUNTIME_DIR": str(runtime)}

    def __enter__(self) -> Job:
        (self.directory / "config.json").write_text(IDLE_CONFIG, encoding="utf-8")
        for rank in range(WORLD):
            command = [sys.executable, str(JOB), str(self.directory), str(rank), str(WORLD)]
            self.ranks.append(self.start(command, self.log(rank), self._environment))
        return self

    def log(self, rank: int) -> Path:
        """Return the file of a rank's output."""
        return self.directory / f"rank{rank}.log"

    def has_failed(self) -> bool:
        """Return whether a rank has ended."""
        return any(rank.poll() is not None for rank in self.ranks)

    def switch(self, name: str, on: bool) -> None:
        """Switch a fault of the job on or off."""
        if on:
            (self.directory / name).touch()
        else:
            (self.directory / name).unlink(missing_ok=True)

    def send(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to a rank."""
        self.ranks[rank].send_signal(number)


def wait_for(holds: Any, seconds: float) -> Any:
    """Wait until a condition holds, and return its value; raise TimeoutError after this many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for what did not come")
        time.sleep(0.05)
    return found
