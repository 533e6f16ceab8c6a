"""Terminal output of the offline tools: a progress bar, then the result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def progress_bar() -> Callable[[str, int, int], None] | None:
    """Return a function that draws (stage, bytes done, bytes in all) on stderr; None if stderr is not a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None

    def show(stage: str, done: int, total: int) -> None:
        part = done / total if total else 1.0
        filled = int(30 * part)
        sys.stderr.write(f"\r{stage} [{'#' * filled}{'.' * (30 - filled)}] {100 * part:3.0f} %\033[K")
        sys.stderr.flush()

    return show


def wipe_bar(bar: Callable[[str, int, int], None] | None) -> None:
    """Erase the bar."""
    if bar is not None:
        sys.stderr.write("\r\033[K")


def report(done: dict[str, Any]) -> None:
    """Print omissions to stderr, and the path of the result."""
    for note in done["notes"]:
        print(f"note: {note}", file=sys.stderr)
    print(f"output has been saved to: {done['output']}")
