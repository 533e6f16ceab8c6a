"""InternEvo's stop file, and the messages about it, which InternEvo sends at every step."""

from __future__ import annotations

import re

_NOTICE = re.compile(r"training will (Stop|Save) at step_count (\d+)!\s*now step_count is (\d+)")


def read_stop_file(path: str) -> int:
    """Return the number in a stop file.

    Parameters
    ----------
    path : str

    Returns
    -------
    int
        n > 0: save and stop at step n; n < 0: save at step -n; 0: continue, also if the file is missing, empty,
        half-written or contains no number.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read(64))
    except (OSError, ValueError):
        return 0


class StopNotices:
    """Recognizes the message that repeats an earlier one at the next step."""

    def __init__(self) -> None:
        self._request: tuple[str, str] | None = None
        self._step = -1

    def is_repeated(self, message: str) -> bool:
        """Return whether a message is such a repetition."""
        match = _NOTICE.match(message)
        if match is None:
            return False
        request, step = (match[1], match[2]), int(match[3])
        # A gap shows that the request was withdrawn in between.
        is_repeated = request == self._request and 0 <= step - self._step <= 1
        self._request, self._step = request, step
        return is_repeated
