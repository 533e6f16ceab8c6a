"""Messages of a real stepwatchd to receivers on this machine, through failures, kills and links."""

from __future__ import annotations

import functools
import http.client
import http.server
import json
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import command_line
from build_tree import BUILD
from described_api import token_file
from monitoring_tools import Server, alertmanager, free_ports, until
from stepwatchd_process import DAEMON, DEADLINE_SECONDS, NO_JOBS, Stepwatchd, beat, event, start

SECRET = "hook-secret-5d41402abc4b2a76"
HANGING_LOOKUP = BUILD / "lib/libstepwatch_hanging_lookup.so"


class Receiver:
    """A webhook on a free port: keeps the bodies of requests, and answers as the test says."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], int] = lambda body: 200
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.bodies.append(body)
                status = receiver.answer(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.server.server_port}/hook/{SECRET}"

    def notices(self) -> list[dict[str, Any]]:
        """Return all notices of all requests so far."""
        return [notice for body in self.bodies for notice in body["notices"]]

    def changes(self) -> list[str]:
        """Return the states of the notices."""
        return [notice["state"] for notice in self.notices()]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Listen as a webhook."""
    listening = Receiver()
    yield listening
    listening.server.shutdown()
    listening.server.server_close()


def settings(tmp_path: Path, url: str, **more: Any) -> dict[str, Any]:
    """Return settings with one receiver, whose address is in a file."""
    (tmp_path / "url").write_text(url + "\n")
    hook = {"name": "hook", "type": "webhook", "url_file": str(tmp_path / "url")}
    return {**NO_JOBS, "delivery": {"receivers": [hook]}, **more}


def resolve(daemon: Stepwatchd, run: str = "r1") -> None:
    """Restart a run and let it train, which resolves its incident."""
    daemon.send(start(run), *[beat(step, run=run) for step in range(60)])
    daemon.until(lambda: daemon.incidents(run, "open") == [])


def webhook_body(status: str = "firing", name: str = "GpuHot") -> str:
    """Return a body as Alertmanager posts it."""
    alert = {
        "status": status,
        "labels": {"alertname": name, "severity": "critical", "run": "r9"},
        "annotations": {"summary": "a GPU is hot"},
        "startsAt": "2026-11-28T00:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": "0123456789abcdef",
    }
    group = {"receiver": "x", "status": "firing", "alerts": [alert], "groupLabels": {}, "commonLabels": {}}
    return json.dumps({**group, "commonAnnotations": {}, "externalURL": "", "version": "4", "groupKey": "{}"})


def test_each_change_of_an_incident_is_one_message_and_is_listed(tmp_path: Path, receiver: Receiver) -> None:
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        incident = daemon.make_incident()
        daemon.until(lambda: receiver.changes() == ["opened"])
        daemon.post(f"/v1/incidents/{incident['id']}/ack", {"by": "kim", "note": ""})
        daemon.until(lambda: receiver.changes() == ["opened", "acknowledged"])
        resolve(daemon)
        daemon.until(lambda: receiver.changes() == ["opened", "acknowledged", "resolved"])
        notice = receiver.notices()[0]
        assert notice["key"] == incident["id"] and notice["run"] == "r1" and notice["kind"] == "loss_nonfinite"
        daemon.until(lambda: len(daemon.get("/v1/deliveries")["sent"]) == 3)
        listed = daemon.get("/v1/deliveries?limit=1")
        assert len(listed["sent"]) == 1 and listed["receivers"][0]["sent"] == 3 and listed["dead_letters"] == []
        assert daemon.metric('stepwatchd_delivery_sent_total{receiver="hook"}') == 3
        assert daemon.metric('stepwatchd_delivery_waiting{receiver="hook"}') == 0
        shown = command_line.stepwatch("incidents", "--delivered", "--stepwatchd", str(daemon.socket))
        assert shown.returncode == 0 and "hook" in shown.stdout and "acknowledged" in shown.stdout, shown.stderr
        assert daemon.ask("GET", "/v1/deliveries?limit=0")[0] == 400


def test_a_silenced_incident_is_no_message(tmp_path: Path, receiver: Receiver) -> None:
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        daemon.post("/v1/silences", {"run": "quiet*", "seconds": 600})
        daemon.make_incident("quiet1")
        daemon.make_incident("loud")
        daemon.until(lambda: receiver.changes() == ["opened"])
        assert receiver.notices()[0]["run"] == "loud"


