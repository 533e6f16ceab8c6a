"""Functions that torch.compile is not to look into: it would trace the monitor with the step that it compiles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as it is inside of what torch compiles.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        The function itself where torch has not loaded its compiler; an optimizer of torch's does when it is made.
    """
    dynamo = sys.modules.get("torch._dynamo")
    disable = getattr(dynamo, "disable", None)
    return function if disable is None else disable(function)
