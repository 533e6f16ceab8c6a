"""A stepwatchd built with ThreadSanitizer (STEPWATCH_STEPWATCHD) fails each test in which it finds a race."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def race_reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the report directory of all processes with ThreadSanitizer, including killed ones."""
    directory = tmp_path_factory.mktemp("races")
    before = os.environ.get("TSAN_OPTIONS")
    os.environ["TSAN_OPTIONS"] = f"{before or ''} log_path={directory}/report"
    yield directory
    fail_for_reports(directory)
    if before is None:
        del os.environ["TSAN_OPTIONS"]
    else:
        os.environ["TSAN_OPTIONS"] = before


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the control sockets of the test's own jobs."""
    path = tmp_path / "r"
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(path))
    return path


@pytest.fixture(autouse=True)
def without_races(race_reports: Path) -> Iterator[None]:
    yield
    fail_for_reports(race_reports)


def fail_for_reports(directory: Path) -> None:
    """Fail if there are reports, and remove them, so that later tests do not fail because of them."""
    texts = []
    for path in sorted(directory.glob("report.*")):
        texts.append(path.read_text(errors="replace"))
        path.unlink()
    assert not any(text.strip() for text in texts), "\n".join(texts)
