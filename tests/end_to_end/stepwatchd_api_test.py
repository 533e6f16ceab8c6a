"""stepwatchd answers as schemas/stepwatchd_api.json says: everything that the description allows is taken."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearse_process import ROOT
from stepwatchd_process import DAEMON, Stepwatchd

hypothesis = pytest.importorskip("hypothesis")
schemathesis = pytest.importorskip("schemathesis")
openapi_checks = pytest.importorskip("schemathesis.specs.openapi.checks")

pytestmark = pytest.mark.skipif(not DAEMON.exists(), reason=f"{DAEMON} is not built")

API = ROOT / "schemas/stepwatchd_api.json"
TOKEN = "2b7e151628aed2a6abf7158809cf4f3c"
OPENED = "the control socket is open on TCP at "
SILENCES_MAX = 1000


class TcpDaemon:
    """A stepwatchd that answers over TCP, at a port of its own, and knows a run with an incident."""

    def __init__(self, daemon: Stepwatchd) -> None:
        self.daemon = daemon
        daemon.until(lambda: OPENED in daemon.log.read_text())
        self.address = daemon.log.read_text().split(OPENED)[1].split()[0]
        lines = [{"t": time.time(), "run": "r1", "event": {"kind": "start", "world": 1, "host": "h1"}}]
        for step in range(14):
            told = {"step": step, "phase": "train", "loss": "nan" if step > 9 else 2.0}
            lines.append({"t": time.time(), "run": "r1", "rank": 0, "beat": told})
        daemon.tell(*lines)
        self.incident = daemon.until(lambda: daemon.get("/v1/incidents")["incidents"])[0]

    def ask(self, target: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        connection.request(method, target, body, headers={"Authorization": f"Bearer {TOKEN}", **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


@pytest.fixture
def tcp(tmp_path: Path) -> Iterator[TcpDaemon]:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN + "\n")
    settings = tmp_path / "stepwatchd.json"
    listen = {"tcp": "127.0.0.1:0", "token_file": str(token)}
    settings.write_text(json.dumps({"listen": listen, "discovery": {"enabled": False}}))
    with Stepwatchd(tmp_path, settings) as daemon:
        yield TcpDaemon(daemon)


def described_calls() -> list[tuple[str, str]]:
    api = json.loads(API.read_text())
    return [(method.upper(), path) for path, methods in api["paths"].items() for method in methods]


def without_streams(context: object) -> bool:
    """A stream of events has no end."""
    return context.operation.path != "/v1/events"


def check_operation(
    tcp: TcpDaemon,
    operation: schemathesis.APIOperation,
    mode: schemathesis.GenerationMode,
    known: dict[str, str],
    examples: int,
) -> int:
    """Ask it what the description allows, or what it forbids, also about `known`; return how often."""
    asked = 0

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), is_known=hypothesis.strategies.booleans())
    @hypothesis.settings(max_examples=examples, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    def check(case: schemathesis.Case, is_known: bool) -> None:
        nonlocal asked
        asked += 1
        if is_known and case.path_parameters:
            case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
        response = case.call(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
        # What must be refused is said by the routes' own tests: a line that cannot be used is no bad request.
        case.validate_response(response, excluded_checks=[openapi_checks.negative_data_rejection])

    # Nothing can be wrong with a request that has neither body nor parameter.
    with contextlib.suppress(hypothesis.errors.Unsatisfiable):
        check()
    return asked


@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.long)])
def test_every_route_answers_as_the_description_says(tcp: TcpDaemon, examples: int) -> None:
    api = schemathesis.openapi.from_path(API).include(without_streams)
    api.config.update(base_url=f"http://{tcp.address}")
    known = {"run": "r1", "name": "loss", "incident": tcp.incident["id"]}
    asked = dict.fromkeys(schemathesis.GenerationMode, 0)
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) == len(described_calls()) - 1
    for operation in operations:
        assert check_operation(tcp, operation, schemathesis.GenerationMode.POSITIVE, known, examples) > 0, (
            operation.label
        )
        asked[schemathesis.GenerationMode.NEGATIVE] += check_operation(
            tcp, operation, schemathesis.GenerationMode.NEGATIVE, known, examples
        )
    assert asked[schemathesis.GenerationMode.NEGATIVE] > 0
    assert tcp.daemon.answers()


@pytest.mark.parametrize(("method", "path"), described_calls())
def test_no_route_answers_without_the_token(tcp: TcpDaemon, method: str, path: str) -> None:
    status, text = tcp.ask(path, method, Authorization="Bearer 00000000000000000000000000000000")
    assert status == 401
    assert json.loads(text)["error"]["code"] == "unauthorized"


def test_the_description_has_the_routes_that_the_page_names() -> None:
    page = (ROOT / "docs/formats/stepwatchd_api.md").read_text()
    for _, path in described_calls():
        assert path.partition("{")[0].rstrip("/") in page, path


# --- the ends of what is allowed ---


@pytest.mark.parametrize(
    ("target", "expected"),
    [
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
    ],
)
def test_a_parameter_is_taken_up_to_its_limit(tcp: TcpDaemon, target: str, expected: int) -> None:
    assert tcp.ask(target)[0] == expected


def test_texts_are_measured_in_characters(tcp: TcpDaemon) -> None:
    target = f"/v1/incidents/{tcp.incident['id']}/ack"
    assert tcp.ask(target, "POST", json.dumps({"note": "\U0001f600" * 1000}))[0] == 200
    assert tcp.ask(target, "POST", json.dumps({"note": "x" * 1001}))[0] == 400
    assert tcp.ask(target, "POST")[0] == 200


def test_a_sender_says_when_it_sent_in_seconds_or_is_refused(tcp: TcpDaemon) -> None:
    line = json.dumps({"t": 5, "run": "sent", "rank": 0, "beat": {"step": 1}})
    for sent in ("0", "1e11", "1767225600.25"):
        assert tcp.ask("/v1/beats", "POST", line, **{"Stepwatch-Sent": sent})[0] == 200
    for sent in ("nan", "inf", "-1", "1e12", "now", "5s"):
        status, text = tcp.ask("/v1/beats", "POST", line, **{"Stepwatch-Sent": sent})
        assert (status, json.loads(text)["error"]["code"]) == (400, "bad_request"), sent
    assert all(run["heard_t"] is not None for run in tcp.daemon.get("/v1/runs")["runs"])


def test_more_silences_than_there_may_be_find_no_room(tcp: TcpDaemon) -> None:
    connection = http.client.HTTPConnection(tcp.address, timeout=30)

    def add() -> tuple[int, str]:
        connection.request("POST", "/v1/silences", '{"seconds": 3600}', {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    assert {add()[0] for _ in range(SILENCES_MAX)} == {200}
    status, text = add()
    assert (status, json.loads(text)["error"]["code"]) == (409, "no_room")
    connection.close()
