"""The monitor manager from InternEvo's own call sites, and the faults of the original that it does not have."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import types
from pathlib import Path
from typing import Any

import pytest
from internevo_world import HANG, Bot, Context

from stepwatch.compat import internevo
from stepwatch.compat.internevo import (
    initialize_monitor_manager,
    phases,
    read_stop_file,
    send_alert_message,
    set_env_var,
    utils,
)
from stepwatch.compat.internevo import monitor as monitor_module
from stepwatch.compat.internevo import monitor_manager as mm
from stepwatch.compat.internevo.monitor import MonitorManager, MonitorTracker
from stepwatch.compat.internevo.seen_exceptions import SeenExceptions


def train(bot: Bot, main: Any = lambda: None) -> None:
    """Run a training as InternEvo's train.py does, which swallows the exception of `main`."""
    with initialize_monitor_manager(job_name="7b_train", alert_address=bot.webhook):
        try:
            main()
        except Exception:
            mm.monitor_exception(alert_address=bot.webhook, excp_info=traceback.format_exc())


def fail(text: str = "bad sample") -> None:
    raise ValueError(text)


def step(bot: Bot, number: int, loss: float = 2.0) -> None:
    """Record a step as InternEvo's pipeline does."""
    set_env_var(key="LAST_ACTIVE_TIMESTAMP", value=1_700_000_000 + number)
    mm.monitor_loss_spike(alert_address=bot.webhook, step_count=number, cur_step_loss=loss)


# --- names, signatures, settings ---


def test_the_names_and_signatures_are_the_originals() -> None:
    def parameters(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    assert parameters(internevo.initialize_monitor_manager) == ["job_name", "alert_address"]
    assert parameters(internevo.initialize_light_monitor) == ["monitor_address"]
    assert parameters(internevo.send_heartbeat) == ["msg_type", "msg"]
    assert parameters(internevo.send_alert_message) == ["address", "title", "message"]
    assert parameters(internevo.send_feishu_msg_with_webhook) == ["webhook", "title", "message"]
    assert parameters(internevo.set_env_var) == ["key", "value"]
    assert parameters(mm.monitor_loss_spike) == ["alert_address", "step_count", "cur_step_loss"]
    assert parameters(mm.monitor_exception) == ["alert_address", "excp_info"]
    assert parameters(mm.exception_should_be_alert) == ["msg", "alert_address"]
    assert parameters(mm.handle_sigterm) == ["alert_address"]
    assert parameters(mm.start_monitor) == [
        "job_name",
        "alert_address",
        "monitor_interval_seconds",
        "loss_spike_limit",
    ]
    assert parameters(MonitorTracker)[:3] == ["alert_address", "check_interval", "loss_spike_limit"]
    assert MonitorManager() is mm is monitor_module.monitor_manager
    for name in ("now_time", "get_job_id", "get_job_name", "get_job_key", "try_import_send_exception"):
        assert callable(getattr(utils, name))


def test_no_alert_is_sent_without_the_switch_an_address_or_on_another_rank(bot: Bot, context: Context) -> None:
    send_alert_message(None, message="no address")
    context.is_log_rank = False
    send_alert_message(bot.webhook, message="another rank")
    context.is_log_rank = True
    context.config.monitor.alert["enable_feishu_alert"] = False
    send_alert_message(bot.webhook, message="switched off")
    assert bot.texts() == []


def test_settings_need_no_internevo(bot: Bot, tmp_path: Path) -> None:
    internevo.configure(enable_feishu_alert=True, alert_file_path=str(tmp_path / "alerts"))
    train(bot)
    assert [text.split()[-1] for text in bot.texts()] == ["starts.", "completed."]
    assert mm.alert_file_path == str(tmp_path / "alerts")


def test_settings_replace_those_of_the_config(bot: Bot, context: Context) -> None:
    internevo.configure(enable_feishu_alert=False)
    train(bot)
    assert bot.texts() == []


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"SLURM_JOB_ID": "17", "JOB_NAME": "a"}, "17_a"),
        ({"KUBERNETES_POD_NAME": "pod9-worker-0", "JOB_NAME": "a"}, "pod9_a"),
        ({"MLP_TASK_INSTANCE_ID": "x", "MLP_TASK_ID": "t3", "JOB_NAME": "a"}, "t3_a"),
        ({"JOB_NAME": "a"}, "none_a"),
    ],
)
def test_the_title_is_number_and_name_of_the_job(
    fresh: None, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], key: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert utils.get_job_key() == key


