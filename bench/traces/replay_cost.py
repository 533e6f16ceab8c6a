"""Measure the cost of a replay of many ranks: processor time and memory, for two lengths of the run.

    python3 bench/traces/replay_cost.py build/bin/stepwatchd --ranks 10000 --seconds 300

Each rank sends a beat per second with loss, gradient norm, learning rate and its own step time. The two runs, of half
and of full length, would show memory that grows with time.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import tempfile
from pathlib import Path


def write_run(path: Path, ranks: int, seconds: int) -> int:
    """Write a healthy run with steps of two seconds, and return its number of lines."""
    draw = random.Random(1)
    wobble = [f"{0.01 * draw.random():.6f}"[1:] for _ in range(997)]
    lines = 1
    with path.open("w", encoding="utf-8") as out:
        out.write(f'{{"t":0,"run":"r","event":{{"kind":"start","world":{ranks}}}}}\n')
        for second in range(1, seconds + 1):
            for rank in range(ranks):
                step = (second + rank % 2) // 2
                part = wobble[(7 * step + rank) % 997]
                out.write(
                    f'{{"t":{second + rank / ranks:.4f},"run":"r","rank":{rank},"beat":{{"step":{step},"phase":"train",'
                    f'"loss":2{part},"grad_norm":1{part},"lr":0.0001,"step_seconds":1{part}}}}}\n'
                )
                lines += 1
    return lines


def cost_of(program: Path, trace: Path) -> tuple[float, float, int]:
    """Return processor seconds, peak memory in MB, and the incidents of a replay."""
    with subprocess.Popen([str(program), "replay", str(trace), "--json", "--tail", "0"], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        incidents = sum(b'"opened"' in line for line in run.stdout)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode != 0:
        raise SystemExit(f"{program} replay ended with {run.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, incidents


def main() -> None:
    """Replay two lengths of one run and print their costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stepwatchd", type=Path)
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=300)
    chosen = parser.parse_args()
    print("| ranks | seconds | lines | processor seconds a second | memory | incidents |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for seconds in (chosen.seconds // 2, chosen.seconds):
            trace = Path(scratch) / f"{seconds}.jsonl"
            lines = write_run(trace, chosen.ranks, seconds)
            processor, memory, incidents = cost_of(chosen.stepwatchd, trace)
            share = processor / seconds
            print(f"| {chosen.ranks} | {seconds} | {lines} | {share:.3f} | {memory:.0f} MB | {incidents} |")


if __name__ == "__main__":
    main()
