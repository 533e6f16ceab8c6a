"""Tests on a device of our own run in processes of their own: with it, torch takes it for that of the whole process."""

from __future__ import annotations

from pathlib import Path

import pytest

import python_programs

pytest.importorskip("stepwatch", reason="the Python package is not installed")

HERE = Path(__file__).parent
FILES = sorted(path.name for path in HERE.glob("*_cases.py"))


@pytest.mark.parametrize("file", FILES)
def test_all_cases_of_a_file_pass(file: str, tmp_path: Path) -> None:
    unneeded = ["-p", "no:cacheprovider", "-p", "no:schemathesis"]
    options = ["-q", *unneeded, "--basetemp", str(tmp_path / "cases")]
    done = python_programs.run(["-m", "pytest", *options, file], cwd=HERE)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_there_are_files_of_cases() -> None:
    names = ("device_callers", "device_collectives", "device_moments", "late_reports", "other_devices")
    assert FILES == [f"{name}_cases.py" for name in names]
