"""What tests need beside pytest: without it they are skipped, or fail where STEPWATCH_REQUIRE_ALL=1 asks for all."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

REQUIRE_ALL = os.environ.get("STEPWATCH_REQUIRE_ALL", "") not in ("", "0")


def missing(what: str) -> NoReturn:
    """End the test, or with it the module that is being collected, for want of something."""
    if REQUIRE_ALL:
        pytest.fail(f"{what}, and STEPWATCH_REQUIRE_ALL asks for all tests", pytrace=False)
    pytest.skip(what, allow_module_level=True)


def require(holds: object, what: str) -> None:
    """Demand that something is true; `what` says what is missing otherwise."""
    if not holds:
        missing(what)


def require_file(path: Path) -> Path:
    """Return the path of something that the build makes."""
    require(path.exists(), f"{path} is not built")
    return path


def require_module(name: str) -> ModuleType:
    """Return a Python module."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing(f"the Python module {name} cannot be imported ({error})")


def require_distributed() -> None:
    """Demand a torch that was built with torch.distributed."""
    require(require_module("torch").distributed.is_available(), "this torch has no torch.distributed")
