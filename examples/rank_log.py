"""The log file of one rank: lines of steps, and events as JSON."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path


def now() -> str:
    """Return the time in UTC, such as 2026-01-31T12:00:00.123Z."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RankLog:
    """Appends each line by one write. The rank itself renames a full file to `.1`, and older ones up to `.3`.

    Parameters
    ----------
    directory : Path
        The directory of the logs of all ranks.
    rank : int
        Lines of rank 0 are printed as well.
    run : str
        The id of the run.
    bytes_max : int
        The size that a file keeps below.
    """

    def __init__(self, directory: Path, rank: int, run: str, bytes_max: int) -> None:
        self._path, self._rank, self._run, self._bytes_max = directory / f"rank{rank}.log", rank, run, bytes_max
        directory.mkdir(parents=True, exist_ok=True)
        self._open()

    def progress(self, step: int, **numbers: float) -> None:
        """Write the line of a step."""
        texts = [
            f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in numbers.items()
        ]
        self._write(f"{now()} INFO [rank{self._rank}] Step {step}: {', '.join(texts)}")

    def event(self, action: str, message: str, **numbers: float) -> None:
        """Write an event as one JSON object, with names of the Elastic Common Schema."""
        known = {"@timestamp": now(), "log.level": "info", "message": message, "ecs.version": "8.11.0"}
        facts = {"event.action": action, "service.name": "monitored_ddp", "run.id": self._run, "rank": self._rank}
        self._write(json.dumps({**known, **facts, **numbers}))

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode()
        if 0 < os.fstat(self._file).st_size > self._bytes_max - len(data):
            self._rotate()
        os.write(self._file, data)
        if self._rank == 0:
            sys.stdout.write(data.decode())
            sys.stdout.flush()

    def _rotate(self) -> None:
        names = [Path(f"{self._path}{end}") for end in ("", ".1", ".2", ".3")]
        for old, new in reversed(list(zip(names, names[1:]))):
            if old.exists():
                old.replace(new)
        os.close(self._file)
        self._open()
