"""Install msProbe in a separate folder, for comparison only: it is never a dependency of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "build/peers"
# msProbe and those imports of its TrainerMon that the checkout's .venv lacks. Without their dependencies: torch, numpy,
# pandas and tensorboard are shared with Stepwatch, and the rest of its list is not imported.
PINNED = (
    "mindstudio-probe==26.2.0",
    "cycler==0.12.1",
    "einops==0.8.2",
    "fonttools==4.68.0",
    "kiwisolver==1.5.1",
    "matplotlib==3.11.2",
    "pyparsing==3.3.3",
    "pytz==2026.6",
    "pyyaml==6.0.3",
    "tqdm==4.70.1",
)


def environment() -> dict[str, str]:
    """Return the environment of a process that imports msProbe."""
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *([path] if path else [])])}


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr + done.stdout).strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {done.returncode}"


def _run(*arguments: str) -> str:
    """Run Python; return "" or an error description."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment())
    return "" if done.returncode == 0 else _last_line(done)


def install() -> str:
    """Install msProbe unless it is installed.

    Returns
    -------
    str
        "", or one line with the reason why it cannot be measured.
    """
    marker = FOLDER / "installed.txt"
    wanted = "\n".join(PINNED) + "\n"
    if marker.exists() and marker.read_text() == wanted:
        return ""
    print(f"installing {PINNED[0]} and {len(PINNED) - 1} packages that it imports into {FOLDER}", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", str(FOLDER))
    failed = _run(*pip, *PINNED)
    if failed:
        return f"msprobe is left out, because it could not be installed: {failed}"
    failed = _run("-c", "from msprobe.pytorch import TrainerMon")
    if failed:
        return f"msprobe is left out, because it could not be imported: {failed}"
    marker.write_text(wanted)
    return ""
