"""Access to running jobs from a notebook or a script: query their control sockets and change their configs.

This module needs neither torch nor the native core. Unlike the rest of the package, any process of the user who runs
the job can use it, on the same machine.
"""

from __future__ import annotations

import concurrent.futures
import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Union

from stepwatch import control_socket
from stepwatch.control_socket import JobError, JobUnreachableError

__all__ = ["Job", "JobError", "JobUnreachableError", "jobs"]

ConfigText = Union[str, bytes, Mapping[str, Any]]

_LISTING_SECONDS = 2.0
_SILENCE_SECONDS = 60.0  # a stream of events sends data every 15 s
_LOOK_SECONDS = 0.2
_ASKED_AT_ONCE = 32
_SOCKET_NAME = re.compile(r"([0-9]+)-[0-9]+\.sock")
_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Job:
    """A running monitor, by its socket.

    `jobs` creates it. Each call opens and closes its own connection, so several threads may use a job. If the job has
    ended, a call raises `JobUnreachableError`.

    Attributes
    ----------
    name : str
        As in `stepwatch ps`: the pid, and the number of the monitor in its process.
    pid : int
        The pid of the process in its own pid namespace.
    socket_path : str
        The path of its control socket.
    run_id, config_path : str or None
        As reported by the job when it was found; None: it did not answer.
    rank : int or None
        As reported by the job when it was found; None: it did not answer.
    """

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self.name = os.path.basename(socket_path)[: -len(".sock")]
        self.pid = int(self.name.partition("-")[0])
        self.run_id: str | None = None
        self.config_path: str | None = None
        self.rank: int | None = None

    def __repr__(self) -> str:
        if self.config_path is None:
            return f"<stepwatch job {self.name}, has not answered>"
        return f"<stepwatch job {self.name}, rank {self.rank}, {self.config_path}>"

    def status(self) -> dict[str, Any]:
        """Return the state of the job and of its config file, as `stepwatch status --json`."""
        return self._ask("GET", "/v1/status")

    def plan(self, config: ConfigText) -> dict[str, Any]:
        """Return the plan that a config would produce in this job, compared with the running plan; no change is made.

        Parameters
        ----------
        config : str, bytes or dict
            The text of a config, or its keys.

        Returns
        -------
        dict
            "state" is "same", "differs" or "invalid"; docs/formats/control_api.md describes the rest.
        """
        return self._ask("POST", "/v1/plan", _bytes_of(config))

    def apply(
        self,
        config: ConfigText,
        if_match: str | None = None,
        wait: str | None = None,
        timeout: float = 60.0,
        at_step: int | None = None,
    ) -> dict[str, Any]:
        """Replace the config file that the job watches.

        Parameters
        ----------
        config : str, bytes or dict
            The text of the new config, or its keys.
        if_match : str, optional
            Apply only if the SHA-256 of the file is this one (`status()["file_sha256"]`).
        wait : {"applied", "drained"}, optional
            Return when the plan of the config is in force ("applied"), or when it has ended and all its rows are
            written ("drained"). A config that collects no rows is in force at once, and drained when the plan that it
            ends is drained.
        timeout : float
            Seconds to wait.
        at_step : int, optional
            All ranks of the job apply the config at this step, or at the next step if this one is not in the future.
            Until then the running plan continues, and a newer edit replaces this one.

        Returns
        -------
        dict
            The answer of the job; "at_step" is the step at which the plan begins.

        Raises
        ------
        JobError
            The config was refused, the file does not match `if_match`, or a newer edit replaced this one before the
            awaited state was reached.
        TimeoutError
            The awaited state was not reached in time; the edit stays pending.
        """
        target = "/v1/apply" if at_step is None else f"/v1/apply?at_step={at_step}"
        return self._change(target, _bytes_of(config), if_match, wait, timeout)

    def start(self, if_match: str | None = None, wait: str | None = None, timeout: float = 60.0) -> dict[str, Any]:
        """Set "dynamic_on" to true in the config file: the job begins to collect. See `apply`."""
        return self._change("/v1/start", b"", if_match, wait, timeout)

    def stop(self, if_match: str | None = None, wait: str | None = None, timeout: float = 60.0) -> dict[str, Any]:
        """Set "dynamic_on" to false in the config file: the job stops at its next step. See `apply`."""
        return self._change("/v1/stop", b"", if_match, wait, timeout)

    def latest(self, kind: str) -> dict[str, dict[str, float]]:
        """Return the last values of all sites of a kind.

        The job keeps them from the first call on, so the first result may be empty.

        Parameters
        ----------
        kind : str
            "actv", "grad_reduced" and so on: the prefix of the files.

        Returns
        -------
        dict
            Tag → {statistic: number}. A tag is as in TensorBoard and alarms: "0:fc.weight/rank0/post_grad".
        """
        answer = self._ask("GET", f"/v1/latest/{kind}")
        return {
            value["tag"]: {name: _NUMBERS.get(number, number) for name, number in value["values"].items()}
            for value in answer["values"]
        }

    def beats(self, since: int = 0) -> dict[str, Any]:
        """Return the beats of the process: ends of steps with reported numbers, phases, exceptions.

        Parameters
        ----------
        since : int
            The "next" of an earlier result; 0: from the first line that the job still has.

        Returns
        -------
        dict
            "beats": the lines, oldest first; "next": `since` of the next call; "lost": number of lines discarded.
        """
        return self._ask("GET", f"/v1/beats?since={since}")

    def history(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the newest lines of the edit history of the run, the newest last."""
        return list(self._ask("GET", f"/v1/history?limit={limit}")["lines"])

    def events(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Iterate over the events of the job as they come, until it ends.

        Parameters
        ----------
        after : int
            The "id" of the last event already received; 0: begin with the oldest event that the job still has.

        Yields
        ------
        dict
            "event" is its kind, "id" its number. {"event": "gap", "missed": n}: n events were discarded.
        """
        last, is_first = after, True
        while True:
            try:
                for event in control_socket.stream(self.socket_path, last, _SILENCE_SECONDS):
                    last = event.get("id", last)
                    yield event
            except JobUnreachableError:
                if is_first:
                    raise
                return
            except control_socket.SilenceError:
                raise JobUnreachableError(f"{self.socket_path} sent no data for {_SILENCE_SECONDS:.0f} s") from None
            is_first = False  # cut off as a slow reader, or the job has ended: the next request shows which

    def _ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return control_socket.ask(self.socket_path, method, target, body, headers)

    def _change(
        self, target: str, body: bytes, if_match: str | None, wait: str | None, timeout: float
    ) -> dict[str, Any]:
        if wait not in (None, "applied", "drained"):
            raise ValueError(f'invalid wait {wait!r}; accepted: "applied", "drained" or None')
        deadline = time.monotonic() + timeout
        newest = self.status()["newest_event"] if wait else 0
        headers = {"If-Match": f'"{if_match}"'} if if_match else {}
        answer = self._ask("POST", target, body, headers)
        if answer.get("taken") == "refused":
            refusal = answer.get("refusal") or {}
            message = refusal.get("message", "the job refused the config")
            raise JobError(message, status=422, code="refused", place=refusal)
        if wait:
            self._await(_WatchedEdit(answer, wait), newest, deadline)
        return answer

    def _await(self, edit: _WatchedEdit, newest: int, deadline: float) -> None:
        """Wait for the plan of an edit. `newest`: id of the last event before the edit."""
        last = newest
        while not edit.is_over(self.status()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.name}: the edit is not {edit.wait} yet and stays pending{edit.trouble}")
            try:
                for event in control_socket.stream(self.socket_path, last, min(left, _LOOK_SECONDS)):
                    last = event.get("id", last)
                    if edit.is_reached_by(event):
                        return
                    if time.monotonic() > deadline:
                        break
            except control_socket.SilenceError:
                pass


class _WatchedEdit:
    """Progress of an edit, from the response to it, events and statuses."""

    def __init__(self, answer: Mapping[str, Any], wait: str) -> None:
        self.wait = wait
        self.trouble = ""
        self._sha256 = answer.get("sha256")
        self._plan_id = answer.get("plan_id")
        self._taken = answer.get("taken")
        if self._taken == "superseded":
            raise JobError("a newer edit was saved", code="superseded")

    def is_reached_by(self, event: Mapping[str, Any]) -> bool:
        """Process an event; return whether it is the awaited one."""
        kind, plan = event["event"], event.get("plan")
        message = event.get("message", "")
        if kind == "armed" and self._plan_id is None:  # from an edit that the ranks had not decided
            self._plan_id = plan
        if kind == "refused" and event.get("sha256") == self._sha256:
            raise JobError(message, status=422, code="refused", place=event)
        if kind == "aborted":
            self.trouble = f": {message}"
        if plan is None or plan != self._plan_id:
            return False
        if kind == "superseded":
            raise JobError(f"a newer edit replaced plan {plan} before it was {self.wait}", code="superseded")
        return kind in (self.wait, "drained")

    def is_over(self, status: Mapping[str, Any]) -> bool:
        """Return whether the wait is over without an event: already reached, or the edit collects no rows."""
        plan = status.get("plan") or {}
        if self.wait == "applied":
            return self._taken in ("stopping", "off") or plan.get("config_sha256", "") == self._sha256
        is_quiet = status["state"] in ("OFF", "IDLE", "FAILED")
        return self._taken == "off" and is_quiet


def _bytes_of(config: ConfigText) -> bytes:
    if isinstance(config, bytes):
        return config
    if isinstance(config, str):
        return config.encode()
    return json.dumps(config, indent=2).encode() + b"\n"


def _directories() -> list[str]:
    wanted = os.environ.get("STEPWATCH_RUNTIME_DIR", "")
    user = os.geteuid()
    return ([wanted.rstrip("/")] if wanted.startswith("/") else []) + [
        f"/run/user/{user}/stepwatch",
        f"/tmp/stepwatch-{user}",
    ]


def _introduce(path: str) -> Job | None:
    """Return the job of a socket; None: no process listens there."""
    job = Job(path)
    try:
        control_socket.connect(path, _LISTING_SECONDS).close()
    except JobUnreachableError as error:
        cause = error.__cause__
        is_there = isinstance(cause, OSError) and cause.errno in (errno.EAGAIN, None)
        return job if is_there else None
    try:
        status = control_socket.ask(path, "GET", "/v1/status", seconds=_LISTING_SECONDS)
    except JobError:
        return job
    job.run_id, job.config_path, job.rank = status.get("run_id"), status.get("config_path"), status.get("rank")
    return job


def jobs() -> list[Job]:
    """Return the running jobs of this user on this machine, by pid, as `stepwatch ps`.

    Jobs that run but do not answer are included.
    """
    paths = []
    for directory in _directories():
        try:
            if control_socket.is_ours(os.lstat(directory)):
                names = filter(_SOCKET_NAME.fullmatch, os.listdir(directory))
                paths += [os.path.join(directory, name) for name in names]
        except OSError:
            continue
    with concurrent.futures.ThreadPoolExecutor(_ASKED_AT_ONCE) as executor:
        found = [job for job in executor.map(_introduce, paths) if job is not None]
    return sorted(found, key=lambda job: (job.pid, job.name))
