"""Where MindSpore is not installed, these tests run with a fake of the same shape."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("mindspore") is None:
    sys.path.append(str(Path(__file__).parent / "fake"))


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write to the directory of the test, and leave PyNative mode on."""
    import mindspore

    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "output"))
    monkeypatch.setenv("DYNAMIC_MONITOR", "false")
    yield
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
