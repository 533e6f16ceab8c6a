"""Running jobs from outside: a notebook or a script asks their doors, and changes what they collect.

Nothing here needs torch or the native core. Unlike the rest of the package it is for any process of the user who runs
the job, on the same machine.
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

from stepwatch import door
from stepwatch.door import JobError, JobUnreachableError

__all__ = ["Job", "JobError", "JobUnreachableError", "jobs"]

ConfigText = Union[str, bytes, Mapping[str, Any]]

_LISTING_SECONDS = 2.0
_SILENCE_SECONDS = 60.0  # a stream of events says something every 15 s
_LOOK_SECONDS = 0.2
_ASKED_AT_ONCE = 32
_SOCKET_NAME = re.compile(r"([0-9]+)-[0-9]+\.sock")
_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Job:
    """A running monitor, by its socket.

    Made by `jobs`. Each call is a question of its own: nothing is kept open between two of them, and a job may be used
    from several threads. A job that has ended raises `JobUnreachableError`.

    Attributes
    ----------
    name : str
        As `stepwatch ps` shows it: the pid, and the number of the monitor in its process.
    pid : int
        Of the process, as it knows itself.
    socket_path : str
        Where its door is.
    run_id, config_path : str or None
        What it said when it was found; None: it did not answer.
    rank : int or None
        Likewise.
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
            return f"<stepwatch job {self.name}, which has not answered>"
        return f"<stepwatch job {self.name}, rank {self.rank}, {self.config_path}>"

    def status(self) -> dict[str, Any]:
        """Return what the job does and what its config file says, as `stepwatch status --json`."""
        return self._ask("GET", "/v1/status")

    def plan(self, config: ConfigText) -> dict[str, Any]:
        """Return what a config would mean for this job, beside what runs; nothing is changed.

        Parameters
        ----------
        config : str, bytes or dict
            The text of a config, or its keys.

        Returns
        -------
        dict
            "state" is "same", "differs" or "invalid"; docs/control_api.md describes the rest.
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
        """Put a config in the place of the one that the job watches.

        Parameters
        ----------
        config : str, bytes or dict
            The text of the new config, or its keys.
        if_match : str, optional
            Only if the file holds the bytes with this SHA-256 (`status()["file_sha256"]`).
        wait : {"applied", "drained"}, optional
            Return when the plan of the config is in force, or when it is over and all its rows are written. A config
            that collects nothing is in force at once; drained it is when the plan that it ends is.
        timeout : float
            Seconds to wait.
        at_step : int, optional
            The job begins with the config at this step, on all its ranks; not later than the running step means the
            next. Until then what runs goes on, and a newer edit takes the place of this one.

        Returns
        -------
        dict
            The answer of the job; "at_step" is the step at which the plan begins.

        Raises
        ------
        JobError
            The config was refused, the file holds something else than `if_match` says, or something newer came before
            what was waited for.
        TimeoutError
            It is still waited for.
        """
        target = "/v1/apply" if at_step is None else f"/v1/apply?at_step={at_step}"
        return self._change(target, _bytes_of(config), if_match, wait, timeout)

    def start(self, if_match: str | None = None, wait: str | None = None, timeout: float = 60.0) -> dict[str, Any]:
        """Make "dynamic_on" true in the config file: the job begins to collect. See `apply`."""
        return self._change("/v1/start", b"", if_match, wait, timeout)

    def stop(self, if_match: str | None = None, wait: str | None = None, timeout: float = 60.0) -> dict[str, Any]:
        """Make "dynamic_on" false in the config file: the job stops at its next step. See `apply`."""
        return self._change("/v1/stop", b"", if_match, wait, timeout)

    def latest(self, kind: str) -> dict[str, dict[str, float]]:
        """Return the last values of all sites of a kind.

        They are kept from the first question on, so the first answer may be empty.

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
        """Return what the process says of itself: ends of steps with reported numbers, phases, exceptions.

        Parameters
        ----------
        since : int
            The "next" of an earlier answer; 0: from the first line that is kept.

        Returns
        -------
        dict
            "beats": the lines, oldest first; "next" for the next question; "lost": lines that are not kept any more.
        """
        return self._ask("GET", f"/v1/beats?since={since}")

    def history(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the newest lines of what became of every edit of the run, the newest last."""
        return list(self._ask("GET", f"/v1/history?limit={limit}")["lines"])

    def events(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Iterate over the events of the job as they come, until it ends.

        Parameters
        ----------
        after : int
            The "id" of the last event that is known already; 0: begin with those that the job still has.

        Yields
        ------
        dict
            "event" is its kind, "id" its number. {"event": "gap", "missed": n}: n events are not kept any more.
        """
        last, is_first = after, True
        while True:
            try:
                for event in door.stream(self.socket_path, last, _SILENCE_SECONDS):
                    last = event.get("id", last)
                    yield event
            except JobUnreachableError:
                if is_first:
                    raise
                return
            except door.SilenceError:
                raise JobUnreachableError(f"{self.socket_path} has said nothing for {_SILENCE_SECONDS:.0f} s") from None
            is_first = False  # cut off for reading slowly, or the job has ended: the next question tells

    def _ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return door.ask(self.socket_path, method, target, body, headers)

    def _change(
        self, target: str, body: bytes, if_match: str | None, wait: str | None, timeout: float
    ) -> dict[str, Any]:
        if wait not in (None, "applied", "drained"):
            raise ValueError(f'wait is {wait!r}; "applied", "drained" or None would do')
        deadline = time.monotonic() + timeout
        newest = self.status()["newest_event"] if wait else 0
        headers = {"If-Match": f'"{if_match}"'} if if_match else {}
        answer = self._ask("POST", target, body, headers)
        if answer.get("taken") == "refused":
            refusal = answer.get("refusal") or {}
            message = refusal.get("message", "the job has refused the config")
            raise JobError(message, status=422, code="refused", place=refusal)
        if wait:
            self._await(_WatchedEdit(answer, wait), newest, deadline)
        return answer

    def _await(self, edit: _WatchedEdit, newest: int, deadline: float) -> None:
        """Wait for the plan of an edit. `newest`: the last event that was told before."""
        last = newest
        while not edit.is_over(self.status()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.name}: the edit is not {edit.wait} yet; it is still tried{edit.trouble}")
            try:
                for event in door.stream(self.socket_path, last, min(left, _LOOK_SECONDS)):
                    last = event.get("id", last)
                    if edit.is_reached_by(event):
                        return
                    if time.monotonic() > deadline:
                        break
            except door.SilenceError:
                pass


class _WatchedEdit:
    """What the answer to an edit, events and statuses say of it."""

    def __init__(self, answer: Mapping[str, Any], wait: str) -> None:
        self.wait = wait
        self.trouble = ""
        self._sha256 = answer.get("sha256")
        self._plan_id = answer.get("plan_id")
        self._taken = answer.get("taken")
        if self._taken == "superseded":
            raise JobError("somebody has saved something newer", code="superseded")

    def is_reached_by(self, event: Mapping[str, Any]) -> bool:
        """Take an event in; whether it is the one that is waited for."""
        kind, plan = event["event"], event.get("plan")
        message = event.get("message", "")
        if kind == "armed" and self._plan_id is None:  # of an edit on which the ranks had not decided
            self._plan_id = plan
        if kind == "refused" and event.get("sha256") == self._sha256:
            raise JobError(message, status=422, code="refused", place=event)
        if kind == "aborted":
            self.trouble = f": {message}"
        if plan is None or plan != self._plan_id:
            return False
        if kind == "superseded":
            raise JobError(f"something newer came before plan {plan} was {self.wait}", code="superseded")
        return kind in (self.wait, "drained")

    def is_over(self, status: Mapping[str, Any]) -> bool:
        """Return whether there is nothing more to wait for: it was so before, or the edit collects nothing."""
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
    """Return the job of a socket; None: nobody listens there."""
    job = Job(path)
    try:
        door.connect(path, _LISTING_SECONDS).close()
    except JobUnreachableError as error:
        cause = error.__cause__
        is_there = isinstance(cause, OSError) and cause.errno in (errno.EAGAIN, None)
        return job if is_there else None
    try:
        status = door.ask(path, "GET", "/v1/status", seconds=_LISTING_SECONDS)
    except JobError:
        return job
    job.run_id, job.config_path, job.rank = status.get("run_id"), status.get("config_path"), status.get("rank")
    return job


def jobs() -> list[Job]:
    """Return the running jobs of this user on this machine, by pid, as `stepwatch ps`.

    A job that is there and does not answer is among them.
    """
    paths = []
    for directory in _directories():
        try:
            if door.is_ours(os.lstat(directory)):
                names = filter(_SOCKET_NAME.fullmatch, os.listdir(directory))
                paths += [os.path.join(directory, name) for name in names]
        except OSError:
            continue
    with concurrent.futures.ThreadPoolExecutor(_ASKED_AT_ONCE) as executor:
        found = [job for job in executor.map(_introduce, paths) if job is not None]
    return sorted(found, key=lambda job: (job.pid, job.name))
