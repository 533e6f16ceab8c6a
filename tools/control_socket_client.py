"""Request the control socket of a job, for tests and benchmarks; the identity of the server is not checked."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Mapping
from pathlib import Path

SECONDS = 30


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("stepwatch", timeout=SECONDS)
        self.path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(str(self.path))


def ask(
    path: Path, method: str, target: str, body: str | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, str]:
    """Return the status, the headers and the text of the response."""
    connection = UnixConnection(path)
    try:
        connection.request(method, target, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def socket_of(runtime: Path) -> Path:
    """Wait for the only socket in the directory."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = list(runtime.glob("[0-9]*.sock")) if runtime.exists() else []
        if found:
            return found[0]
        time.sleep(0.01)
    raise TimeoutError(f"no control socket has opened in {runtime}")
