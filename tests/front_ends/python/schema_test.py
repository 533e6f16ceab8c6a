"""The config schema against the examples that the C++ parser is tested with in tests/config/examples_test.cc."""

import json
import pathlib

import jsonschema
import pytest

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "schemas"
GOOD = sorted((SCHEMAS / "examples" / "good").glob("*.json"))
BAD = sorted((SCHEMAS / "examples" / "bad").glob("*.json"))
DEPTH_MAX = 32

SCHEMA = json.loads((SCHEMAS / "config.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


class NotStrictJson(ValueError):
    pass


def strip_comments(text):
    """The text with // and /* */ comments outside of strings replaced by a space."""
    kept, i = [], 0
    while i < len(text):
        if text[i] == '"':
            end = i + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            kept.append(text[i : end + 1])
            i = end + 1
        elif text.startswith("//", i):
            while i < len(text) and text[i] not in "\r\n":
                i += 1
        elif text.startswith("/*", i):
            end = text.find("*/", i + 2)
            if end < 0:
                raise NotStrictJson("comment not closed")
            kept.append(" ")
            i = end + 2
        else:
            kept.append(text[i])
            i += 1
    return "".join(kept)


def refuse_constant(name):
    raise NotStrictJson(name)


def members_once(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise NotStrictJson("a key stands twice")
    return dict(pairs)


def depth(value):
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def read_strict(data):
    """The value of a config text; ValueError if it is not JSON as the parser takes it."""
    text = strip_comments(data.decode("utf-8-sig"))
    value = json.loads(text, object_pairs_hook=members_once, parse_constant=refuse_constant)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair does not encode
    if depth(value) > DEPTH_MAX:
        raise NotStrictJson("too deep")
    return value


def name(path):
    return path.stem


def path_only(value):
    return value if isinstance(value, str) else ""


def test_the_schema_itself_is_valid():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_there_are_examples():
    assert len(GOOD) >= 25
    assert len(BAD) >= 45


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_good_example_validates(path):
    VALIDATOR.validate(read_strict(path.read_bytes()))


@pytest.mark.parametrize("path", [p for p in BAD if not p.name.startswith("syntax_")], ids=name)
def test_bad_example_does_not_validate(path):
    assert not VALIDATOR.is_valid(read_strict(path.read_bytes()))


@pytest.mark.parametrize("path", [p for p in BAD if p.name.startswith("syntax_")], ids=name)
def test_bad_syntax_is_not_strict_json(path):
    with pytest.raises(ValueError):
        read_strict(path.read_bytes())


def described(schema, path="config"):
    """Every property below `schema`, with its path."""
    for key, below in schema.get("properties", {}).items():
        yield f"{path}.{key}", below
        yield from described(below, f"{path}.{key}")
        yield from described(below.get("items", {}), f"{path}.{key}[]")


@pytest.mark.parametrize("path, schema", list(described(SCHEMA)), ids=path_only)
def test_every_property_is_described_and_its_default_validates(path, schema):
    assert schema["description"]
    if "default" in schema:
        jsonschema.Draft202012Validator(schema).validate(schema["default"])


def test_the_example_of_all_defaults_holds_every_default_of_the_schema():
    defaults = {key: schema["default"] for key, schema in SCHEMA["properties"].items() if "default" in schema}
    example = read_strict((SCHEMAS / "examples" / "good" / "all_defaults.json").read_bytes())
    inside = SCHEMA["properties"]["stepwatch"]["properties"]
    own = {key: schema["default"] for key, schema in inside.items() if "default" in schema}
    assert example == {**defaults, "stepwatch": own}


def test_the_documentation_names_every_key():
    text = (SCHEMAS.parent / "docs" / "use" / "config.md").read_text(encoding="utf-8")
    missing = [path for path, _ in described(SCHEMA) if f"`{path.rsplit('.', 1)[-1]}`" not in text]
    assert not missing
