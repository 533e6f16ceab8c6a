"""A build from source names in one line the packages that it misses."""

from __future__ import annotations

import subprocess
from pathlib import Path

DEPENDENCIES = Path(__file__).resolve().parents[2] / "cmake/dependencies.cmake"


def complaint(folder: Path, *options: str) -> str:
    """Return the line that CMake stops with."""
    lists = f'cmake_minimum_required(VERSION 3.25)\nproject(some LANGUAGES NONE)\ninclude("{DEPENDENCIES}")\n'
    (folder / "CMakeLists.txt").write_text(lists)
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "apt-get install" in line]
    return line


def test_packages_that_are_missing_are_named_in_the_line_that_installs_them(tmp_path: Path) -> None:
    without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("Python", "fmt", "spdlog", "PNG")]
    line = complaint(tmp_path, "-DSTEPWATCH_PYTHON=ON", *without)
    assert "apt-get install python3-dev libfmt-dev libspdlog-dev libpng-dev " in line
    assert "wheel" in line


def test_without_a_compiler_the_same_line_names_it_and_all_that_is_looked_for_with_it(tmp_path: Path) -> None:
    line = complaint(tmp_path, "-DSTEPWATCH_PYTHON=ON", "-DCMAKE_CXX_COMPILER=NOTFOUND")
    named = line.split("apt-get install ")[1].split(" (")[0].split()
    assert named[:2] == ["g++", "python3-dev"]
    assert {"libboost1.81-dev", "libfmt-dev", "libprotobuf-dev", "protobuf-compiler", "nlohmann-json3-dev"} < set(named)
