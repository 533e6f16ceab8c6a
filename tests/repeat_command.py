"""The command that repeats one test alone, printed in the summary of a run for each failed test."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

SET_BY_OPTION_OR_RUN = ("STEPWATCH_SEED", "STEPWATCH_RUNTIME_DIR")


def given_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that select the tested programs: build tree, programs, sanitizers."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name == "TSAN_OPTIONS" or (name.startswith("STEPWATCH_") and name not in SET_BY_OPTION_OR_RUN)
    }


def repeat_command(nodeid: str, variables: Mapping[str, str], options: list[str], python: Path, here: Path) -> str:
    """Return a shell command for the directory `here`."""
    if nodeid.rfind("@") > nodeid.rfind("]"):  # pytest-xdist appends the group to the name
        nodeid = nodeid[: nodeid.rindex("@")]
    program = python.relative_to(here) if here in python.parents else python
    settings = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    return " ".join([*settings, shlex.join([str(program), "-m", "pytest", nodeid, *options])])
