"""The command line as people and scripts call it, and the descriptions of its JSON."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema

from build_tree import ROOT, STEPWATCH, skip_without

skip_without(STEPWATCH)
API = json.loads((ROOT / "schemas/control_api.json").read_text())


def stepwatch(
    *arguments: object,
    given: str | bytes | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    user: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a verb to its end, with a text on its standard input and variables beside those of the test."""
    variables = {name: value for name, value in os.environ.items() if name != "MONITOR_OUTPUT_DIR"}
    done = subprocess.run(
        [str(STEPWATCH.resolve()), *map(str, arguments)],
        capture_output=True,
        input=given.encode() if isinstance(given, str) else given,
        timeout=120,
        cwd=cwd,
        env={**variables, **(env or {})},
        user=user,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def answer(*arguments: object, given: str | None = None) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a verb and its JSON."""
    done = stepwatch(*arguments, "--json", given=given)
    return done.returncode, json.loads(done.stdout)


def check(schema: str, instance: object) -> None:
    """Check an answer against its description in the control API."""
    reference = {"$ref": f"#/components/schemas/{schema}", "components": API["components"]}
    jsonschema.Draft202012Validator(reference).validate(instance)
