"""Write the labelled corpus of the recognisers: ``python3 tests/logs/corpus DIRECTORY [--seed N]``.

``lines.jsonl``: lines with the classes that they show, several of each wording. ``stories.jsonl``: records of failing
runs with the root. ``unrelated.txt``: lines of other systems. Files of one seed are the same everywhere.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from lines import HEALTHY, HELD_OUT, KNOWN, filled
from stories import story
from unrelated import unrelated_line

REPETITIONS = 8
STORIES = 600
UNRELATED = 50_000
# A program's output before a message on the same line.
BEFORE = (
    "",
    "",
    "",
    "",
    "[rank3]:[E1118 20:32:23.955028747 File.cpp:1] ",
    "2026-11-18 20:32:23,955 ERROR trainer: ",
    "(Worker pid=812) ",
)


def labelled_lines(dice: random.Random) -> list[dict[str, object]]:
    """Return lines with their classes."""
    lines: list[dict[str, object]] = []
    for held_out, wordings in ((False, KNOWN), (True, HELD_OUT)):
        for kind, templates in wordings.items():
            for template in templates:
                for _ in range(REPETITIONS):
                    text = filled(template, dice)
                    before = "" if text == "Killed" else dice.choice(BEFORE)
                    lines.append({"text": before + text, "class": kind, "held_out": held_out})
    for template in HEALTHY:
        for _ in range(REPETITIONS):
            lines.append({"text": filled(template, dice), "class": "", "held_out": False})
    dice.shuffle(lines)
    return lines


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(prog="corpus", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="written files replace those of an earlier call")
    parser.add_argument("--seed", type=int, default=1, help="of all random values (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)

    def write(name: str, lines: list[str]) -> None:
        (arguments.directory / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    dice = random.Random(arguments.seed)
    write("lines.jsonl", [json.dumps(each) for each in labelled_lines(dice)])
    write("stories.jsonl", [json.dumps(story(dice)) for _ in range(STORIES)])
    write("unrelated.txt", [unrelated_line(dice) for _ in range(UNRELATED)])


if __name__ == "__main__":
    main()
