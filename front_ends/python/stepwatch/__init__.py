"""Stepwatch monitors the training state of a running PyTorch job; edits of one config file control it.

`stepwatch.jobs` queries running jobs from other processes. It needs neither torch nor the native core; both are loaded
on the first use of any other name.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwatch._core import __version__
    from stepwatch.jobs import Job, JobError, JobUnreachableError, jobs
    from stepwatch.part import part
    from stepwatch.phase import phase
    from stepwatch.report import report
    from stepwatch.trainer_mon import TrainerMon
    from stepwatch.watch import Watch, watch

__all__ = [
    "Job",
    "JobError",
    "JobUnreachableError",
    "TrainerMon",
    "Watch",
    "__version__",
    "jobs",
    "part",
    "phase",
    "report",
    "watch",
]

_MODULES = {
    "Job": "jobs",
    "JobError": "jobs",
    "JobUnreachableError": "jobs",
    "TrainerMon": "trainer_mon",
    "Watch": "watch",
    "__version__": "_core",
    "jobs": "jobs",
    "part": "part",
    "phase": "phase",
    "report": "report",
    "watch": "watch",
}


class _Package(ModuleType):
    """Keeps functions such as `jobs` and `watch` accessible although their modules have the same names."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_module_of_function = isinstance(value, ModuleType) and _MODULES.get(name) == name
        super().__setattr__(name, getattr(value, name) if is_module_of_function else value)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
