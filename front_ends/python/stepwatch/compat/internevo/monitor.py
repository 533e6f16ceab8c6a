"""The names of `internlm.monitor.monitor`: the monitor manager, its tracker, and alerts of the job."""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stepwatch.compat import light_monitor
from stepwatch.compat.beat_lines import exception_fingerprint
from stepwatch.compat.internevo import alert, phases
from stepwatch.compat.internevo.loss_watch import LossWatch
from stepwatch.compat.internevo.progress_watch import ProgressWatch
from stepwatch.compat.internevo.seen_exceptions import REMEMBERED_SECONDS, SeenExceptions
from stepwatch.compat.internevo.settings import alert_settings
from stepwatch.compat.internevo.sigterm import SigtermWatch
from stepwatch.compat.internevo.stop_file import StopNotices
from stepwatch.compat.internevo.utils import get_job_key, set_env_var
from stepwatch.compat.job_identity import global_rank, is_rank_for_log
from stepwatch.hooks.patches import Patches
from stepwatch.reporting.found import reporter_in_use

logger = logging.getLogger("stepwatch")

_TRACE_LINES = 10
_INTERVAL_SECONDS_MIN = 0.05
_STOP_SECONDS = 5.0
_SIGTERM_SECONDS = 3.0

_stop_notices = StopNotices()


def send_alert_message(address: str | None = None, title: str | None = None, message: str | None = None) -> None:
    """Send an alert of the job to Feishu, in the background, from the rank that logs, if alerts are enabled.

    Parameters
    ----------
    address : str, optional
        The webhook of the bot; None: the alert is not sent.
    title : str, optional
        None: number and name of the job.
    message : str, optional
    """
    if address is None or not alert_settings().enable_feishu_alert or not is_rank_for_log():
        return
    if message is not None and _stop_notices.is_repeated(message):
        return
    alert.queue_feishu_message(address, title or get_job_key(), message or "")


class MonitorTracker(threading.Thread):
    """A daemon thread that looks for a stuck training and a risen loss from time to time; it starts at once.

    It reads the environment variables that the training sets: LAST_ACTIVE_TIMESTAMP, STEP_ID and LOSS.

    Parameters
    ----------
    alert_address : str
        The webhook of the bot.
    check_interval : float
        Seconds between two checks, and without a step until the training counts as stuck.
    loss_spike_limit : float
        The ratio of losses that is reported.
    steps : LossWatch, optional
        Judges the loss of every step. An episode that it has reported is not reported again.
    """

    def __init__(
        self,
        alert_address: str,
        check_interval: float = 300,
        loss_spike_limit: float = 1.5,
        steps: LossWatch | None = None,
    ) -> None:
        super().__init__(name="stepwatch-track", daemon=True)
        self.alert_address = alert_address
        self.check_interval = max(float(check_interval), _INTERVAL_SECONDS_MIN)
        self.loss_spike_limit = loss_spike_limit
        self._steps = steps
        self._progress = ProgressWatch(self.check_interval, time.monotonic())
        self._losses = LossWatch(loss_spike_limit, f"every {self.check_interval:g} s")
        self._last_step_id: str | None = None
        self._has_failed = False
        self._ended = threading.Event()
        self.start()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._ended.is_set()

    def run(self) -> None:
        """Check until `stop` is called."""
        while not self._ended.wait(self.check_interval):
            try:
                self.check(time.monotonic())
            except Exception as error:
                if not self._has_failed:
                    self._has_failed = True
                    logger.warning("the tracker of the training failed (%s: %s)", type(error).__name__, error)

    def check(self, now: float) -> None:
        """Make one check.

        Parameters
        ----------
        now : float
            Seconds of the monotonic clock.
        """
        for text in (*self._stuck_texts(now), *self._loss_texts()):
            send_alert_message(address=self.alert_address, message=text)

    def _stuck_texts(self, now: float) -> list[str]:
        stamps = (os.environ.get("LAST_ACTIVE_TIMESTAMP"), os.environ.get("STEP_ID"))
        text = self._progress.judge(now, phases.phase_in_progress(), *stamps)
        return [] if text is None else [f"{text} Host {socket.gethostname()}, rank {global_rank()}."]

    def _loss_texts(self) -> list[str]:
        step, loss = os.environ.get("STEP_ID"), os.environ.get("LOSS")
        if step is None or loss is None or step == self._last_step_id:
            return []
        self._last_step_id = step
        if self._steps is not None and self._steps.in_episode:
            return []
        return self._losses.judge(int(step), float(loss))

    def stop(self) -> None:
        """Stop the thread at once."""
        self._ended.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(_STOP_SECONDS)


