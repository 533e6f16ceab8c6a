"""The virtual environments that wheels are built in are made when they are needed, and only then."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from wheel_build.__main__ import environment

PYTHON = Path("/usr/bin/python3.9")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make folders where a program would make environments; return which were asked for."""
    homes: list[str] = []

    def run(command: list[str], *, check: bool) -> None:
        assert check
        if "venv" in command:
            Path(command[-1]).mkdir(exist_ok=True)
            homes.append(command[-1])

    monkeypatch.setattr(subprocess, "run", run)
    return homes


def test_an_environment_is_made_once(tmp_path: Path, made: list[str]) -> None:
    """The second wheel takes the environment of the first."""
    for _ in range(2):
        assert environment(tmp_path / "home", PYTHON, ["nanobind"]) == tmp_path / "home/bin"
    assert made == [str(tmp_path / "home")]


def test_an_environment_is_made_anew_for_other_packages_and_for_another_python(tmp_path: Path, made: list[str]) -> None:
    """The installed versions are the pinned ones."""
    environment(tmp_path / "home", PYTHON, ["nanobind"])
    environment(tmp_path / "home", PYTHON, ["nanobind", "cmake"])
    environment(tmp_path / "home", Path("/usr/bin/python3.10"), ["nanobind", "cmake"])
    assert len(made) == 3


def test_an_environment_is_made_anew_where_the_checkout_was_moved(tmp_path: Path, made: list[str]) -> None:
    """Its programs begin with the path of its own Python, which is no more."""
    environment(tmp_path / "home", PYTHON, ["nanobind"])
    (tmp_path / "home").rename(tmp_path / "moved")
    environment(tmp_path / "moved", PYTHON, ["nanobind"])
    assert made == [str(tmp_path / "home"), str(tmp_path / "moved")]
