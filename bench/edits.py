"""Measure the delay of an edit until it is armed, by file or through the control socket, and the time of a swap.

The job is ``stepwatch rehearse``, one process. A saved file is replaced by rename, and its delay excludes the quiet
time in which the monitor waits for a second look at the same bytes. The job's step thread times the swap. After each
change the job watches the replaced file for five seconds; the pause keeps such files few.

    ./run bench edits
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from control_socket_client import UnixConnection, ask, socket_of  # noqa: E402

CONFIG = '{"dynamic_on": %s, "collect_times": %d, "wg_distribution": true, "ops": ["norm", "max"]}\n'
QUIET_TIME_MS = 100  # the default of Options::quiet_time
WAIT_SECONDS = 30


def text_of(count: int) -> str:
    """Return a config that differs for every count."""
    return CONFIG % ("true", 1_000_000 + count)


def apply(path: Path, text: str) -> float:
    """Apply a config on a new connection; return the milliseconds until it is armed."""
    begin = time.perf_counter()
    answer = json.loads(ask(path, "POST", "/v1/apply", text)[2])
    elapsed = (time.perf_counter() - begin) * 1e3
    if answer.get("taken") != "armed":
        raise SystemExit(f"not armed: {answer}")
    return elapsed


def follow_armed(path: Path, times: queue.SimpleQueue[float]) -> threading.Thread:
    """Put the time of each future ``armed`` event into the queue."""
    connection = UnixConnection(path)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()

    def read() -> None:
        try:
            for line in answer:
                if line.strip() == b"event: armed":
                    times.put(time.perf_counter())
        except (OSError, ValueError):
            return  # the job has ended

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def save(config: Path, text: str, times: queue.SimpleQueue[float]) -> float:
    """Replace the config by rename; return the milliseconds until it is armed, less the quiet time."""
    new = config.with_name("new")
    new.write_text(text)
    begin = time.perf_counter()
    new.rename(config)
    return (times.get(timeout=WAIT_SECONDS) - begin) * 1e3 - QUIET_TIME_MS


def swaps_of(path: Path) -> dict[str, float]:
    """Return the step thread's measurements of its swaps, in microseconds."""
    samples = {}
    for line in ask(path, "GET", "/metrics")[2].splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(("stepwatch_swap_seconds", "stepwatch_longest_swap")):
            samples[name.partition("{")[0]] = float(value)
    count = samples["stepwatch_swap_seconds_count"]
    return {
        "swaps": count,
        "mean_us": samples["stepwatch_swap_seconds_sum"] / count * 1e6,
        "max_us": samples["stepwatch_longest_swap_seconds"] * 1e6,
    }


def figures_of(times: list[float]) -> dict[str, float]:
    """Return the median, the 90 % quantile and the maximum of some milliseconds."""
    times = sorted(times)
    return {
        "edits": len(times),
        "median_ms": statistics.median(times),
        "p90_ms": times[int(len(times) * 0.9)],
        "max_ms": times[-1],
    }


@contextmanager
def job_of(program: str, step_time: str, config: Path, runtime: Path) -> Iterator[None]:
    """Keep a rehearsal running."""
    command = [program, "rehearse", str(config), "--dynamic", "--steps", "100000000", "--step-time", step_time]
    command += ["--out", str(config.parent / "out"), "--json"]
    environment = {**os.environ, "STEPWATCH_RUNTIME_DIR": str(runtime)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as job:
        try:
            yield
        finally:
            job.terminate()


def main() -> int:
    """Run the job, change its config both ways, print the times as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepwatch", default="build/bin/stepwatch", help="the program")
    parser.add_argument("--count", type=int, default=50, help="changes to time in each way")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two of them")
    parser.add_argument("--step-time", default="20ms", help="of the job")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        config = Path(name) / "config.json"
        runtime = Path(name) / "run"
        config.write_text(CONFIG % ("false", 1))
        with job_of(arguments.stepwatch, arguments.step_time, config, runtime):
            path = socket_of(runtime)
            apply(path, text_of(0))
            applied, saved = [], []
            for i in range(arguments.count):
                time.sleep(arguments.pause)
                applied.append(apply(path, text_of(1 + i)))
            armed: queue.SimpleQueue[float] = queue.SimpleQueue()
            follow_armed(path, armed)
            for i in range(arguments.count):
                time.sleep(arguments.pause)
                while not armed.empty():  # discards events of earlier edits
                    armed.get()
                saved.append(save(config, text_of(1 + arguments.count + i), armed))
            time.sleep(arguments.pause)
            swaps = swaps_of(path)
    shown = {
        "apply_to_armed": figures_of(applied),
        "saved_to_armed_beyond_quiet_time": figures_of(saved),
        "swap_on_step_thread": swaps,
    }
    print(json.dumps({key: {k: round(v, 2) for k, v in value.items()} for key, value in shown.items()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
