"""A running `stepwatch watch FILE --json` and the versions of the file written meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

from build_tree import STEPWATCH

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = STEPWATCH
# The promise is 2 s on an idle machine; a loaded test machine gets more.
DEADLINE_S = float(os.environ.get("STEPWATCH_WATCH_DEADLINE", "10"))

GOOD = ("accepted", "restored")
EVENTS = {*GOOD, "refused", "missing", "unreadable"}


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


class WatchProcess:
    """Use as a context manager: its end checks the invariants of every scenario."""

    def __init__(
        self,
        path: pathlib.Path,
        poll_only: bool,
        prefix: tuple[str, ...] | list[str] = (),
        cwd: pathlib.Path | None = None,
    ):
        self.path = path
        self.events: list[dict] = []
        self.latencies: list[float] = []
        self._versions: set[str] = set()
        self._changed = threading.Condition()
        command = [str(BINARY), "watch", str(path), "--json"] + (["--poll-only"] if poll_only else [])
        self._process = subprocess.Popen([*prefix, *command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()

    def version(self, text: bytes) -> bytes:
        """Declares a full version of the file before its first byte is written."""
        self._versions.add(sha256(text))
        return text

    def wait_for(self, what: str, holds) -> dict:
        """Waits until the last event satisfies `holds`; the time since this call counts as the latency."""
        begin = time.monotonic()
        with self._changed:
            if not self._changed.wait_for(lambda: self.events and holds(self.events[-1]), DEADLINE_S):
                raise AssertionError(f"waited {DEADLINE_S} s for {what}; the last events: {self.events[-5:]}")
            self.latencies.append(time.monotonic() - begin)
            return self.events[-1]

    def wait_good(self, text: bytes) -> dict:
        wanted = sha256(text)
        return self.wait_for(f"{text[:80]!r} accepted", lambda e: e["event"] in GOOD and e["sha256"] == wanted)

    def wait_refused(self, text: bytes) -> dict:
        wanted = sha256(text)
        return self.wait_for(f"{text[:80]!r} refused", lambda e: e["event"] == "refused" and e["sha256"] == wanted)

    def wait_event(self, name: str) -> dict:
        return self.wait_for(name, lambda e: e["event"] == name)

    def __enter__(self):
        return self

    def __exit__(self, error_type, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()
        self._reader.join(DEADLINE_S)
        errors = self._process.stderr.read().decode()
        self._process.stdout.close()
        self._process.stderr.close()
        if error_type is None:
            assert code == 0, f"exit code {code}: {errors}"
            assert errors == ""
            self._check_events()

    def _check_events(self):
        for event in self.events:
            assert event["event"] in EVENTS
            assert event["t"] >= 0
            has_bytes = event["event"] in (*GOOD, "refused")
            assert ("sha256" in event) == has_bytes == ("bytes" in event)
            assert ("error" in event) == (event["event"] not in GOOD)
            if has_bytes:
                assert event["sha256"] in self._versions, f"not a full version of the file: {event}"
        assert [e["t"] for e in self.events] == sorted(e["t"] for e in self.events)
