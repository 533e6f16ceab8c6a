"""/v1 only ever adds: the promises to clients stay, and a missing one is reported with the loss for a client."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import api_baseline

API = json.loads((api_baseline.ROOT / "schemas/control_api.json").read_text())
PROMISES = api_baseline.promises_of(API)
BASELINE = json.loads((api_baseline.ROOT / "tests/schemas/control_api_v1.json").read_text())
Api = dict[str, Any]


def missing(change: Callable[[Api], object]) -> list[str]:
    changed = copy.deepcopy(API)
    change(changed)
    return api_baseline.missing(PROMISES, api_baseline.promises_of(changed))


def schema(api: Api, name: str) -> Api:
    return api["components"]["schemas"][name]


def operation(api: Api, method: str, path: str) -> Api:
    return api["paths"][path][method]


@pytest.mark.parametrize("api", api_baseline.BASELINES)
def test_an_api_keeps_what_clients_were_promised(api: str) -> None:
    promised = json.loads((api_baseline.ROOT / api_baseline.BASELINES[api]).read_text())
    broken = api_baseline.missing(promised, api_baseline.promises_of(json.loads((api_baseline.ROOT / api).read_text())))
    assert not broken, "\n".join([*broken, "a client of an earlier release counts on it; see tools/api_baseline.py"])


@pytest.mark.parametrize("baseline", api_baseline.BASELINES.values())
def test_promises_are_written_so_that_they_read_back(baseline: str) -> None:
    text = (api_baseline.ROOT / baseline).read_text()
    assert api_baseline.text_of(json.loads(text)) == text


# --- what breaks a client ---


def drop(api: Api, name: str, member: str) -> None:
    del schema(api, name)["properties"][member]
    schema(api, name)["required"].remove(member)


def test_a_change_that_breaks_a_client_is_reported_in_a_sentence() -> None:
    status = "GET /v1/status, 200: "
    unread = " is gone, and a client that reads it finds nothing"
    unmet = " now, which a client does not expect"
    awaited = " cannot come any more, and a client may wait for it"
    refused = ", and a client that does not is refused"

    def get(api: Api, path: str) -> Api:
        return operation(api, "get", path)

    def post(api: Api, path: str) -> Api:
        return operation(api, "post", path)

    def members(api: Api, name: str) -> Api:
        return schema(api, name)["properties"]

    def limit(api: Api) -> Api:
        return get(api, "/v1/history")["parameters"][0]

    new = {"name": "from", "in": "query", "required": True, "schema": {"type": "integer"}}
    body = {"required": True, "content": {"application/json": {"schema": True}}}
    breaking: list[tuple[str, Callable[[Api], object]]] = [
        (
            "POST /v1/plan is gone: a client that asks it is answered 404 or 405",
            lambda api: api["paths"].pop("/v1/plan"),
        ),
        (status + '"drift"' + unread, lambda api: drop(api, "Status", "drift")),
        (status + '"plan.sites"' + unread, lambda api: drop(api, "Plan", "sites")),
        (
            status + '"drift" may be missing now, and a client counts on it',
            lambda api: schema(api, "Status")["required"].remove("drift"),
        ),
        (
            status + '"step" was integer and is integer or null' + unmet,
            lambda api: members(api, "Status").update(step={"type": ["integer", "null"]}),
        ),
        (
            status + '"plan_id" was integer or null and is integer' + unmet,
            lambda api: members(api, "Status").update(plan_id={"type": "integer"}),
        ),
        (
            status + '"state" never says "ARMED" any more, and a client may wait for it',
            lambda api: schema(api, "State")["enum"].remove("ARMED"),
        ),
        (
            status + '"rank" may be beyond its minimum of 0 now, and a client counts on that',
            lambda api: members(api, "Status")["rank"].update(minimum=-1),
        ),
        (
            'GET /v1/events, Event: "event" never says "limited" any more, and a client may wait for it',
            lambda api: members(api, "Event")["event"]["enum"].remove("limited"),
        ),
        (status + "its headers" + awaited, lambda api: get(api, "/v1/status")["responses"]["200"].pop("headers")),
        (
            "GET /metrics, 200: an answer in text/plain" + awaited,
            lambda api: get(api, "/metrics")["responses"]["200"]["content"].pop("text/plain"),
        ),
        (
            "POST /v1/apply, 412: an answer in application/json" + awaited,
            lambda api: post(api, "/v1/apply")["responses"].pop("412"),
        ),
        (
            'GET /v1/history: "query limit" is not taken any more, and a client that sends it is refused or passed '
            "over",
            lambda api: get(api, "/v1/history")["parameters"].clear(),
        ),
        (
            'GET /v1/history: "query limit" has to be sent now' + refused,
            lambda api: limit(api).update(required=True),
        ),
        (
            'GET /v1/history: "query limit" has a maximum of 9 now, and what a client sends beyond it is refused',
            lambda api: limit(api)["schema"].update(maximum=9),
        ),
        (
            'GET /v1/history: "query limit" took integer and takes boolean now: what a client sends is refused',
            lambda api: limit(api).update(schema={"type": "boolean"}),
        ),
        (
            'GET /v1/history: "query limit" takes only 1, 2 now, and what else a client sends is refused',
            lambda api: limit(api)["schema"].update(enum=[1, 2]),
        ),
        (
            'GET /v1/history: "query from" has to be sent, and a client that does not know it is refused',
            lambda api: get(api, "/v1/history")["parameters"].append(new),
        ),
        (
            'POST /v1/start: "body application/json" has to be sent, and a client that does not know it is refused',
            lambda api: post(api, "/v1/start").update(requestBody=body),
        ),
        (
            'POST /v1/rollback: "body application/json" has to be sent now' + refused,
            lambda api: post(api, "/v1/rollback")["requestBody"].update(required=True),
        ),
        ("a request without a token is not taken any more", lambda api: api.update(security=[{"bearer": []}])),
    ]
    for sentence, change in breaking:
        assert sentence in missing(change)


def places(node: Any, kind: str) -> Iterator[Api]:
    """Yield each schema that has this keyword, but for conditions."""
    if isinstance(node, dict):
        if isinstance(node.get(kind), (dict, list)):
            yield node
        for name, below in node.items():
            if name not in ("description", "if"):
                yield from places(below, kind)
    elif isinstance(node, list):
        for below in node:
            yield from places(below, kind)


@pytest.mark.parametrize("one_in", [10, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["properties", "required", "enum"])
def test_no_member_can_be_taken_out_unseen(kind: str, one_in: int) -> None:
    """Whichever it is, one at a time: a member, the word that it is always there, or one of its values."""
    unseen, tried = [], 0
    members = itertools.count()
    for place, found in enumerate(places(API["components"]["schemas"], kind)):
        for name in found[kind]:
            if next(members) % one_in:
                continue

            def remove(api: Api, place: int = place, name: Any = name) -> None:
                changed = list(places(api["components"]["schemas"], kind))[place]
                if isinstance(changed[kind], list):
                    changed[kind].remove(name)
                    return
                del changed[kind][name]
                changed["required"] = [each for each in changed.get("required", []) if each != name]

            tried += 1
            if not missing(remove):
                unseen.append((place, name))
    assert tried > 0 and not unseen


# --- what does not ---


def test_what_is_added_breaks_nobody() -> None:
    def add(api: Api) -> None:
        api["paths"]["/v1/new"] = {"get": operation(api, "get", "/v1/status")}
        schema(api, "Status")["properties"]["new"] = {"type": "string"}
        schema(api, "Status")["required"].append("new")
        schema(api, "State")["enum"].append("DREAMING")
        history = operation(api, "get", "/v1/history")
        history["parameters"].append({"name": "new", "in": "query", "required": False, "schema": {"type": "integer"}})
        history["parameters"][0]["schema"]["maximum"] = 1000000
        operation(api, "post", "/v1/start")["requestBody"] = {
            "required": False,
            "content": {"application/json": {"schema": {"type": "object", "required": ["a"], "properties": {"a": {}}}}},
        }
        history["responses"]["418"] = history["responses"]["404"]

    assert missing(add) == []


def test_record_adds_and_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_baseline, "ROOT", tmp_path)
    monkeypatch.setattr(api_baseline, "BASELINES", {"api.json": "v1.json"})
    api, baseline = tmp_path / "api.json", tmp_path / "v1.json"
    baseline.write_text(api_baseline.text_of(BASELINE))
    less = copy.deepcopy(API)
    drop(less, "Status", "drift")
    api.write_text(json.dumps(less))
    assert api_baseline.main(["--record"]) == 1
    assert json.loads(baseline.read_text()) == BASELINE
    more = copy.deepcopy(API)
    schema(more, "Status")["properties"]["new"] = {"type": "string"}
    api.write_text(json.dumps(more))
    assert api_baseline.main(["--record"]) == 0
    recorded = json.loads(baseline.read_text())
    assert recorded["answers"]["Status"]["new"] == {"types": ["string"], "presence": "maybe"}
    assert api_baseline.missing(recorded, PROMISES) == [
        'GET /v1/status, 200: "new" is gone, and a client that reads it finds nothing'
    ]
    assert api_baseline.main(["--help"]) == 2
