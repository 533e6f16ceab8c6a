"""The build tree whose programs the tests in Python start.

``STEPWATCH_BUILD`` names it, from the root of the checkout; without it the tree of ``./run test``, or that of
``./run build`` where there is no other.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / (os.environ.get("STEPWATCH_BUILD") or ("build-test" if (ROOT / "build-test").exists() else "build"))
STEPWATCH = Path(os.environ.get("STEPWATCH_BIN", BUILD / "bin/stepwatch")).absolute()
# One with a sanitizer, perhaps, beside a command line without.
STEPWATCHD = Path(os.environ.get("STEPWATCH_STEPWATCHD", STEPWATCH.with_name("stepwatchd"))).absolute()


def skip_without(program: Path) -> None:
    """Skip the test module that is being imported if a program is not built."""
    if not program.exists():
        pytest.skip(f"{program} is not built", allow_module_level=True)
