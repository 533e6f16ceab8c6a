"""Fixtures of several files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from internevo_world import bot, context, fresh

__all__ = ["bot", "context", "fresh", "output_in_tmp_path", "runtime"]


@pytest.fixture
def output_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a TrainerMon follow a static config, and write to the directory of the test."""
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))
    monkeypatch.setenv("DYNAMIC_MONITOR", "false")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the directory in which control sockets of this test open; their paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="sw") as directory:
        monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", directory)
        yield Path(directory)
