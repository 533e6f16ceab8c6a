"""Measure the cost per training step: bare, with Stepwatch and with msProbe, as ratios within one run.

    python bench/peers.py [--model toy|gpt] [--groups off,idle,wg,mv,param,xy,all] [--ops norm|six] [--only stepwatch]

Each is one process, and a second bare process shows the noise: differences smaller than its distance from 1 are not
significant. The processes take turns within one run, a block of steps each, in another order in each round; each
computes with one thread. Each round gives a ratio of the medians of two blocks; the table has the median over rounds
with its quartiles.

Groups select the tensors: wg gradients, mv moments, param weights, xy activations and their gradients, all these four;
off: attached in dynamic mode and not switched on; idle: all four switched on, but no step is due.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import peers_install
from peers_process import GROUPS, IMPLEMENTATIONS, OPS, Process

ROUNDS = {"toy": 16, "gpt": 6}
STEPS = {"toy": 8, "gpt": 2}
# A block of a process that is many times slower than the others ends early.
BLOCK_SECONDS = 1.0
NEVER_DUE = 1_000_000


class Failed(Exception):
    """A bare process ended or failed to start, so there is no baseline."""


def spread(values: list[float]) -> list[float]:
    """Return lower quartile, median and upper quartile."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def ratios_of(process: Process, bare: Process) -> dict[str, Any]:
    """Return the figures of a process divided by those of the bare one, round by round."""
    pairs = list(zip(process.blocks, bare.blocks))
    found: dict[str, Any] = {
        "step_ms": statistics.median(ours["step_ms"] for ours, _ in pairs),
        "over_bare": spread([ours["step_ms"] / theirs["step_ms"] for ours, theirs in pairs]),
        "processor_over_bare": spread([ours["processor_ms"] / theirs["processor_ms"] for ours, theirs in pairs]),
        "around_update_us": spread([ours["around_update_us"] - theirs["around_update_us"] for ours, theirs in pairs]),
    }
    bare_ms = statistics.median(theirs["step_ms"] for _, theirs in pairs)
    found["around_update_over_bare_step"] = found["around_update_us"][1] / 1e3 / bare_ms
    if "off_ms" in process.blocks[0]:
        found["on_over_off"] = spread([ours["step_ms"] / ours["off_ms"] for ours, _ in pairs])
    return found


COLUMNS = (
    f"{'group':7}{'process':11}{'step ms':>9}  {'over bare':22}{'CPU':>7}  {'on over off':22}{'at the update':>20}"
)
COLUMNS += f"{'peak MB':>9}{'rows':>7}"


def shown(values: list[float] | None) -> str:
    """Return a median with its quartiles."""
    if values is None:
        return " " * 22
    digits = 3 if values[1] < 10 else 1
    return f"{values[1]:.{digits}f} [{values[0]:.{digits}f}, {values[2]:.{digits}f}]".ljust(22)


def print_row(row: dict[str, Any]) -> None:
    """Print a row of the table."""
    start = f"{row['group']:7}{row['process']:11}"
    if "failure" in row:
        print(f"{start}{row['failure']}", flush=True)
        return
    watched = row["process"] in IMPLEMENTATIONS
    update = (
        f"{row['around_update_us'][1]:.1f} us {100 * row['around_update_over_bare_step']:7.3f} %" if watched else ""
    )
    over = row["over_bare"] if row["process"] != "bare" else None
    processor = f"{row['processor_over_bare'][1]:.3f}" if over else ""
    memory = f"{row['peak_mb']:.0f}" if not over else f"{row['peak_over_bare_mb']:+.0f}"
    print(
        f"{start}{row['step_ms']:9.2f}  {shown(over)}{processor:>7}  {shown(row.get('on_over_off'))}{update:>20}"
        f"{memory:>9}{row['rows_a_step']:7.0f}",
        flush=True,
    )


