"""A build from source says in one line what it misses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

DEPENDENCIES = Path(__file__).resolve().parents[2] / "cmake/dependencies.cmake"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake here")
def test_packages_that_are_missing_are_named_in_the_line_that_installs_them(tmp_path: Path) -> None:
    lists = f'cmake_minimum_required(VERSION 3.25)\nproject(some LANGUAGES CXX)\ninclude("{DEPENDENCIES}")\n'
    (tmp_path / "CMakeLists.txt").write_text(lists)
    without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("fmt", "spdlog", "PNG")]
    command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), *without]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "apt-get install" in line]
    assert "libfmt-dev libspdlog-dev libpng-dev" in line
    assert "wheel" in line
