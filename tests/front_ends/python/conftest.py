from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def output_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a TrainerMon follow a static config, and write to the directory of the test."""
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))
    monkeypatch.setenv("DYNAMIC_MONITOR", "false")
