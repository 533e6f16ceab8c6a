"""The client of InternEvo's light monitor, for stepwatchd: heartbeats and exceptions become lines that it reads."""

from __future__ import annotations

import functools
import http.client
import json
import logging
import os
import random
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from stepwatch import control_socket
from stepwatch.compat import beat_lines
from stepwatch.compat.background_sender import BackgroundSender, at_exit
from stepwatch.compat.job_identity import global_rank, run_id
from stepwatch.compat.private_file import PrivateFileError, read_private_file
from stepwatch.reporting.found import reporter_in_use

logger = logging.getLogger("stepwatch")

TOKEN_FILE_VARIABLE = "STEPWATCH_LIGHT_MONITOR_TOKEN_FILE"
_ADDRESS_VARIABLE = "MONITOR_SERVER"
_LINES_WAITING_MAX = 1000
_ATTEMPTS = 4
_ANSWER_SECONDS = 5.0
_EXIT_SECONDS = 2.0
_RUN_BYTES_MAX = 200
# `Reporter.report` refuses longer names.
_REPORTED_NAME_BYTES_MAX = 39
_HTTP = re.compile(r"(?:http://)?(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):(?P<port>[0-9]{1,5})/?")
_UNIX = re.compile(r"(?:unix:(?://)?)?(?P<path>/.+)")


class _Client:
    """Posts lines to one stepwatchd, in the background."""

    def __init__(self, address: str, is_root_rank: bool, token_file: str | None) -> None:
        unix, tcp = _UNIX.fullmatch(address), _HTTP.fullmatch(address)
        if unix is None and tcp is None:
            raise ValueError("accepted: http://HOST:PORT, or the absolute path of a Unix socket")
        self._path = None if unix is None else unix["path"]
        self._host, self._port = ("", 0) if tcp is None else (tcp["host"].strip("[]"), int(tcp["port"]))
        self._token_file = token_file
        self._is_root_rank = is_root_rank
        self._process = os.getpid()
        self._has_begun = False
        self._failed = False
        self._has_complained = False
        self._last_step = -1  # before the first one
        self._run: str | None = None
        self.sender = BackgroundSender("stepwatch-light", self._post, _LINES_WAITING_MAX, _EXIT_SECONDS)

    def beat(self, data: Mapping[str, Any]) -> None:
        """Queue the beat of a heartbeat."""
        beat = beat_lines.beat_of(data, self._last_step)
        self._last_step, self._failed = beat["step"], False
        self._put(beat=beat)

    def phase(self, name: str) -> None:
        """Queue a beat with a phase only."""
        if self._has_begun:
            self._put(beat={"step": self._last_step, "phase": name})

    def exception(self, text: str, rank: int | None) -> None:
        """Queue an exception."""
        event = beat_lines.exception_of(text)
        self._failed = self._failed or event["kind"] == "exception"
        self._put(rank, event=event)

    def end(self, reason: str | None = None) -> None:
        """Queue the end of the run, once; None: the reason follows from what happened."""
        if not self._has_begun or os.getpid() != self._process:
            return
        if reason is None:
            reason = "error" if self._failed or getattr(sys, "last_value", None) is not None else "ok"
        if self._is_root_rank:
            self._put(event={"kind": "end", "reason": reason})
        self._has_begun = False

    def _put(self, rank: int | None = None, **content: Any) -> None:
        if self._run is None:
            self._run = run_id().encode("utf-8", "replace")[:_RUN_BYTES_MAX].decode("utf-8", "ignore")
        own_rank = global_rank() if rank is None else int(rank)
        if not self._has_begun:
            # Not before the first line: a run that goes on in a Stepwatch monitor must not appear twice.
            self._has_begun = True
            if self._is_root_rank:
                start = {"kind": "start", "host": socket.gethostname(), **_world()}
                self.sender.put(beat_lines.line_of(self._run, own_rank, time.time(), event=start))
        self.sender.put(beat_lines.line_of(self._run, own_rank, time.time(), **content))

    def _post(self, line: str) -> bool:
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.sender.pause(random.uniform(0.5, 1.0) * 2 ** (attempt - 1))
            try:
                status, answer = self._post_once(line.encode() + b"\n")
            except control_socket.JobUnreachableError as error:
                self._complain(str(error))
                continue
            except (OSError, http.client.HTTPException) as error:
                self._complain(f"it has not answered ({type(error).__name__})")
                continue
            except PrivateFileError as error:
                self._complain(str(error))
                return False
            if status == 200:
                if not answer.get("refused"):
                    self._has_complained = False
                    return True
                refusals = answer.get("refusals") or [{}]
                self._complain(f"it refused a line: {refusals[0].get('message', '')}")
                return False
            self._complain(f"it answered with status {status}")
            if status not in (408, 429) and status < 500:
                return False
        return False

    def _post_once(self, body: bytes) -> tuple[int, dict[str, Any]]:
        headers = {"Stepwatch-Sent": f"{time.time():.6f}"}
        if self._path is not None:
            try:
                return 200, control_socket.ask(self._path, "POST", "/v1/beats", body, headers, _ANSWER_SECONDS)
            except control_socket.JobUnreachableError:
                raise
            except control_socket.JobError as error:
                return error.status, {}
        if self._token_file:
            headers["Authorization"] = f"Bearer {read_private_file(self._token_file)}"
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_SECONDS)
        try:
            connection.request("POST", "/v1/beats", body, headers)
            response = connection.getresponse()
            text = response.read(1 << 20)
            answer = json.loads(text) if response.status == 200 else {}
            return response.status, answer if isinstance(answer, dict) else {}
        except ValueError:
            return 200, {}
        finally:
            connection.close()

    def _complain(self, why: str) -> None:
        """Log a failure once, until a line arrives again."""
        if not self._has_complained:
            self._has_complained = True
            logger.warning("light monitor: heartbeats do not reach stepwatchd: %s", why)


