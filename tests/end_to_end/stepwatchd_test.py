"""`stepwatchd run` for programs: lines in, incidents out, kills, edits of its settings, an upstream."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_socket_client import UnixConnection
from stepwatchd_process import DAEMON, Stepwatchd, beat, event, start


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Stepwatchd]:
    with Stepwatchd(tmp_path) as running:
        yield running


def test_a_loss_that_is_not_a_number_becomes_one_incident(daemon: Stepwatchd) -> None:
    incident = daemon.make_incident()
    assert incident["incident"] == "loss_nonfinite"
    assert incident["since_step"] == 9
    assert incident["acknowledged"] is None
    assert [each["id"] for each in daemon.incidents()] == [incident["id"]]
    detail = daemon.get(f"/v1/incidents/{incident['id']}")
    assert detail["changes"][0]["change"] == "opened"
    daemon.until(lambda: "loss_nonfinite" in daemon.log.read_text())


def test_runs_ranks_and_series_are_answered(daemon: Stepwatchd) -> None:
    daemon.send(start(world=2), *[beat(step, 3.0 - step / 10, rank=rank) for step in range(20) for rank in (0, 1)])
    (run,) = daemon.get("/v1/runs")["runs"]
    assert (run["id"], run["state"], run["world"], run["step"]) == ("r1", "train", 2, 19)
    detail = daemon.get("/v1/runs/r1")
    assert [rank["rank"] for rank in detail["ranks"]] == [0, 1]
    assert "loss" in detail["series"]
    points = daemon.get("/v1/runs/r1/series/loss")["points"]
    assert points[0]["step_first"] == 0
    assert points[-1]["step_last"] == 19
    assert daemon.ask("GET", "/v1/runs/nothing")[0] == 404
    assert daemon.ask("GET", "/v1/runs/r1/series/nothing")[0] == 404


@pytest.mark.parametrize("at_once", [True, False])
def test_a_killed_daemon_comes_back_with_the_same_incident_and_its_acknowledgement(
    daemon: Stepwatchd, at_once: bool
) -> None:
    incident = daemon.make_incident()
    daemon.post(f"/v1/incidents/{incident['id']}/ack", {"by": "kim", "note": "looking"})
    silence = daemon.post("/v1/silences", {"run": "other*", "kind": "stuck", "seconds": 3600, "by": "kim"})["silence"]
    if not at_once:
        time.sleep(1.5)  # lines of the last second have been written, too
    daemon.kill()
    daemon.start()
    (again,) = daemon.incidents()
    assert again["id"] == incident["id"]
    assert again["acknowledged"]["by"] == "kim"
    assert [each["id"] for each in daemon.get("/v1/silences")["silences"]] == [silence["id"]]
    if at_once:
        return
    (run,) = daemon.get("/v1/runs")["runs"]
    assert (run["id"], run["step"]) == ("r1", 13)
    # The same fault goes on, and is no second incident; the end of it resolves the first.
    daemon.send(*[beat(step, "nan") for step in range(14, 18)])
    daemon.send(event("r1", "restart", world=1))
    daemon.send(*[beat(step) for step in range(5, 60)])
    assert {each["id"] for each in daemon.incidents()} == {incident["id"]}


def test_a_run_is_not_stuck_for_the_time_without_a_daemon(daemon: Stepwatchd) -> None:
    daemon.send(start(), *[beat(step) for step in range(30)])
    time.sleep(1.5)
    daemon.kill()
    with sqlite3.connect(daemon.directory / "state/stepwatchd.db") as store:
        # As if all of it were two hours ago.
        for identity, text in store.execute("SELECT id, text FROM lines").fetchall():
            moved = []
            for line in text.splitlines():
                number, _, json_text = line.partition("\t")
                fields = json.loads(json_text)
                fields["t"] -= 7200
                moved.append(f"{number}\t{json.dumps(fields)}\n")
            store.execute("UPDATE lines SET text = ?, t_last = t_last - 7200 WHERE id = ?", ("".join(moved), identity))
        store.execute("UPDATE begins SET t = t - 7200, json = json_set(json, '$.t', t - 7200)")
    store.close()
    daemon.start()
    time.sleep(2.5)
    assert daemon.incidents() == []
    assert [run["step"] for run in daemon.get("/v1/runs")["runs"]] == [29]


def test_lines_that_cannot_be_used_are_named_and_the_others_are_taken(daemon: Stepwatchd) -> None:
    lines = [json.dumps(start()), "garbage", "", '{"t": 1}', json.dumps(beat(1))]
    lines.append('{"t": 1, "run": "r1", "event": {"kind": "clock_step", "seconds": 99999}}')
    answer = daemon.post("/v1/beats", "\n".join(lines))
    assert (answer["taken"], answer["refused"]) == (2, 3)
    assert [each["line"] for each in answer["refusals"]] == [2, 4, 6]
    assert daemon.ask("POST", "/v1/beats", " " * (9 << 20))[0] == 413
    page = daemon.ask("GET", "/metrics")[2]
    assert "stepwatchd_lines_taken" in page
    assert "stepwatchd_lines_refused 3" in page or "stepwatchd_lines_refused_total 3" in page


def test_unknown_places_and_bad_requests_are_refused_with_a_message(daemon: Stepwatchd) -> None:
    for method, target, body, expected in [
        ("GET", "/v1/nothing", None, 404),
        ("DELETE", "/v1/runs", None, 405),
        ("GET", "/v1/incidents?state=some", None, 400),
        ("GET", "/v1/incidents?limit=0", None, 400),
        ("GET", "/v1/incidents/nothing", None, 404),
        ("POST", "/v1/incidents/nothing/ack", "{}", 404),
        ("POST", "/v1/silences", '{"seconds": -1}', 400),
        ("POST", "/v1/silences", '{"seconds": 1, "kind": "nothing"}', 400),
        ("POST", "/v1/silences", '{"second": 1}', 400),
        ("DELETE", "/v1/silences/nothing", None, 404),
    ]:
        status, _, text = daemon.ask(method, target, body)
        assert status == expected, target
        assert json.loads(text)["error"]["message"]


def read_event(answer: Any) -> tuple[str, dict[str, Any]]:
    name = ""
    while line := answer.readline().decode().rstrip("\n"):
        if line.startswith("event: "):
            name = line[7:]
        if line.startswith("data: "):
            data = json.loads(line[6:])
    return name, data


def test_changes_of_incidents_are_events_and_are_sent_again_from_a_number_on(daemon: Stepwatchd) -> None:
    connection = UnixConnection(daemon.socket)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()
    incident = daemon.make_incident()
    name, data = read_event(answer)
    assert (name, data["id"]) == ("opened", incident["id"])
    connection.close()
    daemon.post(f"/v1/incidents/{incident['id']}/ack", {"by": "kim"})
    daemon.kill()
    daemon.start()
    connection = UnixConnection(daemon.socket)
    connection.request("GET", "/v1/events", headers={"Last-Event-ID": str(data["number"])})
    answer = connection.getresponse()
    while name != "acknowledged":
        name, data = read_event(answer)
    assert data["acknowledged"]["by"] == "kim"
    connection.close()


def test_two_daemons_share_neither_a_state_directory_nor_a_socket(daemon: Stepwatchd, tmp_path: Path) -> None:
    second = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert "another stepwatchd uses " in second.stderr
    command = [*daemon.command()[:2], "--state", str(tmp_path / "other"), "--socket", str(daemon.socket)]
    third = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert third.returncode == 1
    assert "listens at" in third.stderr
    assert daemon.answers()


def test_it_ends_cleanly_on_sigterm_and_leaves_no_socket(daemon: Stepwatchd) -> None:
    daemon.send(start(), beat(3))
    assert daemon.kill(signal.SIGTERM) == 0
    assert not daemon.socket.exists()
    daemon.start()
    assert daemon.get("/v1/runs")["runs"][0]["step"] == 3


def token_file(directory: Path) -> Path:
    path = directory / "token"
    path.touch(mode=0o600)
    path.write_text("0123456789abcdef0123456789abcdef\n")
    return path


def test_settings_are_taken_over_while_it_runs_and_a_bad_edit_is_refused(tmp_path: Path) -> None:
    token = token_file(tmp_path)
    with Stepwatchd(tmp_path, {}) as daemon:
        daemon.config.write_text('{"listen": {"tcp": 1}}')
        daemon.until(lambda: "rejected, and the current settings stay" in daemon.log.read_text())
        assert daemon.answers()
        daemon.config.write_text(json.dumps({"listen": {"tcp": "127.0.0.1:0", "token_file": str(token)}}))
        daemon.until(lambda: "the control socket is open on TCP at" in daemon.log.read_text())
        address = daemon.log.read_text().split("is open on TCP at ")[1].split()[0]
        for authorization, expected in [("Bearer " + token.read_text().strip(), 200), ("Bearer x", 401)]:
            connection = http.client.HTTPConnection(address, timeout=60)
            connection.request("GET", "/v1/runs", headers={"Authorization": authorization})
            assert connection.getresponse().status == expected
            connection.close()
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGHUP)
        assert daemon.answers()


def test_check_config_prints_the_place_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "stepwatchd.json"

    def check(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        path.write_text(text)
        command = [str(DAEMON), "check-config", str(path), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    fine = check('{"store": {"mib": 10}, /* mine */ "detectors": {"stuck": {"silence_seconds_min": 60}}}')
    assert (fine.returncode, fine.stdout) == (0, f"{path}: valid\n")
    odd = check('{"storr": {}}')
    assert odd.returncode == 0
    assert f'{path}:1:2: warning: "storr"' in odd.stdout
    assert "store" in odd.stdout
    bad = check('{\n  "store": {"mib": "much"}}')
    assert bad.returncode == 2
    assert f'{path}:2:20: error: "store.mib"' in bad.stdout
    open_to_all = check('{"listen": {"tcp": "0.0.0.0:9"}}', "--json")
    assert open_to_all.returncode == 2
    assert json.loads(open_to_all.stdout)["error"]["key"] == "listen.tcp"


def test_lines_go_on_to_an_upstream_also_those_of_the_time_when_it_was_away(tmp_path: Path) -> None:
    token = str(token_file(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in ("above", "below"):
        (tmp_path / name).mkdir()
    listen = {"tcp": f"127.0.0.1:{port}", "token_file": token}
    above = Stepwatchd(tmp_path / "above", {"listen": listen}, "above.sock")
    upstream = {"url": f"http://127.0.0.1:{port}", "token_file": token}
    with Stepwatchd(tmp_path / "below", {"upstream": upstream}) as below:
        # It is away, and the one below is killed meanwhile.
        below.send(start(), *[beat(step) for step in range(10)])
        below.until(lambda: list((tmp_path / "below/state/upstream").glob("*.jsonl")))
        below.kill()
        below.start()
        below.send(*[beat(step) for step in range(10, 13)], *[beat(step, "nan") for step in range(13, 16)])
        with above:
            found = above.incident_of("r1")
            assert (found["incident"], found["since_step"]) == ("loss_nonfinite", 12)
            above.until(lambda: not list((tmp_path / "below/state/upstream").glob("*.jsonl")))
