"""The ranks of a job without a monitor: it prints what trainers print, into a log file for each rank.

Usage: job.py DIRECTORY STEPS FAULT STEP. `FAULT` begins with that step of rank 1: `nan`, `exception`, `hang`, `slow` or
`none`. It needs no framework: the demo is about lines.
"""

from __future__ import annotations

import math
import random
import sys
import threading
import time
import traceback
from datetime import datetime
from pathlib import Path
from typing import TextIO

WORLD = 4
CULPRIT = 1
STEP_SECONDS = 0.15
SLOW = 1.6


def run_rank(rank: int, directory: Path, steps: int, fault: str, at: int, together: threading.Barrier) -> None:
    """Train one rank: after its line it waits for the others, as in the all-reduce of the next step."""
    dice = random.Random(rank)
    with (directory / f"rank_{rank}.log").open("a", buffering=1, encoding="utf-8") as log:
        for step in range(1, steps + 1):
            is_ill = rank == CULPRIT and step >= at
            own = STEP_SECONDS * (SLOW if is_ill and fault == "slow" else 1) * dice.uniform(0.97, 1.03)
            time.sleep(own)
            if is_ill and fault == "hang":
                threading.Event().wait()
            if is_ill and fault == "exception":
                report_exception(log)
                together.abort()
                return
            loss = 2 + 3 * math.exp(-step / 40) + dice.uniform(-0.02, 0.02)
            if is_ill and fault == "nan":
                loss = math.nan
            stamp = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
            log.write(f"{stamp} INFO Step {step}: loss={loss:.4f}, grad_norm=1.02, lr=3e-4, step_seconds={own:.4f}\n")
            try:
                together.wait()
            except threading.BrokenBarrierError:
                return


def report_exception(log: TextIO) -> None:
    """Print a traceback, as Python does before it exits."""
    try:
        raise ValueError("sequence 17 of the batch has 4097 tokens; the model accepts 4096")
    except ValueError:
        log.write(traceback.format_exc())


def main() -> None:
    """Run all ranks as threads of this process, which holds their logs open like a launcher."""
    directory, steps, fault, at = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    directory.mkdir(parents=True)
    together = threading.Barrier(WORLD)
    ranks = [
        threading.Thread(target=run_rank, args=(rank, directory, steps, fault, at, together)) for rank in range(WORLD)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
