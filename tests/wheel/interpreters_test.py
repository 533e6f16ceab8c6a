"""Which interpreters wheels are built with, of those that are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wheel_build import interpreters
from wheel_build.interpreters import Interpreter


def one(*version: int, path: str = "python") -> Interpreter:
    major, minor, patch = version
    return Interpreter(Path(path), (major, minor, patch), Path("/usr"))


def test_each_version_below_3_12_has_a_wheel_and_all_later_ones_share_one() -> None:
    found = [one(3, 13, 0), one(3, 9, 18), one(3, 12, 1), one(3, 11, 7), one(3, 10, 13), one(3, 14, 0)]
    chosen = interpreters.choose(found)
    assert [each.tag for each in chosen] == ["cp39", "cp310", "cp311", "cp312"]
    assert chosen[-1].version == (3, 12, 1), "the stable ABI is that of the earliest headers"


def test_a_later_python_alone_gives_the_wheel_for_3_12_and_later() -> None:
    (chosen,) = interpreters.choose([one(3, 13, 0)])
    assert chosen.is_abi3 and chosen.tag == "cp312"


def test_pythons_that_are_too_old_are_left_out() -> None:
    assert interpreters.choose([one(3, 8, 18), one(2, 7, 18)]) == []


def test_of_one_version_the_latest_patch_is_taken_and_of_equal_ones_the_first() -> None:
    found = [one(3, 11, 2, path="old"), one(3, 11, 7, path="first"), one(3, 11, 7, path="second")]
    (chosen,) = interpreters.choose(found)
    assert chosen.path == Path("first")


def test_an_interpreter_is_asked_what_it_is(tmp_path: Path) -> None:
    answer = interpreters.ask(Path(sys.executable))
    assert answer is None or answer.version == sys.version_info[:3]
    assert interpreters.ask(tmp_path / "missing") is None
    stub = tmp_path / "python3.11"
    stub.write_text("#!/bin/sh\nexit 127\n")  # as a shim of pyenv for a version that is not chosen
    stub.chmod(0o755)
    assert interpreters.ask(stub) is None


def test_they_are_looked_for_in_path_and_in_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bin/python3.11", "bin/python3.11-config", "pyenv/versions/3.12.1/bin/python3"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    found = [str(path.relative_to(tmp_path)) for path in interpreters.candidates()]
    assert found == ["bin/python3.11", "pyenv/versions/3.12.1/bin/python3"]
