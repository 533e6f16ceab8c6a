"""Check that every TEST_CASE of the sources is an entry of CTest: ``check_tests.py BUILD_DIRECTORY``.

Exit code 1 and one line for each case without an entry, each entry without a case and each source without an
executable.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRINGS = r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)'
CASE = re.compile(r"^(?:TEST_CASE|SCENARIO)\s*\(\s*" + STRINGS, re.MULTILINE)
OTHER_CASES = re.compile(
    r"^\s*(TEMPLATE_\w*TEST_CASE\w*|TEST_CASE_METHOD|METHOD_AS_TEST_CASE|REGISTER_TEST_CASE)", re.M
)
# Sources that a build may omit: those that link LibTorch, simulations that take minutes under sanitizers, and
# stepwatchd.
OPTIONAL = ("tests/front_ends/torch/", "tests/agree/", "tests/operations/")


def cases(source: Path) -> list[str]:
    """Return the names of the test cases in a source."""
    text = source.read_text(encoding="utf-8")
    if OTHER_CASES.search(text):
        raise SystemExit(f"{source}: only TEST_CASE is counted; teach tools/check_tests.py the other macros first")
    return ["".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', match[1])) for match in CASE.finditer(text)]


def entries(build: Path) -> list[str]:
    """Return the names of CTest's entries."""
    listing = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True
    )
    return [test["name"] for test in json.loads(listing.stdout)["tests"]]


def main() -> int:
    """Compare; return the exit code."""
    build = Path(sys.argv[1])
    found = entries(build)
    complaints, compiled = [], set()
    expected: set[str] = set()
    for line in (build / "tests.txt").read_text(encoding="utf-8").splitlines():
        executable, kind, sources = line.split("|")
        paths = [Path(source).resolve() for source in sources.split(",")]
        compiled.update(paths)
        named = [name for path in paths for name in cases(path)]
        expected.update([executable] if kind == "whole" else [f"{executable}: {name}" for name in named])
        complaints += [
            f"{executable}: {name}: more than one case has this name" for name in set(named) if named.count(name) > 1
        ]
        if not named:
            complaints.append(f"{executable}: no test cases in its sources")
    executables = {name.split(": ")[0] for name in expected}
    complaints += [f"{name}: no entry in CTest" for name in sorted(expected - set(found))]
    discovered = {name for name in found if ": " in name and name.split(": ")[0] in executables}
    complaints += [f"{name}: no such test case in the sources" for name in sorted(discovered - expected)]
    for path in sorted((ROOT / "tests").rglob("*.cc")):
        name = path.relative_to(ROOT).as_posix()
        if path not in compiled and cases(path) and not name.startswith(OPTIONAL):
            complaints.append(f"{name}: no executable has it")
    print("\n".join(complaints) if complaints else f"{len(expected)} entries for all test cases")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
