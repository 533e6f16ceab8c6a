"""A logger for InternEvo, whose messages have fields: ``logger.info("{line}", line=line, extra={"step": 3})``."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

_FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s in %(funcName)s -- %(message)s"
_loggers: dict[str, FieldLogger] = {}


class FieldLogger(logging.Logger):
    """Formats a message with the keyword arguments that logging does not know."""

    def _log(  # type: ignore[override]
        self,
        level: int,
        msg: object,
        args: Any,
        exc_info: Any = None,
        extra: Mapping[str, object] | None = None,
        stack_info: bool = False,
        stacklevel: int = 1,
        **fields: Any,
    ) -> None:
        if fields:
            try:
                msg = str(msg).format(**fields)
            except (LookupError, ValueError, AttributeError):
                msg = f"{msg} {fields}"
        super()._log(level, msg, args, exc_info, extra, stack_info, stacklevel + 1)


def get_logger(
    name: str = "internlm", level: str = "info", filename: str | None = None, is_std: bool = True
) -> FieldLogger:
    """Return the logger of a name, which writes to a file, to standard error, or to both.

    Parameters
    ----------
    name : str
    level : str
        "debug", "info", "warning", "error" or "critical".
    filename : str, optional
        The file; missing directories are made. If it cannot be opened, a warning is logged instead.
    is_std : bool
        Whether to write to standard error.
    """
    found = _loggers.get(name)
    if found is None:
        found = _loggers[name] = FieldLogger(name)
        if is_std:
            _add(found, logging.StreamHandler())
    found.setLevel(str(level).upper() if str(level).upper() in logging._nameToLevel else logging.INFO)
    if filename and not any(
        getattr(handler, "baseFilename", None) == os.path.abspath(filename) for handler in found.handlers
    ):
        try:
            os.makedirs(os.path.dirname(os.path.abspath(filename)), exist_ok=True)
            _add(found, logging.FileHandler(filename, delay=False))
        except OSError as error:
            found.warning("cannot write the log file %s: %s", filename, error.strerror)
    return found


def _add(logger: logging.Logger, handler: logging.Handler) -> None:
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger.addHandler(handler)
