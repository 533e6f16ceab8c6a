"""Make a real training job of two ranks fail in four ways, and print what stepwatchd, Alertmanager and a chat report.

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
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from operations_demo.alerting import SCRAPE_SECONDS, Alerting, Chat, are_installed
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
SECONDS_MAX = 180
START_SECONDS = 30
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


@dataclass
class Played:
    """The end of the demo.

    Attributes
    ----------
    screen : Screen
    outcomes : list of Outcome
    incidents : list of dict
        All incidents of stepwatchd.
    """

    screen: Screen
    outcomes: list[Outcome]
    incidents: list[Incident]


def play(program: Path, output: Path) -> Played:
    """Start everything, inject the faults, and end everything."""
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(runtime_directory(output))
        chat = stack.enter_context(Chat())
        alerting = Alerting(program, output / "alerting", chat)
        stepwatchd = Stepwatchd(program, output, runtime, alerting.settings())
        screen = Screen(lambda: pace_of(stepwatchd))
        screen.bare("stepwatchd beside a training job that fails in four ways", BOLD)
        screen.bare()
        stack.enter_context(stepwatchd)
        wait_for(stepwatchd.answers, START_SECONDS)
        screen.line(f"stepwatchd answers at {stepwatchd.socket}")
        stack.enter_context(alerting)
        wait_for(alerting.answer, START_SECONDS)
        screen.line(f"Prometheus at http://{alerting.prometheus}, Alertmanager at http://{alerting.alertmanager}")
        screen.line("with the files of `stepwatchd provision`; a chat waits for messages", stamp=False)
        watcher = Watcher(stepwatchd, screen.on_look)
        job = stack.enter_context(Job(output, runtime))
        screen.line("a job of two ranks starts (torch, DDP over gloo); stepwatchd finds it by itself")
        story = Story(stepwatchd, job, watcher, screen, Patience(), alerting, chat)
        outcomes = story.play(FAULTS)
        screen.bare()
        screen.line(f"Prometheus has scraped {alerting.series()} series of the run every {SCRAPE_SECONDS} s")
        screen.line(f"Alertmanager has passed {len(chat.of('chat'))} messages on to the chat by its own routes")
        return Played(screen, outcomes, watcher.incidents())


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
    if not are_installed():
        print("the demo needs prometheus and prometheus-alertmanager of Debian", file=sys.stderr)
        return 1
    began = time.monotonic()
    try:
        played = play(options.program.absolute(), output)
    except KeyboardInterrupt:
        print("\nended before its end; no process is left", file=sys.stderr)
        return 130
    except (TimeoutError, RuntimeError, JobError) as error:
        print(f"\nthe demo cannot go on: {error}\n{INDENT}logs: {output}", file=sys.stderr)
        return 1
    screen = played.screen
    screen.bare()
    for line in table(played.outcomes):
        screen.bare(line)
    screen.bare()
    wrong = complaints(played.outcomes, played.incidents, are_delivered=True)
    for complaint in wrong:
        screen.bare(complaint, RED)
    if not wrong:
        screen.bare("every fault was noticed as what it is, and nothing else was opened", GREEN)
    screen.bare(f"{time.monotonic() - began:.0f} s; logs of stepwatchd and of the ranks: {output}/*.log")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
