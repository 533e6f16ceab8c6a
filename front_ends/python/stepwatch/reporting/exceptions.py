"""Reports of exceptions that are uncaught or end a monitor's block; they are handled as usual afterwards."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from stepwatch.reporting.reporter import Reporter

# Limit of frames kept of each exception of a chain, innermost first.
_FRAMES_MAX = 60


class ExceptionHooks:
    """Wraps `sys.excepthook` and `threading.excepthook` while there are monitors.

    Parameters
    ----------
    reporters : callable
        Returns the reporters of the open monitors.
    """

    def __init__(self, reporters: Callable[[], Iterable[Reporter]]) -> None:
        self._reporters = reporters
        self._before: Any = None
        self._before_of_threads: Any = None

    def install(self) -> None:
        """Install the hooks. Safe to call twice."""
        if self._before is not None:
            return
        self._before, self._before_of_threads = sys.excepthook, threading.excepthook
        sys.excepthook, threading.excepthook = self._on_exception, self._on_exception_of_thread

    def remove(self) -> None:
        """Restore the previous hooks, or only forward to them if other code has wrapped ours."""
        if self._before is None:
            return
        if sys.excepthook == self._on_exception and threading.excepthook == self._on_exception_of_thread:
            sys.excepthook, threading.excepthook = self._before, self._before_of_threads
            self._before = self._before_of_threads = None

    def _on_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        report_end(self._reporters, kind, value, trace)
        self._before(kind, value, trace)

    def _on_exception_of_thread(self, args: Any) -> None:
        try:
            if args.exc_type is not SystemExit:
                _report(self._reporters(), args.exc_type, args.exc_value, args.exc_traceback, ends_run=False)
        except Exception:
            pass
        self._before_of_threads(args)


def report_end(
    reporters: Callable[[], Iterable[Reporter]],
    kind: type[BaseException],
    value: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Report the exception that ends runs. Never raises, so that the program's own exception stays undisturbed.

    Parameters
    ----------
    reporters : callable
        Returns the reporters of the runs.
    kind, value, trace
        As `sys.exc_info` returns them. `sys.exit` does not count as an exception.
    """
    try:
        if issubclass(kind, KeyboardInterrupt):
            for reporter in reporters():
                reporter.ends_by_signal()
        elif not issubclass(kind, (SystemExit, GeneratorExit)):
            _report(reporters(), kind, value, trace, ends_run=True)
    except Exception:
        pass


def _report(
    reporters: Iterable[Reporter],
    kind: type[BaseException],
    value: BaseException | None,
    trace: TracebackType | None,
    ends_run: bool,
) -> None:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    stack = "".join(traceback.format_exception(kind, value, trace, limit=-_FRAMES_MAX))
    for reporter in reporters:
        reporter.exception(name, _text_of(value), stack, fingerprint_of(name, trace), ends_run)


def fingerprint_of(name: str, trace: TracebackType | None) -> str:
    """Return an id of a fault: equal for the same call path to the same exception.

    The message of the exception, line numbers and folders do not change the id.

    Parameters
    ----------
    name : str
        The exception's class.
    trace : traceback or None

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    parts = [name]
    for frame in traceback.extract_tb(trace, limit=-_FRAMES_MAX):
        folder, file = os.path.split(frame.filename)
        parts.append(f"{os.path.basename(folder)}/{file}:{frame.name}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _text_of(value: BaseException | None) -> str:
    try:
        return str(value)
    except Exception:
        return "(the exception has no text)"
