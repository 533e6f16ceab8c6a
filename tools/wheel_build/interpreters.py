"""The wheels that can be built on this machine: the interpreters found, and the choice of one for each wheel."""

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
        """Whether its wheel also serves every later Python."""
        return self.version[:2] >= ABI3_FROM

    @property
    def tag(self) -> str:
        """The Python tag of its wheel: cp311, or cp312 for all from 3.12 on."""
        major, minor = ABI3_FROM if self.is_abi3 else self.version[:2]
        return f"cp{major}{minor}"


def candidates() -> list[Path]:
    """Return the locations of interpreters: PATH and pyenv's versions."""
    found = []
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found += sorted(
            path for path in Path(folder or ".").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)
        )
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return found + sorted(pyenv.glob("versions/*/bin/python3"))


def ask(path: Path) -> Interpreter | None:
    """Query an interpreter for its version; None if it does not run, is not a plain CPython or has no headers."""
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
    """Choose one interpreter for each wheel.

    Below 3.12 this is the latest patch of each version; from 3.12 on the earliest version, whose headers declare only
    functions that it has. Of equal ones the first is used.
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
