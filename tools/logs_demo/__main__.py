"""Make jobs fail that have no monitor, only log files, and print what stepwatchd reports from their lines.

`./run demo --logs` builds and runs this. All output is in `demo_output/logs/`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logs_demo.job import CULPRIT
from operations_demo.__main__ import end_in_order, runtime_directory
from operations_demo.incident_text import culprits, seconds
from operations_demo.processes import Processes, Stepwatchd, wait_for
from stepwatch.control_socket import JobError

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "demo_output/logs"
PROGRAM = ROOT / os.environ.get("STEPWATCH_BUILD", "build") / "bin/stepwatchd"
JOB = Path(__file__).with_name("job.py")
SECONDS_MAX = 300
START_SECONDS = 30
NOTICE_SECONDS = 60
STEPS_LEARNT = 80  # after which the usual values of a run are known
# The demo's steps are short: stepwatchd's own minimum of two minutes is for real ones.
SETTINGS: dict[str, Any] = {"detectors": {"stuck": {"silence_seconds_min": 10, "odd_rank_seconds": 8}}}
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@dataclass(frozen=True)
class Fault:
    """A fault of rank 1, and the kind of incident that it must be reported as."""

    name: str
    story: str
    kind: str


FAULTS = (
    Fault("nan", "the loss of rank 1 is NaN from step {step} on", "loss_nonfinite"),
    Fault("exception", "rank 1 raises a ValueError in step {step}", "exception"),
    Fault("hang", "rank 1 does not finish step {step}; the others wait for it", "stuck"),
    Fault("slow", "rank 1 computes 1.6 times as long from step {step} on", "straggler"),
)


@dataclass
class Outcome:
    """What was reported of a fault: the first incident of its kind, all kinds of the run, and the delay."""

    fault: Fault
    incident: dict[str, Any] | None
    kinds: list[str]
    delay: float | None

    def is_right(self) -> bool:
        """Return whether the incident has kind, rank and step, and nothing else was opened."""
        incident = self.incident
        if incident is None or self.kinds != [self.fault.kind] or incident["since_step"] is None:
            return False
        return bool(incident["ranks"] == [CULPRIT])


def play(fault: Fault, stepwatchd: Stepwatchd, directory: Path) -> Outcome:
    """Run a job with this fault until it is reported, and end it."""
    run = f"job-{fault.name}"
    steps = STEPS_LEARNT * 3
    command = [sys.executable, str(JOB), str(directory / run), str(steps), fault.name, str(STEPS_LEARNT)]
    processes = Processes()
    with contextlib.ExitStack() as stack:
        stack.callback(processes.end)
        processes.start(command, directory.parent / f"{run}.txt", dict(os.environ))

        def step() -> int:
            runs = {each["id"]: each["step"] or 0 for each in stepwatchd.get("/v1/runs")["runs"]}
            return int(runs.get(run, 0))

        def incidents() -> list[dict[str, Any]]:
            return list(stepwatchd.get(f"/v1/incidents?run={run}&state=all")["incidents"])

        wait_for(lambda: step() >= STEPS_LEARNT - 1, NOTICE_SECONDS)
        began = time.monotonic()
        try:
            wait_for(lambda: any(each["incident"] == fault.kind for each in incidents()), NOTICE_SECONDS)
        except TimeoutError:
            return Outcome(fault, None, [each["incident"] for each in incidents()], None)
        delay = time.monotonic() - began
        found = incidents()
    first = next(each for each in found if each["incident"] == fault.kind)
    return Outcome(fault, first, sorted({each["incident"] for each in found}), delay)


def report(outcome: Outcome) -> list[str]:
    """Return the outcome in lines."""
    if outcome.incident is None:
        return [f"  NOT REPORTED as {outcome.fault.kind}; reported: {', '.join(outcome.kinds) or 'nothing'}"]
    incident = outcome.incident
    lines = [
        f"  {incident['severity']}: {incident['incident']}, {culprits(incident['ranks'])}, "
        f"last good step {incident['since_step']}, reported {seconds(outcome.delay)} after the step before the fault"
    ]
    if line := incident.get("log_line"):
        lines.append(f"  first line of the cause: {line['text']}")
    return lines


def story(program: Path, output: Path) -> list[Outcome]:
    """Start stepwatchd, run a job for each fault, and print what happens."""
    logs = output / "logs"
    settings = {**SETTINGS, "logs": {"files": [{"path": f"{logs}/{{run}}/rank_{{rank}}.log"}]}}
    outcomes = []
    with runtime_directory(output) as runtime, Stepwatchd(program, output, runtime, settings) as stepwatchd:
        wait_for(stepwatchd.answers, START_SECONDS)
        print(f"stepwatchd follows {settings['logs']['files'][0]['path']}\n", flush=True)
        for number, fault in enumerate(FAULTS, 1):
            print(f"{number} of {len(FAULTS)}  {fault.story.format(step=STEPS_LEARNT)}", flush=True)
            outcomes.append(play(fault, stepwatchd, logs))
            print("\n".join(report(outcomes[-1])) + "\n", flush=True)
    return outcomes


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], prog="./run demo --logs")
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
    print("stepwatchd beside jobs of four ranks without a monitor: it knows their log files only\n")
    try:
        outcomes = story(options.program.absolute(), output)
    except KeyboardInterrupt:
        print("\nended before its end; no process is left", file=sys.stderr)
        return 130
    except (TimeoutError, RuntimeError, JobError) as error:
        print(f"\nthe demo cannot go on: {error}\nlogs: {output}", file=sys.stderr)
        return 1
    wrong = [outcome for outcome in outcomes if not outcome.is_right()]
    for outcome in wrong:
        print(f"wrong: {outcome.fault.name}: {', '.join(outcome.kinds) or 'nothing'} was opened")
    if not wrong:
        print("every fault was reported as itself with rank and step, from lines alone; nothing else was opened")
    print(f"{time.monotonic() - began:.0f} s; logs: {output}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
