"""The job that this process belongs to: its name, its rank, and InternEvo's global context."""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import Any


def internevo_context() -> Any:
    """Return InternEvo's global context; None if the process has not imported InternEvo."""
    return getattr(sys.modules.get("internlm.core.context"), "global_context", None)


def global_rank() -> int:
    """Return the rank of this process: of InternEvo's context, else of the launcher, else 0."""
    try:
        return int(internevo_context().get_global_rank())
    except Exception:  # no context, or one that is not initialized
        for name in ("RANK", "SLURM_PROCID"):
            if os.environ.get(name, "").isdigit():
                return int(os.environ[name])
        return 0


def is_rank_for_log() -> bool:
    """Return whether this rank sends the alerts of the job: that of InternEvo's context, else rank 0."""
    try:
        return bool(internevo_context().is_rank_for_log())
    except Exception:
        return global_rank() == 0


def job_id() -> str:
    """Return the number that the scheduler gave the job, or "none"."""
    environment = os.environ
    if "SLURM_JOB_ID" in environment:
        return environment["SLURM_JOB_ID"]
    if "KUBERNETES_POD_NAME" in environment:
        return environment["KUBERNETES_POD_NAME"].split("-")[0]
    if "MLP_TASK_INSTANCE_ID" in environment:
        return environment.get("MLP_TASK_ID", "none")
    return "none"


@functools.lru_cache(maxsize=1)
def time_of_first_use() -> str:
    """Return the local time, such as Nov27_20-48-00; the same in every call, so that a job has one name."""
    return time.strftime("%b%d_%H-%M-%S")


def job_name() -> str:
    """Return the name of the job, from the environment (JOB_NAME) or InternEvo's config."""
    name = os.environ.get("JOB_NAME")
    if name is None:
        name = getattr(getattr(internevo_context(), "config", None), "JOB_NAME", None)
    return f"unknown-{time_of_first_use()}" if name is None else str(name)


def run_id() -> str:
    """Return the run under which stepwatchd lists the job: the same on all its ranks, if it has a number or a name."""
    name = job_name()
    if name.startswith("unknown-") and job_id() != "none":
        return job_id()
    return f"{job_id()}_{name}"
