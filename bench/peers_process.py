"""Control a worker process of bench/peers.py: its config, its answers, its output."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers_install

WORKER = Path(__file__).resolve().parent / "peers_worker.py"
SWITCHES = {"wg": "wg_distribution", "mv": "mv_distribution", "param": "param_distribution", "xy": "xy_distribution"}
GROUPS = ("off", "idle", *SWITCHES, "all")
OPS = {"norm": ["norm"], "six": ["norm", "mean", "min", "max", "zeros", "nans"]}
IMPLEMENTATIONS = ("stepwatch", "msprobe")
NEVER_DUE = 1_000_000


def config_of(group: str, ops: str, switched: bool) -> dict[str, Any]:
    """Return the config of a group; a group that is switched between blocks starts switched off."""
    wanted = {"off": [], "idle": list(SWITCHES), "all": list(SWITCHES)}.get(group, [group])
    config: dict[str, Any] = {"targets": {}, "ops": OPS[ops], **{SWITCHES[name]: True for name in wanted}}
    config["step_interval"] = NEVER_DUE if group == "idle" else 1
    if "xy" in wanted:
        config["all_xy"] = True
    if switched or group == "off":
        config["dynamic_on"] = False
    return config


class Process:
    """A worker, its answers and its blocks.

    Parameters
    ----------
    name : str
        "bare", "noise" or an implementation.
    group : str
        The group of tensors.
    options : argparse.Namespace
    folder : Path
        For its config, its output and its log.
    """

    def __init__(self, name: str, group: str, options: argparse.Namespace, folder: Path) -> None:
        self.name = name
        self.blocks: list[dict[str, float]] = []
        self.facts: dict[str, Any] = {}
        self.failure = ""
        self.folder = folder / f"{group}_{name}"
        self.folder.mkdir()
        self.output = self.folder / "output"
        package = name if name in IMPLEMENTATIONS else None
        switched = package == "stepwatch" and group not in ("off", "idle")
        config = self.folder / "config.json"
        config.write_text(json.dumps(config_of(group, options.ops, switched)))
        spec = {"model": options.model, "package": package, "switched": switched, "config": str(config)}
        environment = peers_install.environment() if package == "msprobe" else dict(os.environ)
        environment["DYNAMIC_MONITOR"] = str(switched or group == "off")
        environment["MONITOR_OUTPUT_DIR"] = str(self.output)
        environment["OMP_NUM_THREADS"] = "1"
        reader, writer = os.pipe()
        with open(self.folder / "log.txt", "w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER), str(writer), json.dumps(spec)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[writer],
                cwd=self.folder,
                env=environment,
                text=True,
            )
        os.close(writer)
        self._answers = os.fdopen(reader)

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer; return {} if the worker has ended."""
        line = self._answers.readline()
        if line:
            return json.loads(line)
        lines = (self.folder / "log.txt").read_text(errors="replace").strip().splitlines()
        self.failure = f"ended with exit code {self._process.wait()}: {lines[-1] if lines else 'without a word'}"
        return {}

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        if self.failure:
            return {}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the answer contains the cause
        return self.answer()

    def end(self) -> None:
        """Make the worker close its monitor and end."""
        self.facts.update(self.ask(do="end"))
        self.kill()

    def kill(self) -> None:
        """Kill the worker if it is still running."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(60 if not self.failure else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def rows_a_step(self) -> float:
        """Count the rows that were written for a collected step."""
        files = list(self.output.rglob("*_[0-9]*-[0-9]*.csv"))
        steps = {file.stem.rpartition("_")[2] for file in files}
        rows = sum(file.read_bytes().count(b"\n") - 1 for file in files)
        return rows / len(steps) if steps else 0.0
