"""What the hooks on modules have in common, also those that stand in copies of a model."""

from __future__ import annotations

import contextlib
from typing import Any

from stepwatch import _core


class OwnHook:
    """A hook of a module; in a copy of the model stands one that does nothing."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _core.inert_hook()


def is_own(hook: Any) -> bool:
    """Tell whether a hook is one of ours, or what stands in the place of one in a copy of a model."""
    return isinstance(hook, OwnHook) or getattr(hook, "__func__", None) is contextlib.nullcontext.__exit__