class Comparison:
    """Measures the groups one after the other; the two bare processes run during all of them.

    Parameters
    ----------
    options : argparse.Namespace
    folder : Path
        For all files of the processes.
    """

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._bare = [Process(name, "off", options, folder) for name in ("bare", "noise")]
        self.facts = [process.answer() for process in self._bare][0]
        self._check()

    def _check(self) -> None:
        for process in self._bare:
            if process.failure:
                raise Failed(f"the process {process.name!r} {process.failure}")

    def run(self, group: str) -> list[dict[str, Any]]:
        """Measure a group; return its rows."""
        watched = [Process(name, group, self._options, self._folder) for name in self._options.only]
        try:
            for process in watched:
                process.answer()
            self._take_turns([*self._bare, *watched])
            for process in watched:
                process.end()
        finally:
            for process in watched:
                process.kill()
        for process in self._bare:
            process.facts.update(process.ask(do="memory"))
        self._check()
        return [self._row(process, group) for process in [*self._bare, *watched]]

    def _take_turns(self, gang: list[Process]) -> None:
        for process in self._bare:
            process.blocks.clear()
        for turn in range(self._options.rounds):
            first = turn % len(gang)
            for process in gang[first:] + gang[:first]:
                block = process.ask(do="block", steps=self._options.steps, seconds=BLOCK_SECONDS)
                if block:
                    process.blocks.append(block)

    def _row(self, process: Process, group: str) -> dict[str, Any]:
        row: dict[str, Any] = {"group": group, "process": process.name}
        if process.failure:
            return {**row, "failure": process.failure}
        row.update(ratios_of(process, self._bare[0]))
        row["peak_mb"] = process.facts["peak_mb"]
        row["peak_over_bare_mb"] = row["peak_mb"] - self._bare[0].facts["peak_mb"]
        row["rows_a_step"] = process.rows_a_step()
        if process.name in IMPLEMENTATIONS and group not in ("off", "idle") and not row["rows_a_step"]:
            row["failure"] = "wrote no rows, so that its cost says nothing"
        return row

    def end(self) -> None:
        """End the two bare processes."""
        for process in self._bare:
            process.kill()


def choices(text: str, known: tuple[str, ...]) -> list[str]:
    """Split a comma-separated list of known names."""
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; accepted: {', '.join(known)}")
    return names


def by_model(defaults: dict[str, int]) -> str:
    """Return defaults in the format of the help."""
    return ", ".join(f"{value} for {model}" for model, value in defaults.items())


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=ROUNDS, default="toy", help="many small tensors, or few larger ones")
    parser.add_argument(
        "--groups", type=lambda text: choices(text, GROUPS), default=list(GROUPS), help="what is watched"
    )
    parser.add_argument("--ops", choices=OPS, default="norm", help="the statistics: norm alone, or all six of msProbe")
    parser.add_argument("--rounds", type=int, help="of each group; default " + by_model(ROUNDS))
    parser.add_argument("--steps", type=int, help="timed steps of a block; default " + by_model(STEPS))
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--only",
        type=lambda text: choices(text, IMPLEMENTATIONS),
        default=list(IMPLEMENTATIONS),
        help="stepwatch or msprobe; without msprobe nothing is installed",
    )
    options = parser.parse_args()
    options.rounds = options.rounds or ROUNDS[options.model]
    options.steps = options.steps or STEPS[options.model]
    return options


LEGEND = """
step ms        median over rounds; a round has a block of each process, in turns
over bare      ratio of the steps [quartiles over rounds]; that of `noise`, a second bare process, is what chance makes
CPU            the same of processor time, all threads counted
on over off    Stepwatch only: blocks that are collected over blocks that are not, in one process that edits its config
at the update  spent between the call of optimizer.step and the optimizer's own step and back, timed there, minus what
               the bare process spends, over a bare step: all that is left when hooks are off
peak MB        most memory, over bare
rows           written for each collected step
Every process holds a second thread that only waits: with one thread alone glibc takes short cuts in malloc and locks,
worth up to 2 % of a step of the toy model, and a real job has more than one.
"""


def named_ratios(options: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ratios in the format of the other benchmarks."""
    found = []
    for row in rows:
        for figure in ("over_bare", "processor_over_bare", "on_over_off"):
            if "failure" not in row and figure in row and row["process"] != "bare":
                low, median, high = row[figure]
                name = f"peers_{options.model}_{options.ops}_{row['group']}_{row['process']}_{figure}"
                found.append({"name": name, "ratio": median, "spread": [low, high]})
    return found


def compare(options: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compare group by group, and print the table; return the comparisons, and the rows."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="stepwatch_peers_") as folder:
        comparison = Comparison(options, Path(folder))
        facts = {**comparison.facts, **{name: getattr(options, name) for name in ("model", "ops", "rounds", "steps")}}
        print(
            f"{options.model}: {facts['modules']} modules, {facts['parameters']} parameters, torch {facts['torch']}; "
            f"ops {options.ops}; {options.rounds} rounds of {options.steps} steps\n\n{COLUMNS}",
            flush=True,
        )
        try:
            for group in options.groups:
                for row in comparison.run(group):
                    print_row(row)
                    rows.append(row)
        finally:
            comparison.end()
    return facts, rows


def main() -> int:
    """Compare, and write the figures; return the exit code."""
    options = parse()
    if "msprobe" in options.only:
        problem = peers_install.install()
        if problem:
            print(problem)
            options.only.remove("msprobe")
    try:
        facts, rows = compare(options)
    except Failed as failed:
        print(f"peers: {failed}", file=sys.stderr)
        return 1
    print(LEGEND, end="")
    if options.json:
        report = {"facts": facts, "ratios": named_ratios(options, rows), "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any("failure" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