class _Singleton(type):
    _instances: dict[type, Any] = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args, **kwargs)
        return cls._instances[cls]


class MonitorManager(metaclass=_Singleton):
    """The one manager of a process: judges losses, reports exceptions and SIGTERM, and owns the tracker.

    Parameters
    ----------
    loss_spike_limit : float
        The ratio of a loss to its level that is reported.
    """

    def __init__(self, loss_spike_limit: float = 1.5) -> None:
        self.monitor_thread: MonitorTracker | None = None
        self.loss_spike_limit = loss_spike_limit
        self.alert_file_path: str | None = None
        self.enable_alert = False
        self.light_monitor_address: str | None = None
        self._losses = LossWatch(loss_spike_limit)
        self._seen: dict[str, float] = {}  # exceptions of this process, by the time
        self._in_context = False
        self._failure: tuple[BaseException | None, str | None] | None = None
        self._sigterm = SigtermWatch(self._report_sigterm)
        self._sigterm_address: str | None = None
        self._replaces_native_handler = False

    def monitor_loss_spike(
        self, alert_address: str | None = None, step_count: int = 0, cur_step_loss: float = 0.0
    ) -> None:
        """Judge the loss of a step, and send an alert when an episode begins or ends.

        Parameters
        ----------
        alert_address : str, optional
            The webhook of the bot.
        step_count : int
        cur_step_loss : float
        """
        loss = float(cur_step_loss)
        light_monitor.send_loss(loss)
        if not self.enable_alert:
            return
        set_env_var(key="LOSS", value=loss)
        set_env_var(key="STEP_ID", value=step_count)
        for text in self._losses.judge(step_count, loss):
            send_alert_message(address=alert_address, message=text)

    def exception_should_be_alert(self, msg: str, alert_address: str | None = None) -> bool:
        """Return whether an exception is new: neither this process nor, by the shared file, another rank sent it.

        Parameters
        ----------
        msg : str
            The last lines of its traceback.
        alert_address : str, optional
            For compatibility: a file that cannot be used is logged.
        """
        fingerprint = exception_fingerprint(msg)
        now = time.time()
        if abs(now - self._seen.get(fingerprint, -math.inf)) < REMEMBERED_SECONDS:
            return False
        self._seen[fingerprint] = now
        if not self.alert_file_path:
            return True
        try:
            return SeenExceptions(self.alert_file_path).is_new(fingerprint, now)
        except OSError as error:
            logger.warning("cannot use the alert file %s: %s", self.alert_file_path, error.strerror)
            return True

    def monitor_exception(self, alert_address: str | None = None, excp_info: str | None = None) -> None:
        """Report the exception that is being handled. `initialize_monitor_manager` raises it again at its end.

        Parameters
        ----------
        alert_address : str, optional
            The webhook of the bot.
        excp_info : str, optional
            The traceback as text.
        """
        self._failure = (sys.exc_info()[1], os.environ.get("LAST_ACTIVE_TIMESTAMP"))
        trace = "\n".join((excp_info or "").rstrip().split("\n")[-_TRACE_LINES:])
        # An exception that is raised again reaches a Stepwatch monitor by itself.
        if reporter_in_use() is None or not self._in_context or self._failure[0] is None:
            light_monitor.send_exception_msg(trace, global_rank())
        if not self.enable_alert or not self.exception_should_be_alert(trace, alert_address):
            return
        message = f"Exception on {socket.gethostname()}, rank {global_rank()}:\n{trace}"
        if self.alert_file_path and alert_address is not None:
            alert.queue_feishu_message(alert_address, get_job_key(), message)
        else:
            send_alert_message(alert_address, message=message)

    def handle_sigterm(self, alert_address: str | None = None) -> None:
        """Report SIGTERM, and then let it act as it did before this call.

        Parameters
        ----------
        alert_address : str, optional
            The webhook of the bot.
        """
        self._sigterm_address = alert_address
        # A Stepwatch monitor that is open already has a native handler, which this one replaces.
        self._replaces_native_handler = reporter_in_use() is not None
        self._sigterm.install()

    def _report_sigterm(self, effect: str) -> None:
        text = f"The process on {socket.gethostname()}, rank {global_rank()}, received SIGTERM and {effect}."
        if self.enable_alert:
            send_alert_message(address=self._sigterm_address, message=text)
        if effect == "ends":
            light_monitor.send_end("signal")
            reporter = reporter_in_use() if self._replaces_native_handler else None
            if reporter is not None:
                reporter.ends_by_signal()
        end = time.monotonic() + _SIGTERM_SECONDS
        alert.alerts.flush(_SIGTERM_SECONDS)
        light_monitor.flush(max(0.0, end - time.monotonic()))

    def start_monitor(
        self,
        job_name: str | None,
        alert_address: str,
        monitor_interval_seconds: float = 300,
        loss_spike_limit: float = 1.5,
    ) -> None:
        """Start the tracker, if alerts are enabled.

        Parameters
        ----------
        job_name : str or None
        alert_address : str
            The webhook of the bot.
        monitor_interval_seconds : float
            Seconds between two checks.
        loss_spike_limit : float
            The ratio of losses that is reported.
        """
        self.stop_monitor()
        if job_name is not None:
            set_env_var(key="JOB_NAME", value=job_name)
        settings = alert_settings()
        self.enable_alert = settings.enable_feishu_alert
        self.light_monitor_address = settings.light_monitor_address
        self.alert_file_path = settings.alert_file_path
        self.loss_spike_limit = loss_spike_limit
        self._losses = LossWatch(loss_spike_limit)
        self._seen.clear()
        if not self.enable_alert:
            return
        if self.alert_file_path:
            try:
                SeenExceptions(self.alert_file_path).prepare()
            except OSError as error:
                logger.warning("cannot make the folder of %s: %s", self.alert_file_path, error.strerror)
        self.monitor_thread = MonitorTracker(
            alert_address, monitor_interval_seconds, loss_spike_limit, steps=self._losses
        )

    def stop_monitor(self) -> None:
        """Stop the tracker, and restore the handler of SIGTERM from before `handle_sigterm`."""
        if self.monitor_thread is not None:
            self.monitor_thread.stop()
            self.monitor_thread = None
        self._sigterm.restore()

    def enter_context(self) -> None:
        """Begin a training: exceptions of an earlier one are forgotten."""
        self._in_context, self._failure = True, None

    def leave_context(self) -> tuple[bool, BaseException | None]:
        """End the training; return whether `monitor_exception` has reported its failure, and the exception.

        A training that made steps after the exception has handled it.
        """
        self._in_context = False
        failure, self._failure = self._failure, None
        if failure is None or failure[1] != os.environ.get("LAST_ACTIVE_TIMESTAMP"):
            return False, None
        return True, failure[0]


