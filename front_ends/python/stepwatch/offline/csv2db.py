"""Conversion of the CSV files of a run to a SQLite database."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Union

from stepwatch import _core
from stepwatch.offline.csv2tb import check_process_num
from stepwatch.offline.report import progress_bar, report, wipe_bar
from stepwatch.watch import flush_all

Path = Union[str, "os.PathLike[str]"]


class CSV2DBConfig:
    """Settings of an import, with the arguments of either generation of msProbe.

    ``CSV2DBConfig(target_output_dirs, process_num=1, db_file=None, micro_step=True, mapping=None)`` names the directory
    of each rank (``{0: "…-rank0-…"}``) and the database file. ``CSV2DBConfig(monitor_path, time_start=None,
    time_end=None, process_num=1, data_type_list=None, step_partition=500, output_dirpath=None)`` names an output base
    and writes ``monitor_metrics.db`` in ``output_dirpath``, default ``{time}_csv2db`` in the base; ``step_partition``
    is accepted and has no effect, all steps are in one table.

    Attributes
    ----------
    target_output_dirs : dict[int, str]
        Rank to directory; ranks may be given as text.
    process_num : int
        Threads, 1 to 128.
    db_file : str
        The database, replaced once the new one is complete.
    micro_step : bool
        True: the steps of the database are the micro-steps, numbered consecutively over all steps.
    mapping : dict[str, str]
        Replacements in names, in this order.
    data_type_list : list[str]
        Kinds to import; empty: all.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        by_path = "monitor_path" in kwargs or (args and isinstance(args[0], (str, os.PathLike)))
        self.notes: list[str] = []
        self.data_type_list: list[str] = []
        (self._from_monitor_path if by_path else self._from_directories)(*args, **kwargs)

    def _from_directories(
        self,
        target_output_dirs: dict[int | str, Path],
        process_num: int = 1,
        db_file: Path | None = None,
        micro_step: bool = True,
        mapping: dict[str, str] | None = None,
    ) -> None:
        self.target_output_dirs = {int(rank): _expand(path) for rank, path in target_output_dirs.items()}
        self.process_num = process_num
        self.db_file = _expand(db_file) if db_file is not None else None
        self.micro_step = micro_step
        self.mapping = mapping

    def _from_monitor_path(
        self,
        monitor_path: Path,
        time_start: str | None = None,
        time_end: str | None = None,
        process_num: int = 1,
        data_type_list: list[str] | None = None,
        step_partition: int = 500,
        output_dirpath: Path | None = None,
    ) -> None:
        base = _expand(monitor_path)
        directories, self.notes = _core.find_run_directories(base, time_start or "", time_end or "")
        out = os.path.join(base, time.strftime("%b%d_%H-%M-%S_csv2db"))
        self._from_directories(directories, process_num)
        self.db_file = os.path.join(_expand(output_dirpath) if output_dirpath else out, "monitor_metrics.db")
        self.data_type_list = list(data_type_list or [])
        self.step_partition = step_partition


def _expand(path: Path) -> str:
    return os.path.expanduser(os.fspath(path))


def get_target_output_dir(
    monitor_path: Path, time_start: str | None = None, time_end: str | None = None
) -> dict[str, str]:
    """Return the run directory of each rank, by rank as text; the range includes both times, None leaves it open.

    If a rank has several runs, the one that started last is used, and a line on stderr names the others.
    """
    directories, notes = _core.find_run_directories(_expand(monitor_path), time_start or "", time_end or "")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return {str(rank): path for rank, path in directories.items()}


def _import(config: CSV2DBConfig) -> None:
    check_process_num(config.process_num)
    if config.db_file is None:
        raise ValueError("db_file is None; name the database file to write")
    flush_all()
    bar = progress_bar()
    try:
        done = _core.csv_to_database(
            config.target_output_dirs,
            config.db_file,
            config.process_num,
            config.micro_step,
            list((config.mapping or {}).items()),
            config.data_type_list,
            bar,
        )
    finally:
        wipe_bar(bar)
    report({**done, "notes": config.notes + done["notes"]})


def import_data(config: CSV2DBConfig) -> bool:
    """Write the database.

    Returns
    -------
    bool
        False if the directories contain no data to import; no file is written then.

    Raises
    ------
    ValueError
        A setting or a file is not usable.
    RuntimeError
        A file cannot be read, or the database cannot be written. An older database stays unchanged.
    """
    try:
        _import(config)
    except FileNotFoundError as error:
        print(f"note: no data was imported: {error}", file=sys.stderr)
        return False
    return True


def csv2db(config: CSV2DBConfig) -> None:
    """Write the database; FileNotFoundError if there is no data to import, otherwise as `import_data`."""
    _import(config)
