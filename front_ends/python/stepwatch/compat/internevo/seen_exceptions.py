"""Exceptions that some rank has reported already, in a file that all ranks share."""

from __future__ import annotations

import fcntl
import os
import time

# Ranks fail within that time of each other; a later failure, such as one after a restart, is a new one.
REMEMBERED_SECONDS = 600.0
_LOCK_SECONDS = 1.0


class SeenExceptions:
    """The shared file: a line for each exception, with its id and the time.

    The file is never deleted, so that a rank which starts late cannot remove the line of an earlier one.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make the directory of the file. Raises OSError."""
        os.makedirs(os.path.dirname(os.path.abspath(self._path)), exist_ok=True)

    def is_new(self, fingerprint: str, now: float) -> bool:
        """Record an exception; return whether no rank has recorded it in the last ten minutes. Raises OSError."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as file:
            _lock(file.fileno())
            recent = [line for line in map(str.split, file) if len(line) == 2 and _is_recent(line[1], now)]
            if any(line[0] == fingerprint for line in recent):
                return False
            file.seek(0)
            file.truncate()
            file.writelines(f"{name} {time}\n" for name, time in [*recent, [fingerprint, f"{now:.0f}"]])
            return True


def _is_recent(text: str, now: float) -> bool:
    try:
        return abs(now - float(text)) < REMEMBERED_SECONDS
    except ValueError:
        return False


def _lock(descriptor: int) -> None:
    """Lock a file until it is closed; give up after a second, because a stopped process may hold the lock."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
