"""Call sites in the program, read from the frames of the running thread without opening a file."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Sequence

# Limits the text, and so the time, of a backtracking pattern; the innermost frames come first.
_TEXT_MAX = 1000
# Limit of distinct stacks per name.
_STACKS_MAX = 100

_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep


class CallSites:
    """Selects calls by their call site, and keeps stacks.

    Parameters
    ----------
    codelines : sequence of str
        Regular expressions; a call is selected if one of them matches in the first 1000 characters of its stack:
        ``path[line]   function`` of each frame, innermost first, joined by ``;``. Empty: all calls.
    keep : bool
        Keep the stacks of all calls and select no call.
    caught : callable
        Called once for an unusable pattern, as (what failed, why). The other patterns apply; without any, no call is
        selected.
    """

    def __init__(self, codelines: Sequence[str], keep: bool, caught: Callable[[str, str], None]) -> None:
        self._all = not codelines
        self._keep = keep
        self._patterns: list[re.Pattern[str]] = []
        self._stacks: dict[str, dict[tuple[str, ...], None]] = {}
        for text in codelines:
            try:
                self._patterns.append(re.compile(text))
            except (re.error, TypeError, RecursionError, OverflowError) as error:
                caught(
                    f"the pattern {text!r} of cc_codeline",
                    f"it is not a valid regular expression and matches no call ({error})",
                )

    def wants(self, name: str, describe: Callable[[], str] | None = None) -> bool:
        """Return whether the current call is selected.

        Parameters
        ----------
        name : str
            Name of the called function.
        describe : callable, optional
            Returns a text about the call, which a kept stack has after its frames; stacks with different texts differ.
        """
        if self._all and not self._keep:
            return True
        frames = _calling_frames()
        if self._keep:
            known = self._stacks.setdefault(name, {})
            if len(known) < _STACKS_MAX:
                known[(*frames, describe()) if describe is not None else frames] = None
            return False
        text = ";".join(frames)[:_TEXT_MAX]
        return any(pattern.search(text) for pattern in self._patterns)

    def stacks(self) -> dict[str, list[list[str]]]:
        """Return the distinct stacks of every name, at most 100 each, in the order of their first call."""
        return {name: [list(frames) for frames in list(known)] for name, known in list(self._stacks.items())}


def _calling_frames() -> tuple[str, ...]:
    frame = sys._getframe(2)
    found = []
    while frame is not None:
        path = frame.f_code.co_filename
        if not _is_hidden(path):
            found.append(f"{path}[{frame.f_lineno}]   {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _is_hidden(path: str) -> bool:
    """Return whether a frame is of Stepwatch, torch's module calls, a process starter or a debugger."""
    slashed = "/" + path.replace(os.sep, "/")
    return (
        path.startswith(_OWN)
        or slashed.endswith("/torch/nn/modules/module.py")
        or "/multiprocessing/" in slashed
        or "/debugpy/" in slashed
    )
