"""Which wheels can be built here: the interpreters that are found, and which of them is taken for which wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ABI3_FROM = (3, 12)
OLDEST = (3, 9)

QUESTION = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "version": sys.version_info[:3],
    "plain": platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED"),
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "base": sys.base_prefix,
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython that extensions can be built for."""

    path: Path
    version: tuple[int, int, int]
    base: Path  # where it is installed

    @property
    def is_abi3(self) -> bool:
        """Whether its wheel is the one for every later Python, too."""
        return self.version[:2] >= ABI3_FROM

    @property
    def tag(self) -> str:
        """The name of its wheel's Python: cp311, or cp312 for all from 3.12 on."""
        major, minor = ABI3_FROM if self.is_abi3 else self.version[:2]
        return f"cp{major}{minor}"


def candidates() -> list[Path]:
    """Return the places where interpreters are looked for: PATH and pyenv's versions."""
    found = []
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found += sorted(
            path for path in Path(folder or ".").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)
        )
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return found + sorted(pyenv.glob("versions/*/bin/python3"))


def ask(path: Path) -> Interpreter | None:
    """Ask an interpreter for its version; None if it does not run, is no plain CPython or has no headers."""
    if shutil.which(str(path)) is None:
        return None
    done = subprocess.run([str(path), "-I", "-c", QUESTION], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    answer = json.loads(done.stdout)
    if not (answer["plain"] and answer["headers"]):
        return None
    return Interpreter(path, tuple(answer["version"]), Path(answer["base"]))


def choose(found: Iterable[Interpreter]) -> list[Interpreter]:
    """Take one interpreter a wheel.

    Below 3.12 that is the latest patch of each version; from 3.12 on the earliest version, whose headers promise
    nothing that it does not have. Of equal ones the first is taken.
    """
    taken: dict[str, Interpreter] = {}
    for one in found:
        if one.version[:2] < OLDEST:
            continue
        other = taken.get(one.tag)
        is_better = other is None or (one.version < other.version if one.is_abi3 else one.version > other.version)
        if is_better:
            taken[one.tag] = one
    return sorted(taken.values(), key=lambda one: one.version)


def find() -> list[Interpreter]:
    """Return the interpreters that wheels are built with here."""
    return choose(filter(None, map(ask, candidates())))
