"""Time a change through the door of a running job: from connecting for ``POST /v1/apply`` to the answer ``armed``.

The job is ``stepwatch rehearse``. After each change it looks after the replaced file for five seconds; the pause
keeps those few. Prints one JSON object with milliseconds.

    python3 bench/apply_latency.py --stepwatch build/bin/stepwatch
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from door_client import ask, socket_of  # noqa: E402

CONFIG = '{"dynamic_on": %s, "collect_times": 1000000, "wg_distribution": true, "ops": ["norm", "max"]}\n'


def apply(path: Path, text: str) -> float:
    """Apply a config on a connection of its own; return the milliseconds until it is armed."""
    begin = time.perf_counter()
    answer = json.loads(ask(path, "POST", "/v1/apply", text)[2])
    elapsed = (time.perf_counter() - begin) * 1e3
    if answer.get("taken") != "armed":
        raise SystemExit(f"not armed: {answer}")
    return elapsed


def main() -> int:
    """Run the job, apply configs, print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stepwatch", default="build/bin/stepwatch", help="the program")
    parser.add_argument("--count", type=int, default=50, help="changes to time")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two of them")
    parser.add_argument("--step-time", default="20ms", help="of the job")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        runtime = directory / "run"
        config = directory / "config.json"
        config.write_text(CONFIG % "false")
        command = [arguments.stepwatch, "rehearse", str(config), "--dynamic", "--steps", "100000000"]
        command += ["--step-time", arguments.step_time, "--out", str(directory / "out"), "--json"]
        environment = {**os.environ, "STEPWATCH_RUNTIME_DIR": str(runtime)}
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as job:
            path = socket_of(runtime)
            texts = [(CONFIG % "true").replace("1000000", str(1000000 + i)) for i in range(arguments.count + 1)]
            apply(path, texts[0])
            times = []
            for text in texts[1:]:
                time.sleep(arguments.pause)
                times.append(apply(path, text))
            times.sort()
            job.terminate()
    figures = {"changes": len(times), "median_ms": statistics.median(times), "max_ms": times[-1]}
    figures["p90_ms"] = times[int(len(times) * 0.9)]
    print(json.dumps({key: round(value, 2) for key, value in figures.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
