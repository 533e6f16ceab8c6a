"""The control socket of a running job: HTTP over a Unix socket that must be served by this user or by root."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from typing import Any

ANSWER_SECONDS = 10.0


class JobError(Exception):
    """The job rejected the request.

    Attributes
    ----------
    status : int
        The HTTP status: 412 for an `if_match` that does not match, 422 for a config that was refused; 0 without a
        response.
    code : str
        The reason as a code for programs, such as "not_found".
    line, column : int or None
        Position in the config text, from 1.
    key : str or None
        Key of the config, such as "alert.rules[0]".
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", place: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        place = place or {}
        self.status = status
        self.code = code
        self.line: int | None = place.get("line")
        self.column: int | None = place.get("column")
        self.key: str | None = place.get("key")


class JobUnreachableError(JobError):
    """No job listens at the socket, it did not answer in time, or the listener is not trusted."""


class SilenceError(Exception):
    """A stream sent no data within its time limit."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket that only this user or root serves."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("stepwatch", timeout=seconds)
        self._path = path
        self._seconds = seconds

    def connect(self) -> None:
        self.sock = self._socket = connect(self._path, self._seconds)

    def set_seconds(self, seconds: float) -> None:
        """Set the time limit between two reads of the response."""
        self._socket.settimeout(seconds)  # http.client has released the socket

    def ask(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Send a request; return its response, with the body unread."""
        try:
            self.request(method, target, body, {**headers, "Connection": "close"})
            return self.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise JobUnreachableError(f"{self._path} has not answered: {error or type(error).__name__}") from error


def connect(path: str, seconds: float) -> socket.socket:
    """Connect to a control socket after checking its owner; each operation times out after `seconds`."""
    _check_owner(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
        # Another user may be listening if the directory is not the expected one.
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        owner = struct.unpack("3i", credentials)[1]
        if os.geteuid() not in (0, owner) and owner != 0:
            raise JobUnreachableError(f"{path} is served by another user; the request was not sent")
    except OSError as error:
        connection.close()
        raise JobUnreachableError(f"cannot connect to {path}: {error}") from error
    except JobUnreachableError:
        connection.close()
        raise
    return connection


def _check_owner(path: str) -> None:
    try:
        directory, node = os.lstat(os.path.dirname(path)), os.lstat(path)
    except OSError as error:
        raise JobUnreachableError(f"cannot stat {path}: {error}") from error
    if not is_ours(directory):
        raise JobUnreachableError(f"{os.path.dirname(path)} is not a directory of this user with mode 0700")
    if not stat.S_ISSOCK(node.st_mode) or node.st_uid not in (os.geteuid(), 0):
        raise JobUnreachableError(f"{path} is not a socket of this user or of root")


def is_ours(directory: os.stat_result) -> bool:
    """Return whether only this user can enter the directory."""
    is_private = stat.S_ISDIR(directory.st_mode) and stat.S_IMODE(directory.st_mode) & 0o777 == 0o700
    return is_private and directory.st_uid == os.geteuid()


def _object_of(text: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise JobUnreachableError(f"{path} sent a response that is not a JSON object")
    return value


def _error_of(status: int, text: bytes) -> JobError:
    try:
        error = dict(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return JobError(f"the job responded with HTTP status {status}", status=status)
    message = str(error.get("message", ""))
    return JobError(message, status=status, code=str(error.get("code", "")), place=error)


def _lines_of(answer: http.client.HTTPResponse) -> Iterator[str]:
    """Iterate over the lines of a stream, to its end."""
    while True:
        try:
            line = answer.readline()
        except socket.timeout:
            raise SilenceError from None
        except (OSError, http.client.HTTPException):
            return
        if not line:
            return
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def ask(
    path: str,
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Send one request; return the object in its response."""
    connection = _Connection(path, ANSWER_SECONDS if seconds is None else seconds)
    try:
        answer = connection.ask(method, target, body, headers or {})
        try:
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise JobUnreachableError(f"{path} has not answered: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise _error_of(answer.status, text)
    return _object_of(text, path)


def stream(path: str, after: int, silence: float) -> Iterator[dict[str, Any]]:
    """Iterate over the events with a larger id until the job closes; at most `silence` seconds between reads."""
    connection = _Connection(path, ANSWER_SECONDS)
    try:
        headers = {"Last-Event-ID": str(after)} if after > 0 else {}
        answer = connection.ask("GET", "/v1/events", None, headers)
        if answer.status != 200:
            raise _error_of(answer.status, answer.read())
        connection.set_seconds(silence)
        name = data = ""
        for line in _lines_of(answer):
            if line.startswith("event: "):
                name = line[len("event: ") :]
            elif line.startswith("data: "):
                data = line[len("data: ") :]
            elif not line and data:
                yield {"event": name, **json.loads(data)}
                name = data = ""
    finally:
        connection.close()
