"""Unwrapping of isend and irecv for P2POp, which compares its `op` with torch's own functions."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from stepwatch.hooks.patches import Patches

_INSIDE = "_stepwatch_inside"


class _Lease:
    """Held by wrappers; ends when the last of them is destroyed."""


def take_wrapped(p2p_op: type, wrappers: Sequence[Callable[..., Any]]) -> None:
    """Replace a wrapper in a P2POp by the function inside, as long as one of the wrappers exists.

    A P2POp then never holds a wrapper and works before, during and after their lifetime. A module that imports isend by
    name while it is wrapped keeps the wrapper alive, and P2POp continues to accept it.

    Parameters
    ----------
    p2p_op : type
        torch.distributed.P2POp.
    wrappers : sequence of function
        With `__wrapped__`, as functools.wraps leaves it.
    """
    lease = _Lease()
    for wrapper in wrappers:
        setattr(wrapper, _INSIDE, wrapper.__wrapped__)  # type: ignore[attr-defined]
        wrapper._stepwatch_lease = lease  # type: ignore[attr-defined]
    patches = Patches()
    patches.put(p2p_op, "__new__", staticmethod(_with_inside(p2p_op.__new__)))
    patches.put(p2p_op, "__init__", _with_inside(p2p_op.__init__))  # type: ignore[misc]
    weakref.finalize(lease, patches.remove).atexit = False


def _with_inside(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(this: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return original(this, getattr(op, _INSIDE, op), *args, **kwargs)

    return method
