"""Test wheels without any file of this machine: a fresh Debian root with Python, without compiler and network.

The root is made once, by debootstrap, in build/wheel/root. Each wheel is installed and tested in it (smoke.py) by the
Python it was built for, which is mounted; that for 3.11 by Debian's own Python. Most are also tested with torch.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from wheel_build.interpreters import Interpreter

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build/wheel"
ROOT = BUILD / "root"
SUITE = "bookworm"
TORCHES = {"2.1": ["torch==2.1.*", "numpy<2"], "2.13": ["torch==2.13.*", "numpy"]}
# The torch versions tested with each wheel; torch 2.13 has no build for Python 3.9, and 2.1 none for 3.12.
BESIDE = {"cp39": ["2.1"], "cp311": ["2.1", "2.13"], "cp312": ["2.13"]}
ABSENT = ("gcc", "g++", "cc", "cmake", "libhwy", "libspdlog", "libfmt", "libre2", "libprotobuf", "libpng")


def make_root() -> None:
    """Make the root, unless it exists."""
    if (ROOT / "made").exists():
        return
    for tool in ("debootstrap", "unshare", "chroot"):
        if shutil.which(tool) is None:
            sys.exit(f"wheel: {tool} is missing")
    print("wheel: making a fresh root", flush=True)
    if ROOT.exists():
        shutil.rmtree(ROOT)
    command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", SUITE, str(ROOT)]
    with open(BUILD / "root.log", "w") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"wheel: debootstrap failed; see {log.name}")
    (ROOT / "made").touch()


def strangers(root: Path) -> list[str]:
    """Return files in the root that would weaken the test: a compiler, libraries that a wheel contains."""
    files = [*root.glob("usr/bin/*"), *root.glob("usr/lib/x86_64-linux-gnu/*.so*")]
    return sorted(file.name for file in files if file.name in ABSENT or file.name.split(".so")[0] in ABSENT)


def torch_folder(version: str, python: Interpreter) -> Path:
    """Return a folder with this torch, installed by pip on first use."""
    folder = BUILD / f"torch-{version}-{python.tag}"
    if not (folder / "made").exists():
        print(f"wheel: installing torch {version}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        pip = [str(python.path), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--target", str(folder), *TORCHES[version]], check=True)
        (folder / "made").touch()
    return folder


def script(mounts: dict[str, Path], inside: str) -> str:
    """Return the shell commands to run in separate namespaces: mount, change the root, and run."""
    lines = ["set -e", f"mount -t proc proc {ROOT}/proc", f"mount --rbind /dev {ROOT}/dev"]
    lines.append(f"mount -t tmpfs tmpfs {ROOT}/tmp")
    for place, source in mounts.items():
        at = shlex.quote(f"{ROOT}{place}")
        lines.append(f"mkdir -p {at}; mount --bind {shlex.quote(str(source))} {at}; mount -o remount,ro,bind {at}")
    environment = "HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PATH=/usr/bin:/bin"
    lines.append(f"exec chroot {ROOT} /usr/bin/env -i {environment} /bin/sh -ec {shlex.quote(inside)}")
    return "\n".join(lines)


def try_one(python: Interpreter, wheel: Path, torch: str | None) -> bool:
    """Install a wheel in the root and run the smoke test; return whether it passed."""
    mounts = {"/opt/dist": wheel.parent, "/opt/smoke": HERE}
    program = "/usr/bin/python3"
    if python.tag != "cp311":
        mounts[str(python.base)] = python.base
        program = f"{python.base}/bin/python{python.version[0]}.{python.version[1]}"
    inside = [f"{program} -m venv /tmp/venv", f"/tmp/venv/bin/pip install -q --no-index /opt/dist/{wheel.name}"]
    if torch is not None:
        mounts["/opt/torch"] = torch_folder(torch, python)
        inside.append("echo /opt/torch > $(echo /tmp/venv/lib/python3.*/site-packages)/torch.pth")
    inside.append(f"/tmp/venv/bin/python -B /opt/smoke/smoke.py {torch or ''}")
    print(f"wheel: trying {wheel.name} " + (f"beside torch {torch}" if torch else "alone"), flush=True)
    namespaces = ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child"]
    return subprocess.run([*namespaces, "sh", "-c", script(mounts, "\n".join(inside))], check=False).returncode == 0


def check(wheels: dict[Interpreter, Path]) -> list[str]:
    """Test all wheels; return those that failed."""
    if os.geteuid() != 0:
        sys.exit("wheel: --check changes the root, which root alone may; run it as root")
    make_root()
    if found := strangers(ROOT):
        sys.exit(f"wheel: {ROOT} has {', '.join(found)}; remove it, and it is made again")
    bad = []
    for python, wheel in wheels.items():
        torches = [None, *BESIDE.get(python.tag, [])]
        bad += [f"{wheel.name} ({torch or 'alone'})" for torch in torches if not try_one(python, wheel, torch)]
    return bad
