"""Prometheus and Alertmanager with the provisioned files, and a stepwatchd that is a page of metrics."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from monitoring_tools import Server, alertmanager, free_ports, prometheus, provision, secrets_of, tool, until

pytestmark = pytest.mark.xdist_group("provisioned_stack")
TOKEN = "Bearer secret-of-stepwatchd_token"
HISTORY_SECONDS = 1200


class FakeStepwatchd:
    """Serves targets and metrics to those who have the token, and keeps the messages of Alertmanager."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.is_stuck = True
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers["Authorization"] != TOKEN:
                    self.answer(401, "", "text/plain")
                elif self.path == "/v1/sd/stepwatchd":
                    self.answer(
                        200, json.dumps([{"targets": [fake.address], "labels": {"host": "h"}}]), "application/json"
                    )
                else:
                    self.answer(200, fake.page(), "text/plain; version=0.0.4; charset=utf-8")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Authorization"] == TOKEN:
                    fake.messages.append((self.path, json.loads(body)))
                self.answer(200, "{}", "application/json")

            def answer(self, status: int, text: str, content_type: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self) -> str:
        """Return the metrics of four runs: one spikes, one is NaN, one is stuck, one is healthy."""
        now = time.time()
        lines = []
        for run, loss in {"spike": "9.0", "nan": "NaN", "stuck": "2.0", "healthy": "1.9"}.items():
            step_at = now - (1000 if run == "stuck" and self.is_stuck else 1)
            lines += [
                f'stepwatch_run_phase{{run="{run}",phase="train"}} 1',
                f'stepwatch_run_loss{{run="{run}"}} {loss}',
                f'stepwatch_run_last_step_timestamp_seconds{{run="{run}"}} {step_at:.3f}',
                f'stepwatch_run_step_seconds_p99{{run="{run}"}} 0.5',
            ]
        return "\n".join(sorted(lines)) + "\n"

    def alerts_of(self, receiver: str) -> list[dict[str, Any]]:
        """Return the alerts of the messages to a receiver."""
        path = f"/v1/notify/{receiver}"
        return [alert for to, message in self.messages if to == path for alert in message["alerts"]]


class Stack(NamedTuple):
    alertmanager: Server
    prometheus: Server


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeStepwatchd]:
    made = FakeStepwatchd()
    yield made
    made.server.shutdown()


def write_history(place: Path, address: str) -> None:
    """Store a healthy loss of the last minutes, as scrapes would have."""
    labels = f'cluster="training",instance="{address}",job="stepwatchd",node="127.0.0.1"'
    now = int(time.time())
    lines = ["# TYPE stepwatch_run_loss gauge"]
    for run in ("spike", "nan", "stuck", "healthy"):
        for at in range(now - HISTORY_SECONDS, now - 5, 15):
            lines.append(f'stepwatch_run_loss{{{labels},run="{run}"}} 2.0 {at}')
    (place / "history").write_text("\n".join([*lines, "# EOF", ""]))
    stored = tool("promtool", "tsdb", "create-blocks-from", "openmetrics", place / "history", place / "data")
    assert stored.returncode == 0, stored.stderr


@pytest.fixture(scope="module")
def stack(fake: FakeStepwatchd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return a stack that scrapes and judges every second."""
    place = tmp_path_factory.mktemp("stack")
    port, alerts_port = free_ports(2)
    options = ("--stepwatchd", fake.address, "--alertmanager", f"127.0.0.1:{alerts_port}", "--interval", 1)
    done = provision(place / "p", "--secrets", secrets_of(place / "secrets"), *options)
    assert done.returncode == 0, done.stderr
    write_history(place, fake.address)
    with contextlib.ExitStack() as servers:
        server = servers.enter_context(alertmanager(place, alerts_port, place / "p/alertmanager/alertmanager.yml"))
        source = servers.enter_context(prometheus(place, port, place / "p/prometheus/prometheus.yml"))
        yield Stack(server, source)


def firing(stack: Stack) -> set[tuple[str, str]]:
    found = stack.alertmanager.get("/api/v2/alerts")
    return {(alert["labels"]["alertname"], alert["labels"].get("run", "")) for alert in found}


def test_each_fault_becomes_one_alert_in_alertmanager(stack: Stack) -> None:
    expected = {("TrainingLossSpike", "spike"), ("NotFinite", "nan"), ("Stalled", "stuck"), ("Watchdog", "")}
    until(lambda: firing(stack) == expected, lambda: firing(stack))
    for alert in stack.alertmanager.get("/api/v2/alerts"):
        assert alert["labels"]["cluster"] == "training"
        assert "replica" not in alert["labels"]
        assert alert["annotations"]["summary"]


def test_stepwatchd_gets_every_alert_with_the_token_and_the_watchdog_apart(stack: Stack, fake: FakeStepwatchd) -> None:
    wanted = {"TrainingLossSpike", "NotFinite", "Stalled", "Watchdog"}
    until(lambda: {alert["labels"]["alertname"] for alert in fake.alerts_of("chat")} == wanted, lambda: fake.messages)
    for _, message in fake.messages:
        names = {alert["labels"]["alertname"] for alert in message["alerts"]}
        assert (message["receiver"] == "watchdog") == ("Watchdog" in names)
    spike = next(alert for alert in fake.alerts_of("chat") if alert["labels"].get("run") == "spike")
    assert spike["annotations"]["summary"] == "Loss of spike jumped to 9"
    assert spike["annotations"]["summary_zh"]


def test_an_alert_ends_when_its_run_goes_on(stack: Stack, fake: FakeStepwatchd) -> None:
    until(lambda: ("Stalled", "stuck") in firing(stack))
    fake.is_stuck = False
    until(lambda: ("Stalled", "stuck") not in firing(stack), lambda: firing(stack))


def test_prometheus_finds_stepwatchd_by_http_and_labels_its_series(stack: Stack, fake: FakeStepwatchd) -> None:
    targets = stack.prometheus.get("/api/v1/targets?state=active")["data"]["activeTargets"]
    stepwatchd = [each for each in targets if each["labels"]["job"] == "stepwatchd"]
    assert [each["health"] for each in stepwatchd] == ["up"]
    assert stepwatchd[0]["labels"] == {
        "cluster": "training",
        "instance": fake.address,
        "job": "stepwatchd",
        "node": "127.0.0.1",
    }
