"""`stepwatch.csv2tb`, under the name of its module in msProbe, with the helpers of that module."""

from __future__ import annotations

import csv
import os
import re
import shutil
from typing import Any

from stepwatch.csv2tb import all_data_type_list, check_data_type_list, csv2tensorboard_by_step

__all__ = [
    "all_data_type_list",
    "check_data_type_list",
    "csv2tb_by_step_work",
    "csv2tensorboard_by_step",
    "parse_step_fn",
    "update_dict",
    "write_step",
]

_STATISTICS = ("norm", "min", "max", "zeros", "nans", "id", "mean")

Series = dict[str, dict[int, dict[str, float]]]


def parse_step_fn(filepath: str | os.PathLike[str]) -> Series:
    """Read one CSV file of a run.

    Parameters
    ----------
    filepath
        A file with the columns vpp_stage, name, step, optionally micro_step, and statistics.

    Returns
    -------
    dict
        ``vp{vpp_stage}:{name}[:micro{micro_step}]`` -> step -> statistic -> value.

    Raises
    ------
    ValueError
        When a name has a step twice.
    """
    found: Series = {}
    with open(filepath, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = f"vp{row['vpp_stage']}:{row['name']}"
            if "micro_step" in row:
                name += f":micro{row['micro_step']}"
            steps, step = found.setdefault(name, {}), int(row["step"])
            if step in steps:
                raise ValueError(f"duplicated step({step}) of {name} in {os.fspath(filepath)}")
            steps[step] = {op: float(row[op]) for op in row if op in _STATISTICS}
    return found


def update_dict(dict1: dict[Any, Any], dict2: dict[Any, Any]) -> dict[Any, Any]:
    """Merge ``dict2`` into ``dict1`` at every depth; ValueError names a key that both have."""
    for key, value in dict2.items():
        if key not in dict1:
            dict1[key] = value
        elif isinstance(dict1[key], dict) and isinstance(value, dict):
            try:
                update_dict(dict1[key], value)
            except ValueError as error:
                raise ValueError(f"Error updating nested dict failed at key '{key}': {error}") from error
        else:
            raise ValueError(f"duplicate key: {key}")
    return dict1


def write_step(output_dirpath: str, parse_step_result: Series, rank: int | str, data_type: str) -> None:
    """Write the result of `parse_step_fn` as a TensorBoard file in ``{output_dirpath}/rank{rank}/{data_type}``.

    Existing files there are replaced. Requires the package tensorboard.
    """
    from torch.utils.tensorboard import SummaryWriter

    path = os.path.join(output_dirpath, f"rank{rank}", data_type)
    if os.path.exists(path):
        shutil.rmtree(path)
    writer = SummaryWriter(path)
    for name, steps in parse_step_result.items():
        for step in sorted(steps):
            for op, value in steps[step].items():
                writer.add_scalar(f"{name}/{op}", value, step)
    writer.close()


def csv2tb_by_step_work(
    target_output_dirs: list[dict[str, Any]], output_dirpath: str, data_type_list: list[str]
) -> None:
    """Do what `csv2tensorboard_by_step` does for the directories ``[{"path": ..., "rank": ...}]``, one by one."""
    for directory in target_output_dirs:
        for data_type in data_type_list:
            found: Series = {}
            for filename in sorted(os.listdir(directory["path"])):
                if re.match(rf"{data_type}_\d+-\d+.*\.csv$", filename):
                    update_dict(found, parse_step_fn(os.path.join(directory["path"], filename)))
            if found:
                write_step(output_dirpath, found, directory["rank"], data_type)
