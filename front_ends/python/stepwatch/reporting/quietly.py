"""Isolation of exceptions of Stepwatch inside functions of frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def quietly(work: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls `work` and ignores its exceptions, so that a framework's log never fails."""

    def call(*args: Any, **kwargs: Any) -> None:
        try:
            work(*args, **kwargs)
        except Exception:
            pass

    return call
