"""Functions that torch.compile must skip; it would otherwise trace the monitor with the compiled step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs eagerly inside code compiled by torch.

    torch's wrapper for this purpose switches the evaluation of frames at each call, which costs more than a small
    function. Calls outside of a compilation therefore go to the function itself.

    Parameters
    ----------
    function : callable
        Called with positional arguments only.

    Returns
    -------
    callable
        The function itself if torch has not loaded its compiler; constructing an optimizer of torch loads it.
    """
    disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
    if disable is None:
        return function
    untraced = disable(function)
    # The compiler evaluates the first function as True. The second reports whether it intercepts the next frame of this
    # thread, also after it has given up on the caller. Versions of torch without one of them use the slow path.
    is_traced = getattr(sys.modules.get("torch.compiler"), "is_dynamo_compiling", None)
    callback = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "get_eval_frame_callback", None)
    if is_traced is None or callback is None:
        return untraced

    def call(*args: Any, **_: Any) -> Any:
        return untraced(*args) if is_traced() or callback() is not None else function(*args)

    return call
