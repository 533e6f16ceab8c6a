"""Make a real training job of two ranks fail in four ways, and print the incidents that stepwatchd reports.

`./run demo --operations` builds and runs this. All output is in `demo_output/operations/`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from operations_demo.faults import FAULTS
from operations_demo.incident_text import table
from operations_demo.processes import Job, Stepwatchd, wait_for
from operations_demo.screen import BOLD, GREEN, INDENT, RED, Screen
from operations_demo.story import Outcome, Patience, Story, complaints
from operations_demo.watcher import Incident, Watcher
from stepwatch.control_socket import JobError

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "demo_output/operations"
PROGRAM = ROOT / os.environ.get("STEPWATCH_BUILD", "build") / "bin/stepwatchd"
SECONDS_MAX = 120
START_SECONDS = 20
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
# Limit of a socket's path, and length of a name such as 4194304-1.sock with its slash.
SOCKET_BYTES_MAX = 107
NAME_BYTES_MAX = 20


@contextlib.contextmanager
def runtime_directory(output: Path) -> Iterator[Path]:
    """Yield a directory for sockets: in the output, or a short temporary one if that path is too long."""
    directory = output / "sockets"
    if len(os.fsencode(directory)) + 1 + NAME_BYTES_MAX <= SOCKET_BYTES_MAX:
        directory.mkdir(mode=0o700)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="sw") as short:
        yield Path(short)


def end_in_order(number: int, frame: FrameType | None) -> None:
    """Let every block end its processes, without interruption by a second signal."""
    signal.alarm(0)
    for each in ENDING_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGALRM:
        raise TimeoutError(f"the demo takes longer than {SECONDS_MAX} s")
    raise KeyboardInterrupt


def pace_of(stepwatchd: Stepwatchd) -> str:
    """Return the state of the newest run in a few words."""
    try:
        runs = stepwatchd.get("/v1/runs")["runs"]
    except JobError:
        return ""
    if not runs:
        return ""
    loss = runs[0]["latest"].get("loss")
    said = f"step {runs[0]['step']}"
    return said + (f", loss {loss:.3f}" if isinstance(loss, float) else "" if loss is None else f", loss {loss}")


def play(program: Path, output: Path) -> tuple[Screen, list[Outcome], list[Incident]]:
    """Start everything, inject the faults, and end everything; return the outcomes, and all incidents."""
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(runtime_directory(output))
        stepwatchd = Stepwatchd(program, output, runtime)
        screen = Screen(lambda: pace_of(stepwatchd))
        screen.bare("stepwatchd beside a training job that fails in four ways", BOLD)
        screen.bare()
        stack.enter_context(stepwatchd)
        wait_for(stepwatchd.answers, START_SECONDS)
        screen.line(f"stepwatchd answers at {stepwatchd.socket}")
        watcher = Watcher(stepwatchd, screen.on_look)
        job = stack.enter_context(Job(output, runtime))
        screen.line("a job of two ranks starts (torch, DDP over gloo); stepwatchd is not told where it is")
        story = Story(stepwatchd, job, watcher, screen, Patience())
        outcomes = story.play(FAULTS)
        return screen, outcomes, watcher.incidents()


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], prog="./run demo --operations")
    parser.add_argument("--program", type=Path, default=PROGRAM, help="stepwatchd (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="made anew (default: %(default)s)")
    options = parser.parse_args()
    for number in ENDING_SIGNALS:
        signal.signal(number, end_in_order)
    signal.alarm(SECONDS_MAX)
    output = options.output.absolute()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    began = time.monotonic()
    try:
        screen, outcomes, incidents = play(options.program.absolute(), output)
    except KeyboardInterrupt:
        print("\nended before its end; no process is left", file=sys.stderr)
        return 130
    except (TimeoutError, RuntimeError, JobError) as error:
        print(f"\nthe demo cannot go on: {error}\n{INDENT}logs: {output}", file=sys.stderr)
        return 1
    screen.bare()
    for line in table(outcomes):
        screen.bare(line)
    screen.bare()
    wrong = complaints(outcomes, incidents)
    for complaint in wrong:
        screen.bare(complaint, RED)
    if not wrong:
        screen.bare("every fault was noticed as what it is, and nothing else was opened", GREEN)
    screen.bare(f"{time.monotonic() - began:.0f} s; logs of stepwatchd and of the ranks: {output}/*.log")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
