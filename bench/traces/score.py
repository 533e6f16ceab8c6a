"""Score ``stepwatchd replay`` on generated and recorded traces, and compare it with the rules of other systems.

    python3 bench/traces/score.py build/bin/stepwatchd --set tune
    python3 bench/traces/score.py bench/traces/references/median_mad.py --set held_out --markdown

The program is called as ``STEPWATCHD replay FILE --json`` for each trace; a path that ends in .py is run by Python.
Exit status 1: recall is below 0.95, a healthy trace caused an incident, or an answer has a wrong format.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from generate import SETS, generate  # noqa: E402
from scoring.answers import BadAnswer, read_answers  # noqa: E402
from scoring.clock import Clock  # noqa: E402
from scoring.match import Verdict, judge  # noqa: E402
from scoring.table import complaints, kind_table, program_table  # noqa: E402
from scoring.tally import good_enough, tally  # noqa: E402

REFERENCES = tuple(HERE / "references" / f"{name}.py" for name in ("median_mad", "internevo", "prometheus_rules"))
# Time limit for one trace; the largest have some ten thousand lines.
REPLAY_SECONDS_MAX = 120


def replay(program: Path, trace: Path) -> tuple[list[str], str]:
    """Return a program's output lines for a trace, and an error description or an empty text."""
    command = [sys.executable, str(program)] if program.suffix == ".py" else [str(program)]
    try:
        done = subprocess.run(
            [*command, "replay", str(trace), "--json"], capture_output=True, text=True, timeout=REPLAY_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return [], f"no answer within {REPLAY_SECONDS_MAX} s"
    if done.returncode != 0:
        return [], f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"
    return done.stdout.splitlines(), ""


def verdict_of(program: Path, trace: Path, labels: dict[str, Any]) -> Verdict:
    """Replay one trace and judge the answer."""
    lines = trace.read_text(encoding="utf-8").splitlines()
    answer, error = replay(program, trace)
    runs = {json.loads(line)["run"] for line in lines}
    clock = Clock(lines)

    def read(latest: bool) -> Verdict:
        try:
            return judge(trace.stem, labels, read_answers(answer, clock, runs, latest), error)
        except BadAnswer as bad:
            return judge(trace.stem, labels, [], str(bad))

    # Where a clock was set back, a time is ambiguous; the better reading counts.
    first = read(latest=False)
    if first.clean or len(clock.segments) == 1:
        return first
    last = read(latest=True)
    return last if last.clean else first


def score(program: Path, folder: Path, labels: dict[str, Any], jobs: int) -> list[Verdict]:
    """Replay each labelled trace of a folder and judge all answers."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda name: verdict_of(program, folder / f"{name}.jsonl", labels[name]), labels))


def main(arguments: Sequence[str] | None = None) -> int:
    """Score the traces selected on the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stepwatchd", type=Path)
    parser.add_argument("--set", choices=(*SETS, "recorded"), default="tune", dest="which")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="NAME", help="only traces whose name contains this")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the traces here and leave them there")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--markdown", action="store_true", help="the tables alone, without what is wrong")
    parser.add_argument("--beside", action="store_true", help="score the references on the same traces as well")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        if chosen.which == "recorded":
            folder = HERE / "recorded"
            document = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
            document["traces"] = {k: v for k, v in document["traces"].items() if chosen.only in k}
        else:
            folder = chosen.keep or Path(scratch)
            document = generate(folder, chosen.which, chosen.seed, chosen.only)
        labels = document["traces"]
        verdicts = score(chosen.stepwatchd, folder, labels, chosen.jobs)
        figures = tally(verdicts)
        beside = {chosen.stepwatchd.stem: figures}
        for program in REFERENCES if chosen.beside else ():
            beside[program.stem] = tally(score(program, folder, labels, chosen.jobs))
    if chosen.json:
        print(json.dumps(beside if chosen.beside else figures, indent=1))
    else:
        if not chosen.markdown:
            print("\n".join(line for verdict in verdicts for line in complaints(verdict)))
        print(kind_table(figures, beside.get("median_mad") if chosen.beside else None))
        print("\n" + program_table(beside))
    return 0 if good_enough(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
