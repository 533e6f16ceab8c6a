"""Records of training logs: ranks, levels, progress, exceptions and anomalies of lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stepwatch import _core

__all__ = ["Anomaly", "ExceptionInfo", "Progress", "Record", "parse"]


@dataclass(frozen=True)
class Progress:
    """A finished step, or an evaluation.

    Attributes
    ----------
    step : int or None
        The step of the run; None if the line has none.
    is_evaluation : bool
        True: the numbers are of an evaluation, and their names begin with ``eval_``.
    numbers : dict[str, float]
        Such as ``loss``, ``grad_norm``, ``lr`` and ``step_seconds``; may be NaN or infinite.
    """

    step: int | None
    is_evaluation: bool
    numbers: dict[str, float]


@dataclass(frozen=True)
class ExceptionInfo:
    """An exception whose lines were put together.

    Attributes
    ----------
    type, message, stack : str
        The type as printed, the text after it, and all lines without their prefixes.
    """

    type: str
    message: str
    stack: str


@dataclass(frozen=True)
class Anomaly:
    """A known fault, found in the text of a record.

    Attributes
    ----------
    name : str
        A name of the catalogue, such as ``nccl_timeout``.
    severity : str
        "info", "warning" or "critical".
    role : str
        "root" (may be the first cause), "cascade" (follows from a fault elsewhere), "symptom" or "notice".
    culprit_rank : int or None
        The rank that the text blames.
    facts : dict[str, str]
        Parts of the text, such as a size or an operation.
    """

    name: str
    severity: str
    role: str
    culprit_rank: int | None
    facts: dict[str, str]


@dataclass(frozen=True)
class Record:
    """One line, or the lines of one exception, without prefixes.

    Attributes
    ----------
    message : str
        At most 64 KiB.
    t : float or None
        The line's own time, in seconds since 1970.
    level : str
        "trace", "debug", "info", "warn", "error", "fatal", or "" if the line has none.
    rank, local_rank : int or None
        From the prefixes of the line.
    attributes : list[tuple[str, str]]
        The name=value pairs of the line, at most 32.
    """

    message: str
    t: float | None = None
    host: str = ""
    rank: int | None = None
    local_rank: int | None = None
    level: str = ""
    component: str = ""
    is_truncated: bool = False
    progress: Progress | None = None
    exception: ExceptionInfo | None = None
    anomalies: list[Anomaly] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)


def _record(values: dict[str, Any]) -> Record:
    progress = values.get("progress")
    exception = values.get("exception")
    return Record(
        message=values["message"],
        t=values["t"],
        host=values["host"],
        rank=values["rank"],
        local_rank=values["local_rank"],
        level=values["level"],
        component=values["component"],
        is_truncated=values["is_truncated"],
        progress=progress and Progress(progress["step"], progress["is_evaluation"], dict(progress["numbers"])),
        exception=exception and ExceptionInfo(**exception),
        anomalies=[Anomaly(**{**each, "facts": dict(each["facts"])}) for each in values["anomalies"]],
        attributes=values["attributes"],
    )


def parse(lines: Iterable[str | bytes], *, rank: int | None = None, utc_offset_seconds: int = 0) -> Iterator[Record]:
    """Yield the records of the lines of one log.

    An exception is yielded once it is complete; until then lines of other ranks pass it.

    Parameters
    ----------
    lines : iterable of str or bytes
        Such as an open file; line feeds at their ends are removed.
    rank : int, optional
        The rank of lines that name none.
    utc_offset_seconds : int
        The zone of times without one: 28800 for China.

    Examples
    --------
    >>> [record.progress.step for record in parse(["Step 7: loss=2.5"])]
    [7]
    """
    if isinstance(lines, (str, bytes)):
        raise TypeError("lines: expected an iterable of lines, got one text; use text.splitlines()")
    reader = _core.LogReader(utc_offset_seconds)
    now = time.time()
    for line in lines:
        raw = line.encode("utf-8", "surrogateescape") if isinstance(line, str) else bytes(line)
        for values in reader.add(raw, now, rank):
            yield _record(values)
    for values in reader.flush():
        yield _record(values)