_client: _Client | None = None
_monitor_was_open = False
_loss_is_reported = False


def _never_raises(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:
            logger.warning("light monitor: %s failed (%s: %s)", function.__name__, type(error).__name__, error)

    return call


@_never_raises
def init_monitor(monitor_address: str | None = None, is_root_rank: bool = False, token_file: str | None = None) -> None:
    """Set the stepwatchd that receives heartbeats. No connection is made yet.

    Parameters
    ----------
    monitor_address : str, optional
        http://HOST:PORT, or the absolute path of a Unix socket; None: from the environment, `MONITOR_SERVER`.
    is_root_rank : bool
        Whether this process reports the start and the end of the run.
    token_file : str, optional
        The file with the token of that stepwatchd, mode 0600; None: from the environment,
        `STEPWATCH_LIGHT_MONITOR_TOKEN_FILE`.
    """
    global _client
    address = monitor_address or os.environ.get(_ADDRESS_VARIABLE)
    if not address:
        logger.warning("light monitor: without an address (or %s) heartbeats are not sent", _ADDRESS_VARIABLE)
        return
    client = _Client(address, is_root_rank, token_file or os.environ.get(TOKEN_FILE_VARIABLE))
    if _client is None:
        at_exit(_end_and_flush)
    _client = client


def is_initialized() -> bool:
    """Return whether `init_monitor` has set an address."""
    return _client is not None


@_never_raises
def send_meta(data: Mapping[str, Any], timeout: float = 0.1) -> None:
    """Report a heartbeat, without waiting for the network.

    Parameters
    ----------
    data : mapping
        Flat: the numbers, "msg_type", and perhaps "cluster".
    timeout : float
        For compatibility: the call only queues a line.
    """
    reporter = _reporter()
    if reporter is not None:
        numbers = {name: number for name, number in beat_lines.numbers_of(data).items() if _is_reported(name)}
        reporter.report(numbers, max(reporter.last_step, 0))
    elif _client is not None and not _monitor_was_open:
        _client.beat(data)


@_never_raises
def send_exception_msg(message: str, rank: int | None = None) -> None:
    """Report an exception.

    Parameters
    ----------
    message : str
        The last lines of its traceback.
    rank : int, optional
        The rank; None: of this process.
    """
    reporter = _reporter()
    if reporter is not None:
        event = beat_lines.exception_of(message)
        if event["kind"] == "exception":
            reporter.exception(event["type"], event["message"], event["stack"], event["fingerprint"], False)
    elif _client is not None and not _monitor_was_open:
        _client.exception(message, rank)


@_never_raises
def send_loss(loss: float) -> None:
    """Report the loss of every step to the Stepwatch monitor of this process; heartbeats then leave it out."""
    global _loss_is_reported
    reporter = _reporter()
    if reporter is not None:
        _loss_is_reported = True
        reporter.report({"loss": loss}, max(reporter.last_step, 0))


@_never_raises
def send_phase(name: str) -> None:
    """Report a phase to stepwatchd; `stepwatch.phase` reports it to a monitor of this process."""
    if _reporter() is None and _client is not None and not _monitor_was_open:
        _client.phase(name)


@_never_raises
def send_end(reason: str) -> None:
    """Report the end of the run: "ok", "error" or "signal"."""
    if _client is not None:
        _client.end(reason)


def flush(seconds: float) -> bool:
    """Wait until the queued lines were sent, or `seconds` have passed."""
    return _client is None or _client.sender.flush(seconds)


def _end_and_flush() -> None:
    if _client is not None:
        _client.end()
        _client.sender.flush(_EXIT_SECONDS)


def _reporter() -> Any:
    """Return the reporter of the open monitor.

    A monitor is found by the stepwatchd of its host. From the first one on the process posts no line itself, not even
    after the monitor is closed, because stepwatchd would count the training as two runs.
    """
    global _monitor_was_open
    reporter = reporter_in_use()
    _monitor_was_open = _monitor_was_open or reporter is not None
    return reporter


def _is_reported(name: str) -> bool:
    return len(name) <= _REPORTED_NAME_BYTES_MAX and not (name == "loss" and _loss_is_reported)


def _world() -> dict[str, int]:
    for name in ("WORLD_SIZE", "SLURM_NTASKS"):
        text = os.environ.get(name, "")
        if text.isdigit() and 0 < int(text) <= 1 << 24:
            return {"world": int(text)}
    return {}
