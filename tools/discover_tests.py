"""Write CTest's entries of a Catch2 executable: ``discover_tests.py EXECUTABLE FILE.cmake``.

Catch2's own ``catch_discover_tests`` splits a name at a semicolon and then runs two names without a test, which pass.
Here a name that CTest or Catch2 could misread is an error, and an entry without a matching test fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# Characters without a meaning to CMake, CTest and Catch2's test specifications, once commas and brackets are escaped.
NAME = re.compile(r"[\w ,.:'=()/+^<>&-]+")
# Tag of a TEST_CASE -> (label in CTest, cost: expensive tests start first, so that parallel jobs end together).
TAGS = {"long": ("long", 40), "slow": ("slow", 20), "random": ("random", 5)}


def names(executable: str, *specification: str) -> list[str]:
    """Return the names of the matching test cases; Catch2 2 exits with their number."""
    command = [executable, "--list-test-names-only", *specification]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 or "Unrecogni" not in done.stderr:
        return [line for line in done.stdout.splitlines() if line]
    command = [executable, "--list-tests", "--verbosity", "quiet", *specification]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def specification_of(name: str) -> str:
    """Return the specification that matches this test alone."""
    return re.sub(r"([,\[\]])", r"\\\1", name)


def entry(executable: str, name: str, tags: list[str]) -> str:
    """Return the lines of CMake for one test case."""
    test = f"[==[{Path(executable).name}: {name}]==]"
    lines = f'add_test({test} "{executable}" [==[{specification_of(name)}]==])\n'
    if tags:
        labels = ";".join(TAGS[tag][0] for tag in tags)
        cost = sum(TAGS[tag][1] for tag in tags)
        lines += f'set_tests_properties({test} PROPERTIES LABELS "{labels}" COST {cost})\n'
    return lines


def main() -> int:
    """Write the entries; return the exit code."""
    executable, target = sys.argv[1:]
    found = names(executable)
    wrong = [name for name in found if not NAME.fullmatch(name)]
    if wrong or not found:
        print(f"{executable}: " + ("no test cases" if not found else f"CTest would misread {wrong}"), file=sys.stderr)
        return 1
    tagged = {tag: set(names(executable, f"[{tag}]")) for tag in TAGS}
    text = "".join(entry(executable, name, [tag for tag in TAGS if name in tagged[tag]]) for name in found)
    Path(target).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
