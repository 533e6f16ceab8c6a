"""stepwatchd answers as schemas/stepwatchd_api.json describes, and takes all requests that it allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from build_tree import ROOT
from stepwatchd_process import NO_JOBS, Stepwatchd

described_api = pytest.importorskip("described_api", reason="hypothesis or schemathesis is not installed")

API = ROOT / "schemas/stepwatchd_api.json"
OPENED = "the control socket is open on TCP at "


class TcpDaemon:
    """A stepwatchd that answers over TCP, at a port of its own, and knows a run with an incident."""

    def __init__(self, daemon: Stepwatchd) -> None:
        self.daemon = daemon
        daemon.until(lambda: OPENED in daemon.log.read_text())
        self.address = daemon.log.read_text().split(OPENED)[1].split()[0]
        self.incident = daemon.make_incident()

    def ask(self, target: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, str]:
        status, _, text = described_api.ask(self.address, target, method, body, **headers)
        return status, text


@pytest.fixture
def tcp(tmp_path: Path) -> Iterator[TcpDaemon]:
    listen = {"tcp": "127.0.0.1:0", "token_file": str(described_api.token_file(tmp_path))}
    with Stepwatchd(tmp_path, {"listen": listen, **NO_JOBS}) as daemon:
        yield TcpDaemon(daemon)


@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.long)])
def test_every_route_answers_as_described(tcp: TcpDaemon, examples: int) -> None:
    known = {"run": "r1", "name": "loss", "incident": tcp.incident["id"]}
    described_api.check_all_routes(API, tcp.address, examples, known=known)
    assert tcp.daemon.answers()


def test_no_route_answers_without_the_token(tcp: TcpDaemon) -> None:
    described_api.check_that_the_token_is_needed(API, tcp.address)


def test_the_description_has_the_routes_that_the_page_names() -> None:
    page = (ROOT / "docs/formats/stepwatchd_api.md").read_text()
    for _, path in described_api.described_calls(API):
        assert path.partition("{")[0].rstrip("/") in page, path


# --- bounds ---


def test_a_parameter_is_taken_up_to_its_limit(tcp: TcpDaemon) -> None:
    for target, expected in [
        ("/v1/incidents?limit=1", 200),
        ("/v1/incidents?limit=2000", 200),
        ("/v1/incidents?limit=2001", 400),
        ("/v1/incidents?limit=99999999999999999999", 400),
        ("/v1/incidents?limit=-1", 400),
        ("/v1/incidents?limit=1x", 400),
        ("/v1/incidents?run=" + "%C3%A9" * 200, 200),
        ("/v1/incidents?run=" + "x" * 201, 400),
        ("/v1/incidents?state=all&run=", 200),
        ("/v1/runs/" + "%F0%9F%98%80" * 200, 404),
        ("/v1/runs/%00%2F..", 404),
    ]:
        assert tcp.ask(target)[0] == expected, target


def test_texts_are_measured_in_characters(tcp: TcpDaemon) -> None:
    target = f"/v1/incidents/{tcp.incident['id']}/ack"
    assert tcp.ask(target, "POST", json.dumps({"note": "\U0001f600" * 1000}))[0] == 200
    assert tcp.ask(target, "POST", json.dumps({"note": "x" * 1001}))[0] == 400
    assert tcp.ask(target, "POST")[0] == 200


def test_the_time_of_sending_is_in_seconds_or_refused(tcp: TcpDaemon) -> None:
    line = json.dumps({"t": 5, "run": "sent", "rank": 0, "beat": {"step": 1}})
    for sent in ("0", "1e11", "1767225600.25"):
        assert tcp.ask("/v1/beats", "POST", line, **{"Stepwatch-Sent": sent})[0] == 200
    for sent in ("nan", "inf", "-1", "1e12", "now", "5s"):
        status, text = tcp.ask("/v1/beats", "POST", line, **{"Stepwatch-Sent": sent})
        assert (status, json.loads(text)["error"]["code"]) == (400, "bad_request"), sent
    assert all(run["heard_t"] is not None for run in tcp.daemon.get("/v1/runs")["runs"])
