"""Reports SIGTERM, and lets the process end as it would have without the report."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("stepwatch")

# Python runs a handler only when the main thread is back from a call, such as a collective, that may never return.
_GRACE_SECONDS = 5.0


class SigtermWatch:
    """A handler of SIGTERM that reports the signal, and then does what the handler before it does.

    If the default action was in force, and the main thread does not run the handler in time, a thread reports the
    signal and ends the process by it.

    Parameters
    ----------
    report : callable
        Called with "ends", "ignores it", or "handles it".
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._process = os.getpid()
        self._before: Any = None
        self._is_handled = False
        self._pipe: tuple[int, int] | None = None
        os.register_at_fork(after_in_child=self._forget_pipe)

    def install(self) -> None:
        """Install the handler. Safe to call twice."""
        if self._is_installed():
            return
        try:
            self._before = signal.signal(signal.SIGTERM, self._on_signal)
        except ValueError:
            logger.warning("SIGTERM is not reported: only the main thread can install a handler")
            return
        self._process, self._is_handled = os.getpid(), False
        if self._before == signal.SIG_DFL:
            self._watch_pipe()

    def restore(self) -> None:
        """Restore the handler from before, unless another one was installed since."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._leave_pipe()
        if self._is_installed():
            # None: that handler was not installed from Python, and cannot be restored from it.
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)

    def _is_installed(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self._on_signal

    def _on_signal(self, number: int, frame: Any) -> None:
        self._is_handled = True
        before = self._before
        if os.getpid() == self._process:
            self._report_safely()
        if callable(before):
            before(number, frame)
        elif before != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _report_safely(self) -> None:
        before = self._before
        try:
            self._report("handles it" if callable(before) else "ignores it" if before == signal.SIG_IGN else "ends")
        except Exception as error:
            logger.warning("SIGTERM was not reported (%s)", type(error).__name__)

    # --- the pipe to which Python writes the numbers of signals as they come ---

    def _watch_pipe(self) -> None:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(read_end, True)
        before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        if before != -1:  # an event loop uses it
            signal.set_wakeup_fd(before)
            os.close(read_end)
            os.close(write_end)
            return
        self._pipe = (read_end, write_end)
        threading.Thread(target=self._read_pipe, args=(read_end,), name="stepwatch-sigterm", daemon=True).start()

    def _read_pipe(self, read_end: int) -> None:
        while numbers := os.read(read_end, 64):
            if signal.SIGTERM in numbers:
                self._end_if_main_thread_hangs()
        os.close(read_end)

    def _end_if_main_thread_hangs(self) -> None:
        end = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < end:
            if self._is_handled:
                return
            time.sleep(0.05)
        if self._is_handled or not self._is_installed():
            return
        self._report_safely()
        # `signal.signal` works in the main thread only.
        ctypes.CDLL(None).signal(int(signal.SIGTERM), ctypes.c_void_p(0))
        os.kill(os.getpid(), signal.SIGTERM)

    def _leave_pipe(self) -> None:
        if self._pipe is None:
            return
        _, write_end = self._pipe
        self._pipe = None
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, write_end):
            signal.set_wakeup_fd(current)
        os.close(write_end)  # ends the thread

    def _forget_pipe(self) -> None:
        """Leave the pipe to the parent: a signal to a forked child is none to the parent."""
        if self._pipe is not None:
            with contextlib.suppress(Exception):
                self._leave_pipe()
