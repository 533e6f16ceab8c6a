"""A function of ours inside of somebody else's: what it raises ends there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def quietly(work: Callable[..., None]) -> Callable[..., None]:
    """Return a function that does the same and raises nothing: a framework's log is not to fail by us."""

    def call(*args: Any, **kwargs: Any) -> None:
        try:
            work(*args, **kwargs)
        except Exception:
            pass

    return call