def test_a_kill_between_post_and_receipt_loses_nothing_and_repeats_one_message(
    tmp_path: Path, receiver: Receiver
) -> None:
    held = threading.Event()

    def hold(body: dict[str, Any]) -> int:
        held.wait(DEADLINE_SECONDS)
        return 200

    receiver.answer = hold
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        daemon.make_incident("r1")
        daemon.until(lambda: len(receiver.bodies) == 1)
        daemon.make_incident("r2")
        daemon.kill(signal.SIGKILL)
        receiver.answer = lambda body: 200
        held.set()
        daemon.start()
        daemon.until(lambda: {notice["run"] for notice in receiver.notices()} == {"r1", "r2"})
        daemon.until(lambda: daemon.metric('stepwatchd_delivery_waiting{receiver="hook"}') == 0)
        times = [(notice["run"], notice["repeated"]) for notice in receiver.notices()]
        assert sorted(times) == [("r1", False), ("r1", True), ("r2", False)]
        # All of it was received: another restart sends no more.
        daemon.kill(signal.SIGKILL)
        daemon.start()
        daemon.make_incident("r3")
        daemon.until(lambda: "r3" in {notice["run"] for notice in receiver.notices()})
        assert len(receiver.notices()) == 4


def test_a_kill_on_a_full_disk_loses_no_message_and_marks_each_that_it_repeats(
    tmp_path: Path, receiver: Receiver
) -> None:
    def sent(run: str) -> list[bool]:
        return [notice["repeated"] for notice in receiver.notices() if notice["run"] == run]

    def limit(size: int) -> None:
        assert daemon.process is not None
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def waiting() -> float:
        return daemon.metric('stepwatchd_delivery_waiting{receiver="hook"}')

    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        daemon.make_incident("received")
        daemon.until(lambda: sent("received") and waiting() == 0)
        refusals: list[str] = []

        def refuse(body: dict[str, Any]) -> int:
            refusals.extend(notice["run"] for notice in receiver.bodies.pop()["notices"])
            return 503

        receiver.answer = refuse
        daemon.make_incident("stored")
        daemon.until(lambda: "stored" in refusals)
        daemon.until(lambda: daemon.ask("GET", "/-/ready")[0] == 200)
        limit(64)
        daemon.make_incident("on a full disk")
        daemon.until(lambda: daemon.ask("GET", "/-/ready")[0] == 503)
        receiver.answer = lambda body: 200
        daemon.until(lambda: sent("stored") and sent("on a full disk") and waiting() == 0)
        daemon.kill(signal.SIGKILL)
        daemon.start()
        # Its receipt could not be stored. The other one's could, and of the third the store never knew.
        daemon.until(lambda: len(sent("stored")) == 2 and waiting() == 0)
        daemon.kill(signal.SIGKILL)
        daemon.start()
        daemon.make_incident("later")
        daemon.until(lambda: sent("later"))
        assert {run: sent(run) for run in ("received", "stored", "on a full disk", "later")} == {
            "received": [False],
            "stored": [False, True],
            "on a full disk": [False],
            "later": [False],
        }


def test_failures_are_retried_and_a_rejection_is_a_dead_letter(tmp_path: Path, receiver: Receiver) -> None:
    statuses = [500, 503, 200, 400]
    receiver.answer = lambda body: statuses.pop(0) if statuses else 200
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        daemon.make_incident("r1")
        daemon.until(lambda: len(daemon.get("/v1/deliveries")["sent"]) == 1)
        daemon.make_incident("r2")
        daemon.until(lambda: len(daemon.get("/v1/deliveries")["dead_letters"]) == 1)
        dead = daemon.get("/v1/deliveries")["dead_letters"][0]
        assert dead["run"] == "r2" and "400" in dead["reason"]
        assert daemon.metric('stepwatchd_delivery_failed_total{receiver="hook"}') == 3
        assert daemon.metric('stepwatchd_delivery_dead_letters{receiver="hook"}') == 1
        daemon.make_incident("r3")
        daemon.until(lambda: len(daemon.get("/v1/deliveries")["sent"]) == 2)


