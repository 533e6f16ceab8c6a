"""Print a command that repeats each failed test of CTest's last run alone: ``repeat_failures.py BUILD_DIRECTORY``."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Print the commands of the last run's failures; return the exit code."""
    build = Path(sys.argv[1])
    failures = build / "Testing/Temporary/LastTestsFailed.log"
    if not failures.exists():
        return 0
    # A line is "NUMBER:NAME".
    names = {line.partition(":")[2] for line in failures.read_text(encoding="utf-8").splitlines()}
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1"]
    listing = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for test in listing["tests"]:
        if test["name"] in names:
            words = test.get("command", [test["name"]])
            print("repeat with:", shlex.join([os.path.relpath(words[0]), *words[1:]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