def test_a_job_without_a_name_keeps_the_one_that_it_gets(fresh: None) -> None:
    first = utils.get_job_key()
    assert first.startswith("none_unknown-")
    assert utils.get_job_key() == first


# --- start and end ---


def test_a_training_starts_and_completes(bot: Bot, context: Context) -> None:
    train(bot)
    starts, completed = bot.texts()
    assert starts.endswith("starts.") and completed.endswith("completed.")
    assert bot.bodies()[0]["content"]["post"]["zh_cn"]["title"] == "none_7b_train"


def test_a_failed_training_is_not_completed_and_its_exception_is_raised(bot: Bot, context: Context) -> None:
    with pytest.raises(ValueError, match="bad sample"):
        train(bot, fail)
    texts = bot.texts()
    assert len(texts) == 3
    assert "rank 0" in texts[1] and texts[1].endswith("ValueError: bad sample")
    assert texts[2].endswith("failed: ValueError.")


def test_an_exception_that_internevo_does_not_catch_is_no_completion(bot: Bot, context: Context) -> None:
    with pytest.raises(KeyboardInterrupt), initialize_monitor_manager("j", bot.webhook):
        raise KeyboardInterrupt
    with pytest.raises(SystemExit), initialize_monitor_manager("j", bot.webhook):
        sys.exit(3)
    with pytest.raises(SystemExit), initialize_monitor_manager("j", bot.webhook):
        sys.exit(0)
    ends = [text for text in bot.texts() if "starts" not in text]
    assert [end.split(" ", 4)[-1] for end in ends] == ["was interrupted.", "ended with status 3.", "completed."]


def test_an_exception_that_the_training_survives_is_not_raised(bot: Bot, context: Context) -> None:
    def main() -> None:
        step(bot, 1)
        try:
            fail()
        except ValueError:
            mm.monitor_exception(bot.webhook, traceback.format_exc())
        step(bot, 2)

    train(bot, main)
    assert bot.texts()[-1].endswith("completed.")


def test_a_failed_training_without_an_address_fails_as_well(fresh: None) -> None:
    with pytest.raises(ValueError), initialize_monitor_manager():
        try:
            fail()
        except ValueError:
            mm.monitor_exception(None, traceback.format_exc())


# --- the tracker ---


def test_the_tracker_is_a_daemon_and_stops_at_once(bot: Bot, context: Context) -> None:
    with initialize_monitor_manager("j", bot.webhook):
        thread = mm.monitor_thread
        assert thread is not None and thread.daemon and thread.check_interval == 300
    assert thread.stopped and not thread.is_alive()


class Turns:
    """An event that is set after so many waits, and never waits."""

    def __init__(self, count: int) -> None:
        self.waited: list[float] = []
        self.count = count

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return len(self.waited) > self.count

    def is_set(self) -> bool:
        return True

    def set(self) -> None:
        """End nothing: the count ends it."""


@pytest.fixture
def tracker(bot: Bot, context: Context) -> Any:
    found = MonitorTracker(bot.webhook, check_interval=300)
    found.stop()
    return found


