"""Former name of :mod:`stepwatch.control_socket`; it goes with the next release."""

from __future__ import annotations

import warnings

from stepwatch.control_socket import (
    ANSWER_SECONDS,
    JobError,
    JobUnreachableError,
    SilenceError,
    ask,
    connect,
    is_ours,
    stream,
)

__all__ = ["ANSWER_SECONDS", "JobError", "JobUnreachableError", "SilenceError", "ask", "connect", "is_ours", "stream"]

warnings.warn("stepwatch.door is now stepwatch.control_socket", DeprecationWarning, stacklevel=2)
