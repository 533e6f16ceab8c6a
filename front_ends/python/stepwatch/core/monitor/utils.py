"""msProbe's checks of single config values and arguments, and its search for run directories.

The rules are those of the config parser: each check passes it a config of one key.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections import namedtuple
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from stepwatch import _core
from stepwatch.csv2db import get_target_output_dir

__all__ = [
    "MVResult",
    "MsgConst",
    "filter_special_chars",
    "get_output_base_dir",
    "get_target_output_dir",
    "time_str2time_digit",
    "validate_append_output",
    "validate_alert",
    "validate_cc_distribution",
    "validate_config",
    "validate_dynamic_on",
    "validate_int_arg",
    "validate_l2_targets",
    "validate_mg_distribution",
    "validate_monitor_mbs_grad",
    "validate_ndigits",
    "validate_ops",
    "validate_param_distribution",
    "validate_print_struct",
    "validate_ranks",
    "validate_recording_l2_features",
    "validate_sa_order",
    "validate_set_monitor",
    "validate_squash_name",
    "validate_step_count_per_record",
    "validate_targets",
    "validate_ur_distribution",
    "validate_wg_distribution",
    "validate_xy_distribution",
]

logger = logging.getLogger(__name__)

# First and second moment of an optimizer, its update, and the update's ratio.
MVResult = namedtuple("MVResult", ("exp_avg", "exp_avg_sq", "update", "ratio"))

_COLLECT_TIMES_FOREVER = 100_000_000

# The position in the config text, which is unknown to a caller who passes a dict.
_PLACE = re.compile(r"^line \d+, column \d+, ")


def _check_config(config: dict[str, Any]) -> None:
    try:
        _core.check_config_text(json.dumps(config))
    except (TypeError, ValueError) as error:
        raise type(error)(_PLACE.sub("", str(error))) from None


def _check(key: str, value: Any) -> None:
    _check_config({key: value})


def _checker(key: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        _check(key, value)

    check.__name__ = check.__qualname__ = f"validate_{key}"
    check.__doc__ = f"Raise TypeError or ValueError unless the value is usable for `{key}`."
    return check


validate_targets = _checker("targets")
validate_l2_targets = _checker("l2_targets")
validate_recording_l2_features = _checker("recording_l2_features")
validate_sa_order = _checker("sa_order")
validate_print_struct = _checker("print_struct")
validate_ur_distribution = _checker("ur_distribution")
validate_xy_distribution = _checker("xy_distribution")
validate_wg_distribution = _checker("wg_distribution")
validate_mg_distribution = _checker("mg_direction")
validate_param_distribution = _checker("param_distribution")
validate_cc_distribution = _checker("cc_distribution")
validate_squash_name = _checker("squash_name")
validate_alert = _checker("alert")
validate_step_count_per_record = _checker("step_count_per_record")
validate_dynamic_on = _checker("dynamic_on")
validate_append_output = _checker("append_output")


def validate_ndigits(ndigits: Any) -> None:
    """Raise ValueError unless this is an integer from 0 to 20, or None for a config without the key."""
    if ndigits is not None:
        _check("ndigits", ndigits)


def validate_ranks(ranks: Any) -> None:
    """Raise TypeError unless this is a list of integers."""
    _check("module_ranks", ranks)


def validate_monitor_mbs_grad(monitor_mbs_grad: Any) -> bool:
    """Return the value; False, with a warning, if it is not a bool."""
    if isinstance(monitor_mbs_grad, bool):
        return monitor_mbs_grad
    logger.warning("monitor_mbs_grad should be a bool, found %r; False is used", monitor_mbs_grad)
    return False


def validate_ops(ops: Any) -> list[str]:
    """Return the usable statistics.

    Unknown ones are left out with a warning; an empty list becomes `norm`; `shape` and `dtype` come last unless the
    list names them. TypeError if `ops` is not a list.
    """
    _check("ops", ops)
    for op in ops:
        if op not in _core.OPS:
            logger.warning("ops: unknown statistic %r is left out; known: %s", op, ", ".join(_core.OPS))
    known = [op for op in ops if op in _core.OPS] or ["norm"]
    return known + [op for op in ("shape", "dtype") if op not in known]


def validate_int_arg(value: Any, name: str, minimum: int, default_value: int) -> int:
    """Return the value; the default for None and, with a warning, if it is not an integer of at least `minimum`."""
    if value is None:
        return default_value
    if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
        return value
    logger.warning("%s should be an integer of at least %d, found %r; %d is used", name, minimum, value, default_value)
    return default_value


def validate_set_monitor(grad_acc_steps: Any, start_iteration: Any) -> tuple[int, int]:
    """Return usable arguments of `set_monitor`; 1 and 0 replace unusable ones, with a warning."""
    return (
        validate_int_arg(grad_acc_steps, "grad_acc_steps", 1, 1),
        validate_int_arg(start_iteration, "start_iteration", 0, 0),
    )


def validate_config(config: dict[str, Any]) -> None:
    """Check a whole config, and replace missing or unusable values in it.

    Parameters
    ----------
    config : dict
        As read from config.json. `ops`, `start_step`, `collect_times`, `step_interval`, `monitor_mbs_grad`, and for
        empty `targets` also `targets` and `all_xy`, are replaced.

    Raises
    ------
    TypeError, ValueError
        As for a config file that is refused.
    """
    _check_config(config)
    config["ops"] = validate_ops(config.get("ops", []))
    config["start_step"] = validate_int_arg(config.get("start_step"), "start_step", 0, 0)
    forever = _COLLECT_TIMES_FOREVER
    config["collect_times"] = validate_int_arg(config.get("collect_times"), "collect_times", 0, forever)
    config["step_interval"] = validate_int_arg(config.get("step_interval"), "step_interval", 1, 1)
    config["monitor_mbs_grad"] = validate_monitor_mbs_grad(config.get("monitor_mbs_grad", False))
    if not config.get("targets"):
        config["targets"] = {"": {}}
        if config.get("xy_distribution", False):
            config["all_xy"] = True


class MsgConst:
    """The characters that `filter_special_chars` replaces."""

    SPECIAL_CHAR: ClassVar[list[str]] = [
        *("\n", "\r", "\u007f", "\b", "\f", "\t", "\u000b"),
        *("%08", "%0a", "%0b", "%0c", "%0d", "%7f"),
    ]


def filter_special_chars(func: Callable[[str], Any]) -> Callable[[str], Any]:
    """Wrap a function of a message: control characters, also escaped ones, become underscores."""

    @functools.wraps(func)
    def filtered(msg: str) -> Any:
        for special in MsgConst.SPECIAL_CHAR:
            msg = msg.replace(special, "_")
        return func(msg)

    return filtered


def get_output_base_dir() -> str:
    """Return the base of all output: MONITOR_OUTPUT_DIR, else ./monitor_output."""
    return os.getenv("MONITOR_OUTPUT_DIR", "./monitor_output")


def time_str2time_digit(time_str: str) -> datetime:
    """Return the time at the start of a run directory's name, such as "Dec03_21-34-40", in the year 1904.

    1904 is a leap year, so directories of 29 February have a time as well. TypeError if the argument is not a str,
    RuntimeError if the text is not such a time.
    """
    if not isinstance(time_str, str):
        raise TypeError(f"time_str:{time_str} should be a str")
    try:
        return datetime.strptime(f"1904 {time_str}", "%Y %b%d_%H-%M-%S")
    except ValueError as error:
        raise RuntimeError(
            f"illegal timestamp: {time_str}; a run directory's name begins with one such as 'Dec03_21-34-40'"
        ) from error