def test_a_check_that_fails_waits_as_long_as_any_other(
    tracker: MonitorTracker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns = Turns(4)
    monkeypatch.setattr(tracker, "_ended", turns)
    monkeypatch.setenv("LOSS", "no number")
    monkeypatch.setenv("STEP_ID", "1")
    monkeypatch.setattr(tracker, "_last_step_id", None)
    monkeypatch.setattr(tracker, "check", lambda _: 1 / 0)
    tracker.run()
    assert turns.waited == [300] * 5
    assert sum("tracker" in record.message for record in caplog.records) == 1


def test_a_loss_of_0_stops_no_check(tracker: MonitorTracker, bot: Bot) -> None:
    for number, loss in enumerate(["0.0", "0.0", "5.0"]):
        set_env_var("STEP_ID", number)
        set_env_var("LOSS", loss)
        tracker.check(number)
    (text,) = bot.texts()
    assert "every 300 s" in text and "to 5" in text


def test_an_episode_that_every_step_reported_is_not_reported_by_the_tracker(bot: Bot, context: Context) -> None:
    mm.start_monitor("j", bot.webhook)
    tracker = mm.monitor_thread
    assert tracker is not None
    for number, loss in enumerate([2.0, 2.0, 2.0, 9.0, 9.5]):
        step(bot, number, loss)
        tracker.check(time.monotonic())
    (text,) = bot.texts()
    assert "at every step" in text


def test_a_stuck_training_alerts_once_and_recovers(tracker: MonitorTracker, bot: Bot) -> None:
    now = time.monotonic()
    set_env_var("LAST_ACTIVE_TIMESTAMP", 1)
    for seconds in (0, 300, 600, 900):
        tracker.check(now + seconds)
    set_env_var("LAST_ACTIVE_TIMESTAMP", 2)
    tracker.check(now + 1200)
    stuck, recovered = bot.texts()
    assert "may be stuck" in stuck and "Host" in stuck
    assert "goes on" in recovered


def test_internevos_evaluations_and_checkpoints_are_phases(
    tracker: MonitorTracker, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    @contextlib.contextmanager
    def switch_evaluation_mode(trainer: object, metric_hook_list: list[object]) -> Any:
        seen.append(phases.phase_in_progress())
        yield

    class CheckpointManager:
        def save_checkpoint(self, folder: str) -> str:
            seen.append(phases.phase_in_progress())
            return folder

    evaluation = types.ModuleType("internlm.eval.evaluation")
    evaluation.switch_evaluation_mode = switch_evaluation_mode  # type: ignore[attr-defined]
    checkpoints = types.ModuleType("internlm.checkpoint.checkpoint_manager")
    checkpoints.CheckpointManager = CheckpointManager  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, evaluation.__name__, evaluation)
    monkeypatch.setitem(sys.modules, checkpoints.__name__, checkpoints)
    now = time.monotonic()
    set_env_var("LAST_ACTIVE_TIMESTAMP", 1)
    tracker.check(now)
    with initialize_monitor_manager():
        with evaluation.switch_evaluation_mode(None, metric_hook_list=[]):
            for seconds in (300, 600, 900):
                tracker.check(now + seconds)
            assert phases.phase_in_progress() == "eval"
        assert CheckpointManager().save_checkpoint("folder") == "folder"
    assert seen == ["eval", "checkpoint"]
    assert phases.phase_in_progress() is None
    assert evaluation.switch_evaluation_mode is switch_evaluation_mode
    assert bot.texts() == []


# --- exceptions ---


def alerts_of(bot: Bot, *traces: str) -> int:
    before = len(bot.texts())
    for trace in traces:
        mm.monitor_exception(bot.webhook, trace)
    return len(bot.texts()) - before


def test_an_exception_whose_text_contains_that_of_another_is_another(
    bot: Bot, context: Context, tmp_path: Path
) -> None:
    context.config.monitor.alert["alert_file_path"] = str(tmp_path / "new folder" / "alerts")
    mm.start_monitor("j", bot.webhook)
    assert alerts_of(bot, "ValueError: sample 12", "ValueError: sample 1", "ValueError: sample") == 3
    assert alerts_of(bot, "ValueError: sample 1") == 0
    mm._seen = {fingerprint: seen - 601 for fingerprint, seen in mm._seen.items()}
    mm.alert_file_path = None
    assert alerts_of(bot, "ValueError: sample 1") == 1  # ten minutes later


def test_only_the_last_lines_of_a_traceback_are_sent(bot: Bot, context: Context) -> None:
    mm.start_monitor("j", bot.webhook)
    mm.monitor_exception(bot.webhook, "\n".join(f"line {number}" for number in range(30)) + "\n")
    assert bot.texts()[0].splitlines()[1:] == [f"line {number}" for number in range(20, 30)]


def report_on_rank(rank: int, path: str, barrier: Any, results: Any) -> None:
    trace = f"RuntimeError: NCCL error on cuda:{rank} in object at 0x7f{rank:04x}, [rank{rank}]"
    manager = MonitorManager()
    manager.alert_file_path = path
    barrier.wait()
    results.put(manager.exception_should_be_alert(trace))


def test_an_exception_of_many_ranks_is_one_alert(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    barrier, results = fork.Barrier(8), fork.Queue()
    arguments = [(rank, str(tmp_path / "alerts"), barrier, results) for rank in range(8)]
    ranks = [fork.Process(target=report_on_rank, args=each) for each in arguments]
    for rank in ranks:
        rank.start()
    answers = [results.get(timeout=60) for _ in ranks]
    for rank in ranks:
        rank.join()
    assert sorted(answers) == [False] * 7 + [True]


def test_a_rank_that_starts_late_deletes_no_line_of_an_earlier_one(bot: Bot, context: Context, tmp_path: Path) -> None:
    path = tmp_path / "alerts"
    assert SeenExceptions(str(path)).is_new("abc", time.time())
    context.config.monitor.alert["alert_file_path"] = str(path)
    mm.start_monitor("j", bot.webhook)
    assert not SeenExceptions(str(path)).is_new("abc", time.time())


def test_an_exception_after_a_restart_alerts_again_and_the_file_stays_small(tmp_path: Path) -> None:
    seen = SeenExceptions(str(tmp_path / "alerts"))
    for number in range(50):
        assert seen.is_new("abc", number * 1000.0)
    assert (tmp_path / "alerts").read_text().count("\n") == 1


@pytest.mark.parametrize("obstacle", ["folder", "link", "lock"])
def test_an_alert_file_that_cannot_be_used_hides_no_exception(
    bot: Bot, context: Context, tmp_path: Path, obstacle: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "alerts"
    path.mkdir() if obstacle == "folder" else path.touch()
    if obstacle == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    with contextlib.ExitStack() as stack:
        if obstacle == "lock":
            fcntl.flock(stack.enter_context(path.open()), fcntl.LOCK_EX)
        context.config.monitor.alert["alert_file_path"] = str(path)
        mm.start_monitor("j", bot.webhook)
        assert alerts_of(bot, f"ValueError: {obstacle}") == 1
    assert "cannot use the alert file" in caplog.text


def test_any_rank_reports_an_exception_if_there_is_a_shared_file(bot: Bot, context: Context, tmp_path: Path) -> None:
    context.rank, context.is_log_rank = 5, False
    mm.start_monitor("j", bot.webhook)
    assert alerts_of(bot, "ValueError: without a file") == 0
    context.config.monitor.alert["alert_file_path"] = str(tmp_path / "alerts")
    mm.start_monitor("j", bot.webhook)
    assert alerts_of(bot, "ValueError: with a file") == 1
    assert "rank 5" in bot.texts()[0]


# --- SIGTERM ---

SIGTERM_PROGRAM = """
    import os, signal, sys, time
    from stepwatch.compat import internevo
    internevo.configure(enable_feishu_alert=True)
    {before}
    with internevo.initialize_monitor_manager("j", sys.argv[1]):
        {inside}
        os.kill(os.getpid(), signal.SIGTERM)
        {after}
    print("lives on", flush=True)
"""


def run_with_sigterm(bot: Bot, before: str = "pass", inside: str = "pass", after: str = "time.sleep(60)") -> Any:
    program = textwrap.dedent(SIGTERM_PROGRAM).format(before=before, inside=inside, after=after)
    return subprocess.run(
        [sys.executable, "-c", program, bot.webhook], capture_output=True, text=True, timeout=120, check=False
    )


def test_sigterm_ends_the_process_as_it_would_without_us(bot: Bot) -> None:
    done = run_with_sigterm(bot)
    assert done.returncode == -15, done.stderr  # a shell shows 143
    assert done.stdout == ""
    assert [text.split()[-1] for text in bot.texts()] == ["starts.", "ends."]


HANG_OUTSIDE_OF_PYTHON = """
    import ctypes
    from stepwatch.compat.internevo import sigterm
    sigterm._GRACE_SECONDS = 0.1
    os.system(f"sleep 0.3 && kill {os.getpid()} &")
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
"""


def test_sigterm_ends_a_process_that_hangs_in_a_collective(bot: Bot) -> None:
    done = run_with_sigterm(bot, inside=HANG_OUTSIDE_OF_PYTHON.strip())
    assert done.returncode == -15, done.stderr
    assert [text.split()[-1] for text in bot.texts()] == ["starts.", "ends."]


@pytest.mark.parametrize("start", ["", "import multiprocessing as m; m.get_context('fork')"])
def test_queued_messages_are_sent_before_a_process_ends(bot: Bot, start: str) -> None:
    program = "import sys, stepwatch.compat.internevo as i; i.configure(enable_feishu_alert=True)\n"
    send = "i.send_alert_message(sys.argv[1], message='last words')"
    if start:
        send = f"{start}.Process(target=i.send_alert_message, args=(sys.argv[1], 't', 'last words')).start()"
    done = subprocess.run([sys.executable, "-c", program + send, bot.webhook], timeout=120, check=True)
    assert done.returncode == 0
    assert bot.texts() == ["last words"]


def test_a_bot_that_hangs_delays_the_end_of_a_process_no_longer_than_the_limit(bot: Bot) -> None:
    bot.usual = HANG
    program = "import sys, stepwatch.compat.internevo as i; i.configure(enable_feishu_alert=True)\n"
    program += "i.alert.alerts._exit_seconds = 0.1; i.send_alert_message(sys.argv[1], message='m')"
    subprocess.run([sys.executable, "-c", program, bot.webhook], timeout=120, check=True)
    bot.released.set()


def test_the_text_about_sigterm_has_its_name(bot: Bot) -> None:
    run_with_sigterm(bot)
    assert "received SIGTERM and ends" in bot.texts()[1]


def test_the_handler_from_before_is_called(bot: Bot) -> None:
    done = run_with_sigterm(bot, before="signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number + 100))")
    assert done.returncode == 115, done.stderr
    assert bot.texts()[-1].endswith("ended with status 115.")


def test_a_process_that_ignores_sigterm_lives_on(bot: Bot) -> None:
    done = run_with_sigterm(bot, before="signal.signal(signal.SIGTERM, signal.SIG_IGN)", after="pass")
    assert (done.returncode, done.stdout) == (0, "lives on\n"), done.stderr
    assert "ignores it" in bot.texts()[1]


def test_sigterm_to_a_forked_child_is_no_alert_of_the_job(bot: Bot) -> None:
    # Python forgets signals that arrive while a child begins, so the child reports that it has begun.
    inside = "ends = os.pipe(); child = os.fork() or os.write(ends[1], b'.') and time.sleep(60); os.read(ends[0], 1); "
    inside += "os.kill(child, signal.SIGTERM); print(os.waitpid(child, 0)[1], flush=True); os._exit(0)"
    done = run_with_sigterm(bot, inside=inside)
    assert done.stdout == "15\n", done.stderr
    assert not any("SIGTERM" in text for text in bot.texts())


def test_a_forked_child_does_not_pass_its_signals_to_its_parent(bot: Bot, context: Context) -> None:
    with initialize_monitor_manager("j", bot.webhook):
        child = os.fork()
        if child == 0:
            os._exit(0 if signal.set_wakeup_fd(-1) == -1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        pipe = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(pipe)
        assert pipe != -1
    assert signal.set_wakeup_fd(-1) == -1


def test_the_handler_from_before_returns_with_the_end_of_the_training(bot: Bot, context: Context) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with initialize_monitor_manager("j", bot.webhook):
        mm.handle_sigterm(bot.webhook)  # twice
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_thread_that_cannot_install_a_handler_trains_on(bot: Bot, context: Context) -> None:
    thread = threading.Thread(target=train, args=(bot,))
    thread.start()
    thread.join()
    assert bot.texts()[-1].endswith("completed.")


# --- stop file ---


@pytest.mark.parametrize(
    ("content", "number"), [("0", 0), ("120", 120), ("-40\n", -40), ("", 0), ("12x", 0), (None, 0)]
)
def test_a_stop_file_is_read_also_while_it_is_written(tmp_path: Path, content: str | None, number: int) -> None:
    path = tmp_path / "stop"
    if content is not None:
        path.write_text(content)
    assert read_stop_file(str(path)) == number


def notice(action: str, at: int, now: int) -> str:
    return f"training will {action} at step_count {at}!now step_count is {now}"


def test_a_stop_is_announced_once_a_change_and_not_at_each_step(bot: Bot, context: Context) -> None:
    for now in range(5, 20):
        send_alert_message(bot.webhook, message=notice("Stop", 100, now))
    for now in range(20, 30):
        send_alert_message(bot.webhook, message=notice("Stop", 200, now))
    for now in range(30, 35):
        send_alert_message(bot.webhook, message=notice("Save", 200, now))
    send_alert_message(bot.webhook, message=notice("Save", 200, 50))  # withdrawn, and requested again
    send_alert_message(bot.webhook, message="Overflow")
    assert [text.split("!")[0].split(" will ")[-1] for text in bot.texts()] == [
        "Stop at step_count 100",
        "Stop at step_count 200",
        "Save at step_count 200",
        "Save at step_count 200",
        "Overflow",
    ]
