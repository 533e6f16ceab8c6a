"""Write a set of labelled traces of training jobs, identical on every machine.

Each trace is ``NAME.jsonl`` in the output folder, and ``labels.json`` lists its expected incidents. The set ``tune``
may be inspected while detectors are developed; ``held_out`` has other seeds and ranges, and is for final figures only.

    python3 bench/traces/generate.py OUT_DIR --set tune
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scenarios import (  # noqa: E402, F401
    combined,
    deaths,
    documented_rules,
    hangs,
    hardware,
    losses,
    no_fault_documented_rules,
    no_fault_numbers,
    no_fault_observer,
    no_fault_phases,
    no_fault_regular,
    noise_free,
    numbers,
    regular_faults,
    speed,
    unreliable_observer,
)
from scenarios.registry import SCENARIOS, trace_of  # noqa: E402

SETS = ("tune", "held_out")


def traces(which: str, seed: int = 0, only: str = "") -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """Yield name, lines and labels of each trace of a set whose name contains ``only``."""
    held_out = which == "held_out"
    for entry in SCENARIOS.values():
        for number in range(entry.held_out if held_out else entry.tune):
            name = f"{entry.name.replace('/', '-')}-{number}"
            if only in name:
                lines, labels = trace_of(entry, number, held_out, seed).write()
                yield name, lines, labels


def generate(folder: Path, which: str, seed: int = 0, only: str = "") -> dict[str, Any]:
    """Write a set into a folder and return its labels."""
    folder.mkdir(parents=True, exist_ok=True)
    labels: dict[str, Any] = {}
    for name, lines, label in traces(which, seed, only):
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        labels[name] = label
    document = {"set": which, "seed": seed, "traces": labels}
    (folder / "labels.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def main() -> None:
    """Write the set selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--set", choices=SETS, default="tune", dest="which")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only traces whose name contains this")
    arguments = parser.parse_args()
    document = generate(arguments.out_dir, arguments.which, arguments.seed, arguments.only)
    incidents = sum(len(label["incidents"]) for label in document["traces"].values())
    print(f"{len(document['traces'])} traces with {incidents} incidents in {arguments.out_dir}")


if __name__ == "__main__":
    main()
