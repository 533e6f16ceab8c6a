"""InternEvo's global context, a Feishu bot and a fake stepwatchd, for tests of the replacement of its monitor."""

from __future__ import annotations

import json
import sys
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from stepwatch.compat import job_identity, light_monitor
from stepwatch.compat.internevo import alert, configure, feishu, monitor, monitor_manager

DEADLINE_SECONDS = 30
OK = (200, {"code": 0, "msg": "success"})
HANG = "hang"


class Server:
    """An HTTP server on this machine that records requests, and gives scripted answers, at last always `usual`."""

    def __init__(self, usual: Any = OK) -> None:
        self.usual = usual
        self.script: list[Any] = []
        self.requests: list[tuple[str, dict[str, str], str]] = []
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.requests.append((self.path, dict(self.headers), body))
                answer = outer.script.pop(0) if outer.script else outer.usual
                if answer == HANG:
                    outer.released.wait(DEADLINE_SECONDS)
                    return
                status, content = answer
                text = (content if isinstance(content, str) else json.dumps(content)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                if status == 302:
                    self.send_header("Location", f"{outer.address}/elsewhere")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]


class Bot(Server):
    """A Feishu bot."""

    token = "6f5e-TOKEN-of-the-bot"

    @property
    def webhook(self) -> str:
        return f"{self.address}/open-apis/bot/v2/hook/{self.token}"

    def texts(self) -> list[str]:
        """Return the received messages, after all that were queued before."""
        assert alert.alerts.flush(DEADLINE_SECONDS)
        posts = [body["content"]["post"]["zh_cn"] for body in self.bodies()]
        return [post["content"][0][0]["text"] for post in posts]


class Config(dict):  # type: ignore[type-arg]
    """InternEvo's config: a dictionary whose keys are attributes as well."""

    __getattr__ = dict.__getitem__


class Context:
    """InternEvo's global context of one rank."""

    def __init__(self, **alerts: Any) -> None:
        defaults = {"enable_feishu_alert": False, "feishu_alert_address": None, "light_monitor_address": None}
        self.config = Config(JOB_NAME="7b_train", monitor=Config(alert=Config({**defaults, **alerts})))
        self.rank = 0
        self.is_log_rank = True

    def get_global_rank(self) -> int:
        return self.rank

    def is_rank_for_log(self) -> bool:
        return self.is_log_rank


def install_context(monkeypatch: pytest.MonkeyPatch, context: Context) -> Context:
    """Make a process look as if it had imported InternEvo."""
    module = types.ModuleType("internlm.core.context")
    module.global_context = context  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "internlm.core.context", module)
    return context


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test the state of a new process."""
    for name in ("JOB_NAME", "LAST_ACTIVE_TIMESTAMP", "LOSS", "STEP_ID", "SLURM_JOB_ID", "KUBERNETES_POD_NAME"):
        monkeypatch.setenv(name, "")  # restored afterwards, although the code under test sets them
        monkeypatch.delenv(name)
    for name in ("CLUSTER_NAME", "MLP_TASK_INSTANCE_ID", "MONITOR_SERVER", "RANK", "WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(light_monitor, "_client", None)
    monkeypatch.setattr(light_monitor, "_monitor_was_open", False)
    monkeypatch.setattr(light_monitor, "_loss_is_reported", False)
    monkeypatch.setattr(light_monitor, "at_exit", lambda _: None)
    monkeypatch.setattr(alert, "_limit", feishu.RateLimit())
    monkeypatch.setattr(monitor, "_stop_notices", monitor.StopNotices())
    job_identity.time_of_first_use.cache_clear()
    configure()
    yield
    monitor_manager.stop_monitor()
    monitor_manager.enable_alert = False
    monitor_manager.alert_file_path = None
    configure()
    assert alert.alerts.flush(DEADLINE_SECONDS)


@pytest.fixture
def bot(fresh: None) -> Iterator[Bot]:
    server = Bot()
    yield server
    server.released.set()
    alert.alerts.flush(DEADLINE_SECONDS)
    server.close()


@pytest.fixture
def context(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> Context:
    """InternEvo's context in a job that sends alerts to the bot."""
    return install_context(monkeypatch, Context(enable_feishu_alert=True, feishu_alert_address=bot.webhook))
