"""Measure the changes that ``stepwatchd replay`` finds at each noise level, their delays, and its false alarms.

    ./run bench noise [--runs 20] [--seed 0] [--only KIND]

Each cell is the median delay, in samples from the onset, over the runs in which the change was found; the share of
these runs is in brackets, unless it is 1. The last row of each kind is the number of incidents of any kind per million
samples of runs without a change. Noise is the standard deviation of a sample, as a fraction of the level.
Exit status 1: an incident was reported in a run without a change.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ONSET = 1500
STEPS = 3000
RAMP_STEPS = 500
Beats = Iterator[list[dict[str, Any]]]


def ramp(step: int) -> float:
    """Return the fraction of a gradual change after a step."""
    return min(1.0, max(0.0, (step - ONSET) / RAMP_STEPS))


def jump(step: int) -> float:
    """Return the fraction of an instant change after a step."""
    return float(step > ONSET)


def burst(step: int) -> float:
    """Return the fraction of a change that lasts for six steps, after a step."""
    return float(ONSET < step <= ONSET + 6)


@dataclass(frozen=True)
class Kind:
    """The kind of change in the runs of one table.

    Attributes
    ----------
    name : str
        The kind of incident, and the form of the change.
    reported : tuple of str
        The kinds of incident that count as a detection.
    heights : tuple of float
        Factors of the change.
    noises : tuple of float
        Standard deviations of a sample, as a fraction of the level.
    beats : callable
        Called with random numbers, a height and a noise; yields the beats of all ranks by step, seconds as ``dt``.
    """

    name: str
    reported: tuple[str, ...]
    heights: tuple[float, ...]
    noises: tuple[float, ...]
    beats: Callable[[random.Random, float, float], Beats]


def losses(change: Callable[[int], float], two_kinds: bool = False) -> Callable[[random.Random, float, float], Beats]:
    """Return runs whose loss changes."""

    def beats(draw: random.Random, height: float, noise: float) -> Beats:
        for step in range(1, STEPS + 1):
            level = (2 + 6 / (1 + step / 100)) * (1 + (height - 1) * change(step))
            # Batches of two kinds in turn, with a difference as large as the noise.
            error = noise * (1 if step % 2 else -1) * draw.gauss(1, 0.1) if two_kinds else draw.gauss(0, noise)
            yield [{"dt": 1.0, "loss": round(level * (1 + error), 5)}]

    return beats


def norms(draw: random.Random, height: float, noise: float) -> Beats:
    """Return a run whose gradient norm jumps permanently; its noise is log-normal."""
    for step in range(1, STEPS + 1):
        level = 0.8 * (1 + (height - 1) * jump(step))
        yield [{"dt": 1.0, "loss": 2.0 + draw.gauss(0, 0.02), "grad_norm": level * math.exp(draw.gauss(0, noise))}]


def paces(draw: random.Random, height: float, noise: float) -> Beats:
    """Return a run whose steps take longer."""
    for step in range(1, STEPS + 1):
        seconds = (1 + (height - 1) * jump(step)) * max(0.2, 1 + draw.gauss(0, noise))
        yield [{"dt": seconds, "tokens": 4096}]


def stragglers(draw: random.Random, height: float, noise: float) -> Beats:
    """Return a run of eight ranks, of which one needs longer for its part of each step."""
    for step in range(1, STEPS // 2 + 1 + ONSET // 2):
        own = [max(0.2, 1 + draw.gauss(0, noise)) for _ in range(8)]
        own[3] *= 1 + (height - 1) * jump(step)
        yield [{"dt": max(own) if rank == 0 else 0.0, "step_seconds": round(own[rank], 4)} for rank in range(8)]


RISES = ("divergence", "loss_spike")
HEIGHTS = (1.3, 1.5, 2.0, 3.0)
NOISES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45)
KINDS = (
    Kind("divergence, within 500 samples", RISES, HEIGHTS, NOISES, losses(ramp)),
    Kind("divergence, at once and for good", RISES, HEIGHTS, NOISES, losses(jump)),
    Kind("divergence, batches of two kinds", RISES, (1.5, 2.0), (0.2, 0.3, 0.5), losses(ramp, two_kinds=True)),
    Kind("loss_spike, of six samples", ("loss_spike",), (1.5, 2.0, 4.0, 8.0), NOISES, losses(burst)),
    Kind("grad_explosion", ("grad_explosion",), (10.0, 20.0, 40.0), (0.1, 0.3, 0.6), norms),
    Kind("throughput_drop", ("throughput_drop",), (1.2, 1.3, 1.5, 2.0), (0.01, 0.05, 0.1, 0.2), paces),
    Kind("straggler, one rank of eight", ("straggler",), (1.2, 1.3, 1.6, 2.0), (0.01, 0.05, 0.1, 0.2), stragglers),
)


def write(path: Path, beats: Beats) -> list[float]:
    """Write a run to a file; return the end time of each step."""
    ends = []
    now = 1_700_000_000.0
    with path.open("w", encoding="utf-8") as file:
        for step, ranks in enumerate(beats, start=1):
            if step == 1:
                event = {"kind": "start", "world": len(ranks), "host": "a"}
                file.write(json.dumps({"t": now, "run": "r", "event": event}) + "\n")
            for rank, values in enumerate(ranks):
                now += values.pop("dt")
                beat = {"step": step, "phase": "train", **values}
                file.write(json.dumps({"t": round(now, 3), "run": "r", "rank": rank, "beat": beat}) + "\n")
            ends.append(now)
    return ends


def incidents_of(
    program: Path, kind: Kind, height: float, noise: float, seed: str
) -> tuple[list[tuple[int, str]], int]:
    """Return the step and kind of each incident of one run, and the number of steps."""
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch) / "run.jsonl"
        ends = write(trace, kind.beats(random.Random(seed), height, noise))
        command = [str(program), "replay", str(trace), "--tail", "0", "--json"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    changes = [json.loads(line) for line in lines]
    opened = [(change["t"], change["incident"]) for change in changes if change["state"] == "opened"]
    return [(sum(end <= t for end in ends), what) for t, what in opened], len(ends)


def cell(incidents: Sequence[list[tuple[int, str]]], kind: Kind) -> str:
    """Return the median delay, and the share of runs in which the change was found."""
    delays = []
    for run in incidents:
        found = [step - ONSET for step, what in run if step > ONSET and what in kind.reported]
        delays += found[:1]
    if not delays:
        return "-"
    delay = f"{statistics.median(delays):.0f}"
    return delay if len(delays) == len(incidents) else f"{delay} ({len(delays) / len(incidents):.2f})"


def table(program: Path, kind: Kind, runs: int, seed: int, pool: ThreadPoolExecutor) -> tuple[str, int]:
    """Return one table as Markdown, and the number of incidents in runs without a change."""
    rows = [f"| {kind.name} | " + " | ".join(f"noise {noise:g}" for noise in kind.noises) + " |"]
    rows.append("|---" * (len(kind.noises) + 1) + "|")
    alarms = 0
    for height in (*kind.heights, 1.0):
        cells = []
        for noise in kind.noises:
            seeds = [f"{seed}/{kind.name}/{height}/{noise}/{run}" for run in range(runs)]
            results = list(pool.map(lambda each: incidents_of(program, kind, height, noise, each), seeds))  # noqa: B023
            incidents = [changes for changes, _ in results]
            if height != 1:
                cells.append(cell(incidents, kind))
                continue
            count = sum(len(changes) for changes in incidents)
            alarms += count
            cells.append(f"{1e6 * count / sum(steps for _, steps in results):.0f}")
        first = f"{height:g} times" if height != 1 else "false alarms in a million samples"
        rows.append(f"| {first} | " + " | ".join(cells) + " |")
    return "\n".join(rows), alarms


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each kind; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stepwatchd", type=Path)
    parser.add_argument("--runs", type=int, default=20, help="of each cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only kinds whose name contains this")
    chosen = parser.parse_args(arguments)
    alarms = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for kind in KINDS:
            if chosen.only not in kind.name:
                continue
            text, count = table(chosen.stepwatchd, kind, chosen.runs, chosen.seed, pool)
            print(text + "\n", flush=True)
            alarms += count
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
