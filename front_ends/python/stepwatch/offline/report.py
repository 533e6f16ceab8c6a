"""The output of the offline tools for a person: a bar on a terminal while they work, then the result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def progress_bar() -> Callable[[str, int, int], None] | None:
    """Return a function that draws (stage, bytes done, bytes in all) on stderr; None if that is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None

    def show(stage: str, done: int, total: int) -> None:
        part = done / total if total else 1.0
        filled = int(30 * part)
        sys.stderr.write(f"\r{stage} [{'#' * filled}{'.' * (30 - filled)}] {100 * part:3.0f} %\033[K")
        sys.stderr.flush()

    return show


def wipe_bar(bar: Callable[[str, int, int], None] | None) -> None:
    """Take the bar away."""
    if bar is not None:
        sys.stderr.write("\r\033[K")


def report(done: dict[str, Any]) -> None:
    """Print what was left out, to stderr, and where the result is."""
    for note in done["notes"]:
        print(f"note: {note}", file=sys.stderr)
    print(f"output has been saved to: {done['output']}")
