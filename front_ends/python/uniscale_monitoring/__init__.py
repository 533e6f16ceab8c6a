"""A stand-in for the package of this name that InternEvo imports and that is not public.

It has the four functions that InternEvo calls, and reports to stepwatchd.
"""

from stepwatch.compat.field_logger import get_logger
from stepwatch.compat.light_monitor import init_monitor, send_exception_msg, send_meta

__all__ = ["get_logger", "init_monitor", "send_exception_msg", "send_meta"]
