"""Functions that torch.compile is not to look into: it would trace the monitor with the step that it compiles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as it is inside of what torch compiles.

    What torch returns for that purpose changes the evaluation of frames back and forth at each call, which costs more
    than a function that has little to do. So a call that nothing compiles goes to the function itself.

    Parameters
    ----------
    function : callable
        Called with positional arguments alone.

    Returns
    -------
    callable
        The function itself where torch has not loaded its compiler; an optimizer of torch's does when it is made.
    """
    disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
    if disable is None:
        return function
    untraced = disable(function)
    # The compiler takes what the first one returns for True. The second tells that it would look into whatever runs
    # next in this thread, also where it has given up on the caller. Versions of torch that lack one take the long way.
    is_traced = getattr(sys.modules.get("torch.compiler"), "is_dynamo_compiling", None)
    callback = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "get_eval_frame_callback", None)
    if is_traced is None or callback is None:
        return untraced

    def call(*args: Any, **_: Any) -> Any:
        return untraced(*args) if is_traced() or callback() is not None else function(*args)

    return call
