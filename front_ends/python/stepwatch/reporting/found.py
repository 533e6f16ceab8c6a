"""The default monitor for functions of the package that name no monitor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter


def reporter_in_use() -> Reporter | None:
    """Return the reporter of the open monitor that was opened first; None if there is no open monitor."""
    watch = sys.modules.get("stepwatch.watch")
    return None if watch is None else watch.reporter_in_use()
