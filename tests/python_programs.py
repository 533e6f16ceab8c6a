"""Start the Python programs of tests: each in a new interpreter, or in a fork of one that has imported torch.

Importing torch takes longer than most of these programs. A run without the long tests therefore forks: it calls
`serve`, and the workers of pytest-xdist find the server by a variable. Every other run starts a new interpreter for
each program, as users do.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Union

from torch_server import NUMBER_BYTES

SERVER = Path(__file__).with_name("torch_server.py")
VARIABLE = "TORCH_SERVER"  # the socket of the server

File = Union[int, IO[Any], None]


@contextlib.contextmanager
def serve(directory: Path) -> Iterator[None]:
    """Fork the programs that this process starts, and those that its later children start."""
    if VARIABLE in os.environ:
        yield
        return
    path = directory / "torch"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # single-threaded, since it forks
    with subprocess.Popen([sys.executable, str(SERVER), str(path)], env=variables, stdin=subprocess.PIPE) as server:
        while not path.exists():
            assert server.poll() is None, "torch_server.py has ended"
            time.sleep(0.01)
        os.environ[VARIABLE] = str(path)
        try:
            yield
        finally:
            del os.environ[VARIABLE]


class ForkedProgram:
    """A process that the server has forked, with the methods of subprocess.Popen that tests need."""

    def __init__(
        self, arguments: Sequence[str], directory: str, variables: Mapping[str, str], files: list[int]
    ) -> None:
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(os.environ[VARIABLE])
        request = {"arguments": list(arguments), "directory": directory, "variables": dict(variables)}
        text = json.dumps(request).encode()
        socket.send_fds(self._connection, [len(text).to_bytes(NUMBER_BYTES, "little")], files)
        self._connection.sendall(text)
        self.pid = self._number()

    def _number(self) -> int:
        data = self._connection.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        assert len(data) == NUMBER_BYTES, "torch_server.py has ended"
        return int.from_bytes(data, "little")

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(self._number())
            except (socket.timeout, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it is still running."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


Program = Union[ForkedProgram, "subprocess.Popen[bytes]"]


def start(
    arguments: Sequence[str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdout: File = None,
    stderr: File = None,
    anew: bool = False,
) -> Program:
    """Start an interpreter with arguments: ``-c TEXT …``, ``-m MODULE …`` or ``SCRIPT …``.

    If `anew`, the program imports torch itself, by the variables of its environment, in every run.
    """
    if anew or VARIABLE not in os.environ:
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    with open(os.devnull, "r+b") as nothing:

        def descriptor(file: File, inherited: int) -> int:
            if file is None:
                return inherited
            if file == subprocess.DEVNULL:
                return nothing.fileno()
            return file if isinstance(file, int) else file.fileno()

        out = descriptor(stdout, 1)
        err = out if stderr == subprocess.STDOUT else descriptor(stderr, 2)
        variables = os.environ if env is None else env
        return ForkedProgram(arguments, str(cwd or Path.cwd()), variables, [nothing.fileno(), out, err])


def run(
    arguments: Sequence[str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return its exit code and output."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        program = start(arguments, cwd, env, out, err)
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
            program.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read(), err.read())
