"""Base of the hooks on modules and of their replacements in copies of a model."""

from __future__ import annotations

import contextlib
from typing import Any

from stepwatch import _core


class OwnHook:
    """A hook of a module; a copy of the model contains one that does nothing."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _core.inert_hook()


def is_own(hook: Any) -> bool:
    """Return whether a hook is one of Stepwatch, or its replacement in a copy of a model."""
    return isinstance(hook, OwnHook) or getattr(hook, "__func__", None) is contextlib.nullcontext.__exit__
