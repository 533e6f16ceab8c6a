"""Check that the API descriptions of a job and of stepwatchd only add to /v1, as promised to clients.

``python3 tools/api_baseline.py`` compares each description in schemas/ with its baseline in tests/schemas/ and prints
what a client would miss. ``--record`` adds new promises to a baseline before a release, and refuses while a promise is
missing. Exit code 1: a promise is missing. The promises of an answer are its members by path, each with types,
presence, values and bounds; those of a request are the accepted values.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# A description, and its recorded promises.
BASELINES = {
    "schemas/control_api.json": "tests/schemas/control_api_v1.json",
    "schemas/stepwatchd_api.json": "tests/schemas/stepwatchd_api_v1.json",
}
# Events of GET /v1/events of a job: a stream's schema cannot name them.
STREAMED = ("Event", "Gap")
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems")
UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
PRESENCES = ("always", "sometimes", "maybe")
TYPE_OF = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}

Schema = Any  # true, or an object
Promise = dict[str, Any]
Promises = dict[str, Promise]


# --- from a description to its promises ---


class Reader:
    """Reads a description and follows references."""

    def __init__(self, api: dict[str, Any]) -> None:
        self.api = api

    def resolved(self, node: Schema) -> dict[str, Any]:
        """Return the schema, or another part of the description, without a reference."""
        if not isinstance(node, dict):
            return {}
        while "$ref" in node:
            target: Any = self.api
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        return node

    def alternatives(self, node: Schema) -> list[dict[str, Any]]:
        """Return the alternative schemas, each without references and choices."""
        node = self.resolved(node)
        for key in ("anyOf", "oneOf"):
            if key in node:
                rest = {name: value for name, value in node.items() if name != key}
                return [{**rest, **each} for choice in node[key] for each in self.alternatives(choice)]
        return [node]

    def promises(self, node: Schema, path: str = "", presence: str = "always") -> Promises:
        """Return what the schema promises at each path below this one."""
        choices = self.alternatives(node)
        found: Promises = {path: {"types": sorted({name for each in choices for name in types(each)})}}
        if presence != "always":
            found[path]["presence"] = presence
        declared = [each for each in choices if types(each) != ["null"]]
        named = [value for each in declared for value in values(each) or []]
        free = {name for each in declared if values(each) is None for name in types(each)}
        if named and not free & {"any", *(TYPE_OF[type(value)] for value in named)}:
            found[path]["values"] = named
        for bound in (*LOWER_BOUNDS, *UPPER_BOUNDS, "pattern"):
            if len(declared) == 1 and bound in declared[0]:
                found[path][bound] = declared[0][bound]
        for each in declared:
            if "object" in types(each) and each.get("additionalProperties") is False:
                found[path]["closed"] = True
            for below in self.members(each, path):
                for name, promise in below.items():
                    found.setdefault(name, promise)
        return found

    def members(self, node: dict[str, Any], path: str) -> Iterator[Promises]:
        """Yield what the schema promises below itself."""
        required = set(node.get("required", []))
        at_times = {name for key in ("then", "else") for name in node.get(key, {}).get("required", [])}
        others = node.get("additionalProperties", True)
        for name, member in ({name: others for name in node.get("required", [])} | node.get("properties", {})).items():
            presence = "always" if name in required else "sometimes" if name in at_times else "maybe"
            yield self.promises(member, f"{path}.{name}".lstrip("."), presence)
        if "items" in node:
            yield self.promises(node["items"], path + "[]")
        if isinstance(node.get("additionalProperties"), dict):
            yield self.promises(node["additionalProperties"], path + "{}")

    def request(self, operation: dict[str, Any]) -> Promises:
        """Return the promises of the operation's request."""
        found: Promises = {}
        for parameter in map(self.resolved, operation.get("parameters", [])):
            presence = "always" if parameter.get("required") else "maybe"
            found |= self.promises(parameter.get("schema", True), f"{parameter['in']} {parameter['name']}", presence)
        body = self.resolved(operation.get("requestBody", {}))
        for media, content in body.get("content", {}).items():
            presence = "always" if body.get("required") else "maybe"
            found |= self.promises(content.get("schema", True), f"body {media}", presence)
        return found

    def answers(self, response: Schema) -> Iterator[tuple[str, str, Promises]]:
        """Yield the media type, a name and the promises of each kind of answer, and of its headers."""
        response = self.resolved(response)
        headers: Promises = {}
        for name, header in response.get("headers", {}).items():
            headers |= self.promises(self.resolved(header).get("schema", True), name, "maybe")
        if headers:
            yield "headers", "headers " + ", ".join(headers), headers
        for media, content in response.get("content", {}).items():
            schema = content.get("schema", True)
            named = isinstance(schema, dict) and "$ref" in schema
            yield media, schema["$ref"].rsplit("/", 1)[1] if named else media, self.promises(schema)