@pytest.mark.skipif(not HANGING_LOOKUP.exists(), reason=f"{HANGING_LOOKUP} is not built")
def test_a_name_lookup_that_hangs_holds_up_no_other_receiver_and_no_end(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", str(HANGING_LOOKUP))
    monkeypatch.setenv("HANGING_HOST", "hangs.example")
    given = settings(tmp_path, receiver.url)
    given["delivery"]["receivers"].insert(0, {"name": "away", "type": "webhook", "url": "http://hangs.example/x"})
    with Stepwatchd(tmp_path, given) as daemon:
        daemon.make_incident("r1")
        daemon.until(lambda: receiver.changes() == ["opened"])
        away = daemon.until(
            lambda: [each for each in receivers_of(daemon) if each["name"] == "away" and each["failed"]]
        )
        assert "hangs.example" in away[0]["trouble"] and away[0]["waiting"] == 1
        # The next look-up hangs, too.
        daemon.make_incident("r2")
        daemon.until(lambda: receiver.changes() == ["opened", "opened"])
        assert daemon.answers()
        assert daemon.kill(signal.SIGTERM) == 0


def receivers_of(daemon: Stepwatchd) -> list[dict[str, Any]]:
    """Return the receivers with their counts."""
    receivers: list[dict[str, Any]] = daemon.get("/v1/deliveries")["receivers"]
    return receivers


def alerts_of(server: Server, incident: str) -> list[dict[str, Any]]:
    """Return the open alerts of an incident in Alertmanager, without what differs between posts of one alert."""
    alerts = [alert for alert in server.get("/api/v2/alerts") if alert["labels"].get("incident") == incident]
    return [{"labels": alert["labels"], "startsAt": alert["startsAt"]} for alert in alerts]


def has_alerts(server: Server, incident: str, alerts: list[dict[str, Any]]) -> bool:
    """Return whether Alertmanager has exactly these open alerts of an incident."""
    return alerts_of(server, incident) == alerts


def test_an_open_incident_is_one_alert_after_each_restart_of_alertmanager(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    board = {"name": "am", "type": "alertmanager", "url": f"http://127.0.0.1:{port}", "lasts_seconds": 30}
    with Stepwatchd(tmp_path, {**NO_JOBS, "delivery": {"receivers": [board]}}) as daemon:
        with alertmanager(tmp_path, port, config) as server:
            incident = daemon.make_incident()["id"]
            alerts = until(lambda: alerts_of(server, incident), server.log.read_text)
            assert len(alerts) == 1
        for is_last in (False, True):
            # It keeps no alerts on disk.
            with alertmanager(tmp_path, port, config) as server:
                until(functools.partial(has_alerts, server, incident, alerts), server.log.read_text)
                if is_last:
                    resolve(daemon)
                    until(functools.partial(has_alerts, server, incident, []), server.log.read_text)


def test_an_alert_of_alertmanager_is_delivered_once_also_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        assert daemon.post("/v1/notify/hook", webhook_body())["taken"] == 1
        assert daemon.post("/v1/notify/hook", webhook_body())["known"] == 1
        daemon.until(lambda: receiver.changes() == ["opened"])
        daemon.until(lambda: len(daemon.get("/v1/deliveries")["sent"]) == 1)
        daemon.kill(signal.SIGKILL)
        daemon.start()
        assert daemon.post("/v1/notify/hook", webhook_body())["known"] == 1
        assert daemon.post("/v1/notify/hook", webhook_body("resolved"))["taken"] == 1
        daemon.until(lambda: receiver.changes() == ["opened", "resolved"])
        assert daemon.ask("POST", "/v1/notify/hook", "{}")[0] == 400
        assert daemon.ask("POST", "/v1/notify/other", webhook_body())[0] == 404


def browse(address: str, url: str, body: str | None = None) -> tuple[int, http.client.HTTPMessage, str]:
    """Send a request as a browser does, without a token."""
    connection = http.client.HTTPConnection(address, timeout=30)
    headers = {"Host": "stepwatch.example", "Origin": "https://stepwatch.example"}
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("GET" if body is None else "POST", urlsplit(url).path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def test_a_signed_link_shows_the_incident_and_its_button_acknowledges_once(tmp_path: Path, receiver: Receiver) -> None:
    listen = {
        "tcp": "127.0.0.1:0",
        "token_file": str(token_file(tmp_path)),
        "public_url": "https://stepwatch.example/monitor/",
    }
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url, listen=listen)) as daemon:
        address = daemon.until(lambda: tcp_address(daemon))
        key = daemon.until(lambda: next((daemon.directory / "state").glob("acknowledge.key"), None))
        assert key.stat().st_mode & 0o077 == 0
        incident = daemon.make_incident('r<b>"1')
        daemon.until(lambda: receiver.changes() == ["opened"])
        link = receiver.notices()[0]["acknowledge_link"]
        assert link.startswith("https://stepwatch.example/monitor/v1/acknowledge/")
        link = link.replace("/monitor", "")
        status, headers, page = browse(address, link)
        assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8" and "<form" in page
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; form-action 'self'")
        assert headers["Referrer-Policy"] == "no-referrer" and headers["X-Frame-Options"] == "DENY"
        assert "<b>" not in page and "r&lt;b&gt;&quot;1" in page and "<script" not in page
        # A preview of the link changes nothing.
        assert daemon.get(f"/v1/incidents/{incident_path(incident)}")["incident"]["acknowledged"] is None
        for wrong in (link[:-1] + ("0" if link[-1] != "0" else "1"), link.rsplit("/", 2)[0] + "/1/" + "0" * 64):
            assert browse(address, wrong)[0] == 404
            assert browse(address, wrong, "by=eve")[0] == 404
        status, _, page = browse(address, link, "by=Kim+%3Cb%3E")
        assert status == 200 and "Acknowledged by Kim &lt;b&gt;" in page and "<form" not in page
        acknowledged = daemon.get(f"/v1/incidents/{incident_path(incident)}")["incident"]["acknowledged"]
        assert acknowledged["by"] == "Kim <b> (by a link in a message)"
        assert "Acknowledged by Kim" in browse(address, link, "by=eve")[2]
        assert daemon.get(f"/v1/incidents/{incident_path(incident)}")["incident"]["acknowledged"] == acknowledged
        daemon.until(lambda: receiver.changes() == ["opened", "acknowledged"])
        # The rest of the interface needs its token.
        assert browse(address, "/v1/runs")[0] in (401, 403)
        assert browse(address, "/v1/acknowledge")[0] in (401, 403)
        assert browse(address, link, "x" * 100_000)[0] == 413
        # Without the address there are no links.
        daemon.config.write_text(json.dumps(settings(tmp_path, receiver.url, listen={**listen, "public_url": ""})))
        daemon.until(lambda: browse(address, link)[0] in (401, 403))


def incident_path(incident: dict[str, Any]) -> str:
    """Return the id of an incident as part of a path."""
    return "".join(c if c.isalnum() or c in "-_." else f"%{ord(c):02X}" for c in incident["id"])


def tcp_address(daemon: Stepwatchd) -> str | None:
    """Return the address of its TCP port, which the log names."""
    marks = [word.strip(",.;") for word in daemon.log.read_text().split() if word.startswith("127.0.0.1:")]
    return next((mark for mark in marks if not mark.endswith(":0")), None)


def test_secrets_are_in_no_log_metric_answer_or_file_of_the_state(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answer = lambda body: 400
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        daemon.make_incident("r1")
        daemon.until(lambda: len(daemon.get("/v1/deliveries")["dead_letters"]) == 1)
        (tmp_path / "url").write_text(f"http://127.0.0.1:1/{SECRET}\n")
        daemon.make_incident("r2")
        daemon.until(lambda: daemon.get("/v1/deliveries")["receivers"][0]["failed"] >= 2)
        (tmp_path / "url").write_text(f"no address {SECRET}\n")
        daemon.until(lambda: daemon.get("/v1/deliveries")["receivers"][0]["failed"] >= 3)
        (tmp_path / "url").unlink()
        daemon.until(lambda: daemon.get("/v1/deliveries")["receivers"][0]["failed"] >= 4)
        assert daemon.process is not None
        texts = [daemon.ask("GET", path)[2] for path in ("/v1/deliveries", "/metrics", "/-/ready", "/v1/incidents")]
        texts.append(Path(f"/proc/{daemon.process.pid}/cmdline").read_text())
        texts.append(command_line.stepwatch("incidents", "--delivered", "--stepwatchd", str(daemon.socket)).stdout)
        daemon.kill(signal.SIGTERM)
        files = [path for path in (daemon.directory / "state").rglob("*") if path.is_file()]
        contents = [path.read_bytes() for path in [*files, daemon.log]]
        assert all(SECRET not in text for text in texts)
        assert all(SECRET.encode() not in content for content in contents)


def test_no_type_of_receiver_shows_its_secrets(tmp_path: Path, receiver: Receiver) -> None:
    def secret(name: str, text: str = "{}") -> str:
        (tmp_path / name).write_text(text.format(f"{SECRET}-{name}") + "\n")
        return str(tmp_path / name)

    receiver.answer = lambda body: 401
    webhook = secret("webhook.url", f"http://127.0.0.1:{receiver.server.server_port}/{{}}")
    away = secret("away.url", "http://127.0.0.1:1/hook?access_token={}")
    mail = {"url": "smtp://127.0.0.1:1", "from": "a@example.org", "to": ["b@example.org"], "user": "a"}
    receivers: list[dict[str, Any]] = [
        {"type": "webhook", "url_file": webhook, "secret_file": secret("s"), "token_file": secret("t")},
        *[{"type": bot, "url_file": away, "secret_file": secret(bot)} for bot in ("feishu", "dingtalk")],
        *[{"type": bot, "url_file": away} for bot in ("wecom", "slack")],
        {"type": "email", **mail, "password_file": secret("password")},
        {"type": "alertmanager", "url_file": away, "token_file": secret("token")},
    ]
    named = [{"name": each["type"], **each} for each in receivers]
    with Stepwatchd(tmp_path, {**NO_JOBS, "delivery": {"receivers": named}}) as daemon:
        daemon.make_incident("r1")
        daemon.until(lambda: all(each["failed"] for each in receivers_of(daemon)))
        assert len(receivers_of(daemon)) == len(receivers)
        texts = [daemon.ask("GET", path)[2] for path in ("/v1/deliveries", "/metrics", "/v1/incidents")]
        for each in named:
            done = run_stepwatchd("test-alert", each["name"], "--config", daemon.config)
            assert done.returncode == 1, done.stdout
            texts += [done.stdout, done.stderr]
        daemon.kill(signal.SIGTERM)
        files = [path for path in (daemon.directory / "state").rglob("*") if path.is_file()]
        assert all(SECRET not in text for text in texts)
        assert all(SECRET.encode() not in path.read_bytes() for path in [*files, daemon.log])


def run_stepwatchd(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a verb of stepwatchd."""
    command = [str(DAEMON), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)


def test_a_test_message_reports_whether_it_was_accepted(tmp_path: Path, receiver: Receiver) -> None:
    config = tmp_path / "settings.json"
    config.write_text(json.dumps(settings(tmp_path, receiver.url)))
    done = run_stepwatchd("test-alert", "hook", "--config", config)
    assert done.returncode == 0 and "has accepted" in done.stdout, done.stderr
    assert receiver.notices()[0]["kind"] == "test"
    receiver.answer = lambda body: 404
    done = run_stepwatchd("test-alert", "hook", "--config", config)
    assert done.returncode == 1 and "404" in done.stderr and SECRET not in done.stderr + done.stdout
    done = run_stepwatchd("test-alert", "hok", "--config", config)
    assert done.returncode == 2 and "the receivers are hook" in done.stderr
    assert run_stepwatchd("test-alert", "hook").returncode == 2
    (tmp_path / "url").unlink()
    done = run_stepwatchd("test-alert", "hook", "--config", config)
    assert done.returncode == 1 and str(tmp_path / "url") in done.stderr


def test_wrong_settings_of_delivery_are_refused_with_their_place(tmp_path: Path, receiver: Receiver) -> None:
    config = tmp_path / "settings.json"
    good = settings(tmp_path, receiver.url)

    def error_of(delivery: object) -> dict[str, Any]:
        config.write_text(json.dumps({"delivery": delivery}, indent=1))
        done = run_stepwatchd("check-config", config, "--json")
        assert done.returncode == 2
        error: dict[str, Any] = json.loads(done.stdout)["error"]
        assert error["line"] > 0
        return error

    hook = good["delivery"]["receivers"][0]
    assert error_of({"receivers": [{**hook, "type": "slak"}]})["key"] == "delivery.receivers[0].type"
    assert error_of({"receivers": [{**hook, "urlfile": "x"}]})["key"] == "delivery.receivers[0].urlfile"
    assert error_of({"receivers": [hook, hook]})["key"] == "delivery.receivers[1].name"
    assert error_of({"routes": [{"receivers": ["hook"]}]})["key"] == "delivery.routes[0].receivers[0]"
    route = {"receivers": ["hok"], "severity": ["critical"]}
    error = error_of({"routes": [route], "receivers": [hook]})
    assert error["key"] == "delivery.routes[0].receivers[0]" and 'did you mean "hook"' in error["message"]
    assert error_of({"routes": [{"receivers": [], "severity": ["bad"]}]})["key"] == "delivery.routes[0].severity[0]"
    bot = {"name": "bot", "type": "slack", "url": f"https://hooks.slack.example/{SECRET}"}
    error = error_of({"receivers": [bot]})
    assert error["key"] == "delivery.receivers[0]" and SECRET not in json.dumps(error)


def test_receivers_follow_the_settings_and_a_bad_edit_changes_nothing(tmp_path: Path, receiver: Receiver) -> None:
    with Stepwatchd(tmp_path, {**NO_JOBS}) as daemon:
        daemon.make_incident("r1")
        good = settings(tmp_path, receiver.url)
        daemon.config.write_text(json.dumps(good))
        daemon.until(lambda: daemon.get("/v1/deliveries")["receivers"])
        daemon.make_incident("r2")
        daemon.until(lambda: receiver.changes() == ["opened"])
        daemon.config.write_text(json.dumps({**good, "delivery": {"receivers": [{"name": "x"}]}}))
        daemon.until(lambda: '"type"' in daemon.log.read_text())
        daemon.make_incident("r3")
        daemon.until(lambda: len(receiver.notices()) == 2)
        assert {notice["run"] for notice in receiver.notices()} == {"r2", "r3"}


def test_ten_thousand_alerts_are_delivered_while_other_requests_are_answered(
    tmp_path: Path, receiver: Receiver
) -> None:
    alert = json.loads(webhook_body())["alerts"][0]
    with Stepwatchd(tmp_path, settings(tmp_path, receiver.url)) as daemon:
        for page in range(20):
            alerts = [{**alert, "fingerprint": f"{page:08x}{i:08x}"} for i in range(500)]
            body = json.dumps({**json.loads(webhook_body()), "alerts": alerts})
            assert daemon.post("/v1/notify/hook", body)["taken"] == 500
            assert daemon.answers()
        daemon.until(lambda: len(receiver.notices()) == 10_000)
        assert len({notice["key"] for notice in receiver.notices()}) == 10_000
        daemon.until(lambda: daemon.metric('stepwatchd_delivery_waiting{receiver="hook"}') == 0)
        with daemon.store() as store:
            daemon.until(lambda: store.execute("SELECT count(*) FROM deliveries").fetchone()[0] == 1000)


def write_program(path: Path, script: str) -> None:
    """Write a program of the shell, whole at once."""
    new = path.with_suffix(".new")
    new.write_text("#!/bin/sh\n" + script + "\n")
    new.chmod(0o755)
    new.rename(path)


def test_a_run_on_nodes_in_maintenance_is_silenced_while_slurm_reserves_them(
    tmp_path: Path, receiver: Receiver
) -> None:
    scontrol = tmp_path / "scontrol"
    now = int(time.time())
    reservation = (
        "echo ReservationName=power StartTime={} EndTime={} Nodes='h[1-3]' Flags=MAINT,SPEC_NODES State=ACTIVE"
    )
    write_program(scontrol, reservation.format(now - 60, now + 3600))
    watched = settings(tmp_path, receiver.url, maintenance={"scontrol": str(scontrol), "seconds": 1})
    with Stepwatchd(tmp_path, watched) as daemon:
        daemon.send(start("reserved"), event("other", "start", world=1, host="login"))
        (silence,) = daemon.until(lambda: daemon.get("/v1/silences")["silences"])
        assert (silence["run"], silence["by"], silence["note"]) == ("reserved", "Slurm", "maintenance power")
        assert silence["until_t"] == now + 3600
        assert daemon.make_incident("reserved")["silenced_by"] == silence["id"]
        daemon.send(*[beat(step, "nan", run="other") for step in range(4)])
        daemon.until(lambda: receiver.changes() == ["opened"])
        assert receiver.notices()[0]["run"] == "other"
        # It outlives a kill, also while Slurm is away, and ends with the reservation.
        write_program(scontrol, "exit 1")
        daemon.until(lambda: "cannot be read" in daemon.log.read_text())
        daemon.kill()
        daemon.start()
        daemon.until(lambda: daemon.log.read_text().count("cannot be read") == 2)
        assert [each["id"] for each in daemon.get("/v1/silences")["silences"]] == [silence["id"]]
        write_program(scontrol, "echo No reservations in the system")
        daemon.until(lambda: daemon.get("/v1/silences")["silences"] == [])
        daemon.make_incident("reserved too")
        # An incident that outlasts its silence is sent, too.
        daemon.until(lambda: {notice["run"] for notice in receiver.notices()} == {"other", "reserved", "reserved too"})
