"""Demonstrate the main use: a small GPT trains, its config.json is edited during the run, rows appear in CSV files.

``./run demo`` builds and runs this; with ``--python`` the GPT is a Python program. All output is in ``demo_output/``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "demo_output"
CONFIG = OUTPUT / "config.json"
BUILD = ROOT / os.environ.get("STEPWATCH_BUILD", "build")
GPT = [str(BUILD / "bin/gpt")]
GPT_PYTHON = [sys.executable, str(ROOT / "examples/gpt.py")]

STEP_LINE = re.compile(r"^step\s+(\d+)\s.*?([\d.]+) ms\b")
MONITOR_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (\[stepwatch\]|\(\d+\)) ")
COST_LINE = re.compile(r"plan (\d+) drained: .*measuring took ([\d.]+) ms a collected step")

# Waiting threads must not spin: on a busy machine of two cores spinning makes a step ten times slower.
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY=os.environ.get("OMP_WAIT_POLICY", "PASSIVE"))

# Duration of the demo, and the minimum number of steps.
STORY_SECONDS = 30
STEPS_MIN, STEPS_MAX = 100, 1000

IDLE = """{
  // The demo edits this file while the GPT trains; the spaces and comments are yours and stay.
  "dynamic_on": false,   // <- the switch
  "targets": {},
  "ops": ["norm"]
}
"""

START = """{
  // First question: are the gradients of the attention layers healthy?
  "dynamic_on": true,
  "targets": {"layers.0.attention": {}, "layers.1.attention": {}},
  "wg_distribution": true,
  "step_interval": 2,
  "collect_times": 1000,
  "ops": ["norm", "mean", "max", "nans"]
}
"""

TYPO = """{
  // A deliberate slip of the finger:
  "dynamic_on": true,
  "targets": {"head": {}},
  "wg_distribution": yes,
  "ops": ["norm"]
}
"""

CHANGE = """{
  // Second question: what do the head's activations and the optimizer's moments look like?
  "dynamic_on": true,
  "targets": {"head": {}, "layers.1.mlp.0": {}},
  "xy_distribution": true,
  "param_distribution": true,
  "mv_distribution": true,
  "collect_times": 1000,
  "ops": ["norm", "min", "max", "zeros"]
}
"""

LAST = """{
  // Third question, three steps only: everything. The monitor switches itself off and puts false here:
  "dynamic_on": true,    /* <- this word, nothing else */
  "targets": {},
  "xy_distribution": true, "wg_distribution": true, "param_distribution": true, "mv_distribution": true,
  "mg_direction": true,
  "collect_times": 3,
  "ops": ["norm", "mean", "min", "max", "zeros", "nans"]
}
"""


class Screen:
    """Prints the story, in colour on a terminal."""

    def __init__(self) -> None:
        self._colour = sys.stdout.isatty() and os.environ.get("NO_COLOR") is None
        self._lock = threading.Lock()

    def _print(self, code: str, text: str) -> None:
        with self._lock:
            print(f"\033[{code}m{text}\033[0m" if self._colour else text, flush=True)

    def say(self, text: str) -> None:
        """Print an action of the demo."""
        self._print("1;36", f"\n>> {text}")

    def training(self, text: str) -> None:
        """Print a line of the training program."""
        self._print("0", f"   {text}")

    def monitor(self, text: str) -> None:
        """Print a line of the monitor."""
        bad = any(word in text for word in ("refused", "degraded", "error"))
        self._print("33" if bad else "32", f"   | {text}")


def save(text: str) -> None:
    """Save the config as careful editors do: a new file, renamed over the old one."""
    temporary = CONFIG.with_suffix(".json.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(CONFIG)


def command(gpt: list[str], steps: int, *more: str) -> list[str]:
    """Return the command line of the training program, which reads sources of this project and of Python."""
    library = Path(sysconfig.get_paths()["stdlib"])
    return [*gpt, "--steps", str(steps), "--text", str(ROOT / "src"), "--text", str(library), *more]


def steps_of_the_story(gpt: list[str]) -> int:
    """Return the number of steps that fill the demo on this machine, from a few steps without a monitor."""
    bare = command(gpt, 8, "--eval-every", "0")
    output = subprocess.run(bare, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
    times = [float(found[2]) for found in map(STEP_LINE.match, output.splitlines()) if found]
    return max(STEPS_MIN, min(STEPS_MAX, round(STORY_SECONDS / (statistics.median(times) / 1000))))


class Story:
    """Edits the config when training has reached certain steps."""

    def __init__(self, screen: Screen, steps: int) -> None:
        self._screen = screen
        unit = steps / 100
        self._chapters = [
            (int(12 * unit), "edit: start watching the gradients of the attention layers, every second step", START),
            (int(32 * unit), "edit: a typo (yes instead of true); training and the running plan go on", TYPO),
            (int(42 * unit), "edit: other statistics of other modules; the new plan replaces the old", CHANGE),
            (int(62 * unit), "edit: stop", START.replace('"dynamic_on": true', '"dynamic_on": false')),
            (int(75 * unit), "edit: everything, for three steps", LAST),
        ]

    def at_step(self, step: int) -> None:
        """Make the next edit if its step has come."""
        while self._chapters and step >= self._chapters[0][0]:
            _, text, config = self._chapters.pop(0)
            self._screen.say(f"step {step}: {text}")
            save(config)


def run_training(screen: Screen, gpt: list[str], steps: int) -> tuple[int, list[float], dict[int, float]]:
    """Run the training with its edits; return exit code, step times in ms, cost in ms by plan."""
    environment = dict(ENVIRONMENT, DYNAMIC_MONITOR="true", MONITOR_OUTPUT_DIR=str(OUTPUT / "monitor"))
    process = subprocess.Popen(
        command(gpt, steps, "--config", str(CONFIG)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    story, times, costs = Story(screen, steps), [], {}
    shown_every = max(1, steps // 30)
    for line in process.stdout:
        line = line.rstrip("\n")
        found = STEP_LINE.match(line)
        if not found:
            cost = COST_LINE.search(line)
            if cost:
                costs[int(cost[1])] = float(cost[2])
            (screen.monitor if MONITOR_LINE.search(line) else screen.training)(line.replace("[stepwatch] ", ""))
            continue
        step = int(found[1])
        times.append(float(found[2]))
        if step % shown_every == 0:
            screen.training(line)
        story.at_step(step)
    return process.wait(), times, costs


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def show_last_step(screen: Screen, directory: Path) -> None:
    """Print the collected statistics of the last collected step."""
    files = {path: list(rows_of(path)) for path in sorted(directory.glob("*_*-*.csv"))}
    last = max(int(row["step"]) for rows in files.values() for row in rows)
    screen.say(f"collected at step {last} (three rows of each kind):")
    columns = ("norm", "mean", "min", "max", "zeros", "nans")
    print(f"   {'kind':<15}{'name':<32}" + "".join(f"{column:>13}" for column in columns))
    for path, rows in files.items():
        for row in [row for row in rows if int(row["step"]) == last][:3]:
            kind = re.sub(r"_\d+-\d+.*", "", path.name)
            cells = "".join(f"{shorten(row.get(column, '')):>13}" for column in columns)
            print(f"   {kind:<15}{row['name']:<32}{cells}")


def shorten(number: str) -> str:
    """Return a number with five significant digits."""
    return f"{float(number):.5g}" if number else ""


def show_plans(screen: Screen, directory: Path) -> None:
    """Print the ledger of every plan from manifest.json."""
    screen.say("the plans, from manifest.json:")
    for plan in json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["plans"]:
        ledger = plan.get("ledger", {})
        dropped = sum(ledger.get("dropped", {}).values())
        print(
            f"   plan {plan['plan']}: steps {plan.get('first_step')} to {plan.get('last_step')}, "
            f"{plan['collected']} collected, {ledger.get('produced')} rows produced = "
            f"{ledger.get('written')} written + {dropped} dropped; {plan.get('end_reason', '')}"
        )


def main() -> int:
    """Run the story; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=0, help="training steps (default: as many as take 30 seconds)")
    parser.add_argument("--python", action="store_true", help="train with examples/gpt.py")
    options = parser.parse_args()
    gpt, steps = GPT_PYTHON if options.python else GPT, options.steps

    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    save(IDLE)
    screen = Screen()
    if steps == 0:
        screen.say("a few steps without a monitor, to see how fast this machine is")
        steps = steps_of_the_story(gpt)
    screen.say(f"{steps} training steps begin; the monitor is attached and idle (dynamic_on is false)")
    code, times, costs = run_training(screen, gpt, steps)
    if code != 0:
        screen.say(f"the training program ended with exit code {code}")
        return code

    directory = next((OUTPUT / "monitor").glob("*-rank0-*"))
    show_plans(screen, directory)
    show_last_step(screen, directory)
    step_ms = statistics.median(times)
    screen.say(f"what it cost: a step takes {step_ms:.1f} ms (median); on each collected step the monitor took")
    for plan, cost in sorted(costs.items()):
        print(f"   plan {plan}: {cost:.2f} ms, {100 * cost / step_ms:.2f} % of a step")
    screen.say("the config file now (the monitor changed one word of the last edit):")
    print(CONFIG.read_text(encoding="utf-8"))
    print(f"   rows:     {directory.relative_to(ROOT)}/")
    print(f"   config:   {CONFIG.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
