"""Conversion of the CSV files of a run to TensorBoard files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Union

from stepwatch import _core
from stepwatch.offline.report import progress_bar, report, wipe_bar
from stepwatch.watch import flush_all

Path = Union[str, "os.PathLike[str]"]

all_data_type_list = ["actv", "actv_grad", "exp_avg", "exp_avg_sq"]
all_data_type_list += ["grad_unreduced", "grad_reduced", "param_origin", "param_updated"]


def check_process_num(process_num: int) -> None:
    """Raise ValueError unless the number of threads is an integer from 1 to 128."""
    if isinstance(process_num, bool) or not isinstance(process_num, int) or not 1 <= process_num <= 128:
        raise ValueError(f"process_num({process_num}) is not a positive integer of at most 128")


def check_data_type_list(data_type_list: Sequence[str] | None) -> None:
    """Raise ValueError unless this is None or a list of kinds."""
    if data_type_list is None:
        return
    if not isinstance(data_type_list, list):
        raise ValueError(f"data_type_list({data_type_list}) is not a list")
    for kind in data_type_list:
        if kind not in _core.TENSORBOARD_KINDS:
            raise ValueError(f"data type({kind}) is not supported, supported data type: {_core.TENSORBOARD_KINDS}")


def _check_range(time_start: str | None, time_end: str | None) -> None:
    """Raise ValueError for a range that ends before it begins; the conversion refuses an invalid time."""
    start, end = _time_of(time_start), _time_of(time_end)
    if start is not None and end is not None and start > end:
        raise ValueError(
            f"time_start {time_start} is after time_end {time_end}; accepted: an end that is not before the beginning"
        )


def _time_of(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(f"1904 {text}", "%Y %b%d_%H-%M-%S")  # a leap year has all days
    except ValueError:
        return None


def csv2tensorboard_by_step(
    monitor_path: Path,
    time_start: str | None = None,
    time_end: str | None = None,
    process_num: int = 1,
    data_type_list: list[str] | None = None,
    output_dirpath: Path | None = None,
) -> None:
    """Convert the CSV files under an output base. Monitors of this process are flushed first.

    Writes ``{output_dirpath}/rank{R}/{kind}/`` with one event file each. Tags are
    ``vp{vpp_stage}:{name}[:micro{micro_step}]/{op}``. An older result is replaced once the new one is complete.

    Parameters
    ----------
    monitor_path
        The output base, with one directory for each rank. If a rank has several runs, the last one is used, and a line
        on stderr names the others.
    time_start, time_end
        Only runs whose directory names begin with a time in this range, both ends included, for instance
        ``"Dec03_21-34-40"``. None: open.
    process_num
        Threads, 1 to 128.
    data_type_list
        Kinds, the prefixes of the files, for instance ``["actv", "grad_reduced"]``. None: all.
    output_dirpath
        Default: ``{time}-csv2tensorboard_by_step`` in the output base.

    Raises
    ------
    ValueError
        An argument is not usable, such as a range that ends before it begins, or a tag has a step twice; the message
        names file and line.
    FileNotFoundError
        There is no file to convert.
    RuntimeError
        A file cannot be read or written. An older result stays unchanged.
    """
    check_process_num(process_num)
    check_data_type_list(data_type_list)
    _check_range(time_start, time_end)
    flush_all()
    bar = progress_bar()
    try:
        done = _core.csv_to_tensorboard(
            os.path.expanduser(os.fspath(monitor_path)),
            time_start or "",
            time_end or "",
            process_num,
            data_type_list or [],
            os.path.expanduser(os.fspath(output_dirpath)) if output_dirpath else "",
            bar,
        )
    finally:
        wipe_bar(bar)
    report(done)