def types(node: dict[str, Any]) -> list[str]:
    """Return the types that the schema, or its values, have."""
    stated = node.get("type")
    if stated is not None:
        return sorted([stated] if isinstance(stated, str) else stated)
    declared = values(node)
    if declared is not None:
        return sorted({TYPE_OF[type(value)] for value in declared})
    return ["object"] if "properties" in node else ["any"]


def values(node: dict[str, Any]) -> list[Any] | None:
    """Return the values that the schema lists, or None without a list."""
    return [node["const"]] if "const" in node else node.get("enum")


def promises_of(api: dict[str, Any]) -> dict[str, Any]:
    """Return all promises of the description, with equal answers kept once."""
    reader = Reader(api)
    schemas = api["components"]["schemas"]
    answers: dict[str, Promises] = {name: reader.promises(schemas[name]) for name in STREAMED if name in schemas}
    routes: dict[str, Any] = {}
    for path, operations in api["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            operation = operations[method]
            route = routes[f"{method.upper()} {path}"] = {"request": reader.request(operation), "answers": {}}
            for status, response in operation["responses"].items():
                for media, name, promises in reader.answers(response):
                    if answers.setdefault(name, promises) != promises:
                        name = f"{operation['operationId']} {status} {media}"
                        answers[name] = promises
                    route["answers"][f"{status} {media}"] = name
    return {"version": 1, "security": api.get("security", []), "routes": routes, "answers": answers}


# --- missing promises ---


def missing(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a sentence for each promise of the old description that the new one breaks."""
    found = [
        f"{'a request without a token' if not way else 'a request with ' + ', '.join(way)} is not taken any more"
        for way in old["security"]
        if way not in new["security"]
    ]
    for route, promised in old["routes"].items():
        if route not in new["routes"]:
            found.append(f"{route} is gone: a client that asks it is answered 404 or 405")
            continue
        now = new["routes"][route]
        found += [f"{route}: {why}" for why in missing_request(promised["request"], now["request"])]
        for answer, name in promised["answers"].items():
            status, media = answer.split(" ", 1)
            if answer not in now["answers"]:
                what = "its headers" if media == "headers" else f"an answer in {media}"
                found.append(f"{route}, {status}: {what} cannot come any more, and a client may wait for it")
                continue
            below = missing_answer(old["answers"][name], new["answers"][now["answers"][answer]])
            found += [f"{route}, {status}: {why}" for why in below]
    for name in [name for name in STREAMED if name in old["answers"]]:
        below = missing_answer(old["answers"][name], new["answers"].get(name, {}))
        found += [f"GET /v1/events, {name}: {why}" for why in below]
    return found


def missing_answer(old: Promises, new: Promises) -> Iterator[str]:
    """Yield promises that clients miss in an answer."""
    for path, was in old.items():
        name = f'"{path}"' if path else "it"
        if path not in new:
            yield f"{name} is gone, and a client that reads it finds nothing"
            continue
        now = new[path]
        if was["types"] != now["types"]:
            yield f"{name} was {listed(was)} and is {listed(now)} now, which a client does not expect"
            continue
        if PRESENCES.index(presence(now)) > PRESENCES.index(presence(was)):
            yield f"{name} may be missing now, and a client counts on it"
        gone = [value for value in was.get("values", []) if value not in now.get("values", [value])]
        if gone:
            yield f"{name} never says {listed_values(gone)} any more, and a client may wait for it"
        for bound in wider(was, now):
            yield f"{name} may be beyond its {bound} of {was[bound]!r} now, and a client counts on that"


def missing_request(old: Promises, new: Promises) -> Iterator[str]:
    """Yield promises that clients miss in a request."""
    for path, was in old.items():
        if path not in new:
            yield f'"{path}" is not taken any more, and a client that sends it is refused or passed over'
            continue
        now = new[path]
        if "any" not in now["types"] and not set(was["types"]) <= set(now["types"]):
            yield f'"{path}" took {listed(was)} and takes {listed(now)} now: what a client sends is refused'
            continue
        if presence(now) == "always" and presence(was) != "always":
            yield f'"{path}" has to be sent now, and a client that does not is refused'
        gone = [value for value in was.get("values", []) if value not in now.get("values", [value])]
        if gone or ("values" in now and "values" not in was):
            yield f'"{path}" takes only {listed_values(now["values"])} now, and what else a client sends is refused'
        for bound in wider(now, was):
            yield f'"{path}" has a {bound} of {now[bound]!r} now, and what a client sends beyond it is refused'
        if now.get("closed") and not was.get("closed"):
            yield f'"{path}" takes no further members now, and a client that sends any is refused'
    for path, now in new.items():
        # A member is required only from clients that send its parent.
        parent = path.rpartition(".")[0]
        is_asked_for = presence(now) == "always" and not path.endswith(("[]", "{}"))
        if path not in old and is_asked_for and (not parent or parent in old):
            yield f'"{path}" has to be sent, and a client that does not know it is refused'


def wider(was: Promise, now: Promise) -> Iterator[str]:
    """Yield the bounds of the first schema that the second one exceeds."""
    for bound in LOWER_BOUNDS:
        if bound in was and (bound not in now or now[bound] < was[bound]):
            yield bound
    for bound in UPPER_BOUNDS:
        if bound in was and (bound not in now or now[bound] > was[bound]):
            yield bound
    if "pattern" in was and now.get("pattern") != was["pattern"]:
        yield "pattern"


def presence(promise: Promise) -> str:
    """Return the certainty of the member's presence."""
    return promise.get("presence", "always")


def listed(promise: Promise) -> str:
    """Return the types as words."""
    return " or ".join(promise["types"])


def listed_values(found: list[Any]) -> str:
    """Return the values as JSON text."""
    return ", ".join(json.dumps(value) for value in found)


# --- the file ---


def text_of(promises: dict[str, Any]) -> str:
    """Return the promises as JSON with one line each."""
    return written(promises, 4) + "\n"


def written(node: Any, depth: int, indent: str = "") -> str:
    """Return JSON text; objects down to this depth have one line per member."""
    if not isinstance(node, dict) or not node or depth == 0 or "types" in node:
        return json.dumps(node)
    members = (
        f"{indent}  {json.dumps(name)}: {written(each, depth - 1, indent + '  ')}" for name, each in node.items()
    )
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def main(arguments: list[str]) -> int:
    """Compare, or record."""
    if arguments not in ([], ["--record"]):
        print(__doc__, file=sys.stderr)
        return 2
    return max(check(ROOT / api, ROOT / baseline, bool(arguments)) for api, baseline in BASELINES.items())


def check(api: Path, baseline: Path, records: bool) -> int:
    """Compare one description, and record new promises if no old one is missing."""
    new = promises_of(json.loads(api.read_text()))
    old = json.loads(baseline.read_text()) if baseline.exists() else new
    found = missing(old, new)
    for sentence in found:
        print(sentence)
    if found:
        print(f"/v1 only ever adds: {len(found)} of the promises in {baseline.relative_to(ROOT)} would be broken")
        return 1
    if records:
        baseline.write_text(text_of(new))
        print(f"recorded in {baseline.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
