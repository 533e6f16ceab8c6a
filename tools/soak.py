"""Run the long forms of all random or rare tests in turn, with new seeds, on a machine that is kept busy.

``./run soak [MINUTES]`` builds and runs this. It prints each failure with the command that repeats it, and ends with
the number of rounds of each test. The exit code is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RACE_ROUNDS = 2000
EXPLORED_STATES = 50_000
ROUND_SECONDS_MAX = 1200
SHOWN_LINES = 40
REPORT_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Test:
    """One command; `variables` are added to the environment, beside STEPWATCH_SEED."""

    name: str
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


def ctest_entries(build: Path, label: str) -> list[Test]:
    """Return CTest's entries with a label."""
    command = ["ctest", "--test-dir", str(build), "-L", f"^{label}$", "--show-only=json-v1"]
    listing = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [Test(test["name"], tuple(test["command"])) for test in listing["tests"]]


def race_tests(tests: list[Test], directories: list[Path]) -> list[Test]:
    """Return the write-back races, once for each file system, with many rounds."""
    return [
        dataclasses.replace(
            test,
            name=f"{test.name} in {directory}",
            variables=(("STEPWATCH_RACE_ROUNDS", str(RACE_ROUNDS)), ("STEPWATCH_RACE_DIR", str(directory))),
        )
        for test in tests
        for directory in directories
    ]


def explorations(tests: list[Test]) -> list[Test]:
    """Return the explorations of the agreement, with many states each."""
    return [
        dataclasses.replace(test, variables=(("STEPWATCH_EXPLORED_STATES", str(EXPLORED_STATES)),)) for test in tests
    ]


def python_tests() -> list[Test]:
    """Return the random scenarios and kills of the real binary."""
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    return [
        Test("saves in random ways", (*pytest, "tests/end_to_end/watch_saves_test.py", "-k", "random")),
        Test("scenarios of saves", (*pytest, "tests/watch")),
        Test("a random series of edits", (*pytest, "tests/end_to_end/rehearse_test.py", "-k", "random_series")),
        Test("strangers", (*pytest, "tests/front_ends/python/random_changes_test.py")),
        Test("random peers", (*pytest, "tests/end_to_end/foreign_text_test.py", "-k", "random")),
        Test("store", (*pytest, "tests/end_to_end/stepwatchd_store_test.py", "-k", "random_damage")),
        Test("kill -9", (*pytest, "tests/end_to_end/rehearse_test.py", "-k", "kill_9")),
        Test("long tests in Python", (*pytest, "-n", "4", "--dist", "loadgroup", "-m", "long", "tests")),
    ]


def cycles(build: Path) -> list[Test]:
    """Return a hundred thousand starts and stops of one monitor, which must leave no resources behind."""
    name = "collecting is started and stopped thousands of times*"
    return [Test(name, (str(build / "bin/monitor_test"), name), (("STEPWATCH_CYCLES", "100000"),))]


def fuzzers(build: Path) -> list[Test]:
    """Return the fuzzers with many inputs each."""
    names = sorted(path.name for path in (build / "bin").glob("*_fuzz"))
    corpus = ROOT / "tests/fuzz/corpus"
    return [Test(name, (str(build / "bin" / name), "20000", str(corpus / name))) for name in names]


@contextlib.contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Keep processors busy in bursts, so that threads are preempted at random places."""
    spin = "import random, time\nwhile True:\n  end = time.time() + random.random()\n  while time.time() < end: pass\n"
    spin += "  time.sleep(random.random() / 2)\n"
    spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def run_once(test: Test, seed: int) -> str:
    """Run a test with a seed; return a description of its failure, or an empty text."""
    variables = dict(test.variables, STEPWATCH_SEED=str(seed))
    try:
        done = subprocess.run(
            test.command,
            cwd=ROOT,
            env=dict(os.environ, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=ROUND_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        outcome, output = f"took more than {ROUND_SECONDS_MAX} s", ""
    else:
        if done.returncode == 0:
            return ""
        outcome, output = f"exit code {done.returncode}", "\n".join(done.stdout.splitlines()[-SHOWN_LINES:])
    repeat = " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(test.command)]
    )
    return f"FAILED: {test.name}: {outcome}\n{output}\n  repeat with: {repeat}"


def soak(tests: list[Test], minutes: float, dice: random.Random) -> tuple[collections.Counter, list[str]]:
    """Run the tests in turn, in another order each time, until the time is up."""
    end = time.monotonic() + 60 * minutes
    rounds: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    reported = time.monotonic()
    while True:
        for test in dice.sample(tests, len(tests)):
            if time.monotonic() >= end:
                return rounds, failures
            failure = run_once(test, dice.randrange(1, 1 << 31))
            rounds[test.name] += 1
            if failure:
                failures.append(failure)
                print(failure, flush=True)
        if time.monotonic() < reported + REPORT_SECONDS:
            continue
        reported = time.monotonic()
        left = max(0.0, end - reported) / 60
        print(f"soak: {sum(rounds.values())} rounds, {len(failures)} failed, {left:.0f} minutes left", flush=True)


def main() -> int:
    """Run the soak test; return the exit code."""
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__.split("\n")[0])
    parser.add_argument("minutes", nargs="?", type=float, default=60)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build tree to take the tests from")
    parser.add_argument("--only", default="", help="only tests whose name contains this")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="of order and seeds")
    given = parser.parse_args()
    print(f"soak: {given.minutes:g} minutes, --seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(dir=given.build) as on_disk:
        memory = Path("/dev/shm")
        places = [memory, Path(on_disk)] if os.access(memory, os.W_OK) else [Path(on_disk)]
        labelled = ctest_entries(given.build, "random") + ctest_entries(given.build, "long")
        races = [test for test in labelled if "write_back" in test.name]
        orders = [test for test in labelled if "in any order" in test.name]
        tests = [test for test in labelled if test not in races + orders]
        tests += race_tests(races, places) + explorations(orders)
        tests += fuzzers(given.build) + cycles(given.build) + python_tests()
        tests = [test for test in tests if given.only in test.name]
        if not tests:
            parser.error(f"no test has {given.only!r} in its name")
        with busy_machine(os.cpu_count() or 1):
            rounds, failures = soak(tests, given.minutes, random.Random(given.seed))
    for name, count in sorted(rounds.items()):
        print(f"{count:6} rounds of {name}")
    print(f"soak: {len(failures)} failed")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
