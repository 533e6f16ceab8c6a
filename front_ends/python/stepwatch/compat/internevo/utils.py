"""The names of `internlm.monitor.utils`."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

from stepwatch.compat import job_identity, light_monitor


def now_time() -> str:
    """Return the local time, such as Nov27_20-48-00."""
    return datetime.now().strftime("%b%d_%H-%M-%S")


def set_env_var(key: Any, value: Any) -> None:
    """Set a variable of the environment of this process."""
    os.environ[str(key)] = str(value)


def get_job_id() -> str:
    """Return the number that the scheduler gave the job, or "none"."""
    return job_identity.job_id()


def get_job_name() -> str:
    """Return the name of the job."""
    return job_identity.job_name()


def get_job_key() -> str:
    """Return the title of alerts: number and name of the job."""
    return f"{get_job_id()}_{get_job_name()}"


def try_import_send_exception() -> Callable[..., None]:
    """Return the function that reports an exception to the light monitor."""
    return light_monitor.send_exception_msg