monitor_manager = MonitorManager()


@contextmanager
def initialize_monitor_manager(job_name: str | None = None, alert_address: str | None = None) -> Iterator[None]:
    """Monitor a training for a block.

    An exception that `monitor_exception` has reported in the block, and after which no step was made, is raised again
    at the end of the block, so that the process does not end with status 0.

    Parameters
    ----------
    job_name : str, optional
    alert_address : str, optional
        The webhook of a Feishu bot; None: no alerts are sent.
    """
    manager, patches = monitor_manager, Patches()
    manager.enter_context()
    phases.watch_internevo(patches)
    host = socket.gethostname()
    if alert_address is not None:
        manager.start_monitor(job_name=job_name, alert_address=alert_address)
        manager.handle_sigterm(alert_address=alert_address)
        send_alert_message(address=alert_address, message=f"The training on {host} starts.")
    outcome = "completed"
    try:
        yield
        has_failed, failure = manager.leave_context()
        outcome = "failed" if has_failed else outcome
        if failure is not None:
            raise failure
    except BaseException as error:
        outcome = _outcome_of(error)
        raise
    finally:
        manager.leave_context()
        patches.remove()
        if alert_address is not None:
            send_alert_message(address=alert_address, message=f"The training on {host} {outcome}.")
            manager.stop_monitor()
        light_monitor.send_end("ok" if outcome == "completed" else "error")


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "completed" if error.code in (None, 0) else f"ended with status {error.code}"
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    return f"failed: {type(error).__name__}"
