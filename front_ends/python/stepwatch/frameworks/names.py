"""Names of modules and parameters as the user wrote them, without what wrappers put in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_COMPILED = "_orig_mod"
# The attributes under which FSDP1, activation checkpointing and torch.compile keep the module that they wrap.
_PUT_IN = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module", _COMPILED})


def as_written(name: str) -> str | None:
    """Return a name without the parts that wrappers have put in, or None if it has none.

    Parameters
    ----------
    name : str
        As torch gives it, such as "layers.0._checkpoint_wrapped_module.fc".
    """
    parts = name.split(".")
    own = [part for part in parts if part not in _PUT_IN]
    return None if len(own) == len(parts) else ".".join(own)


def is_wrapper(module: Any) -> bool:
    """Tell whether a module only calls the one inside, with which it shares its name as the user wrote it."""
    return _inside(module) is not None


def is_compiled_wrapper(module: Any) -> bool:
    """Tell whether a module is what `torch.compile(module)` has returned."""
    return _COMPILED in getattr(module, "_modules", ())


def places_to_watch(modules: Iterable[Any]) -> dict[int, Any]:
    """Find the modules of the user that are called, and whose hooks are called, only through what torch.compile made.

    Parameters
    ----------
    modules : iterable of torch.nn.Module
        In the order in which torch names them.

    Returns
    -------
    dict of int to torch.nn.Module
        By the id of such a module, the wrapper that sees its tensors.
    """
    found: dict[int, Any] = {}
    for outer in modules:
        if not is_compiled_wrapper(outer):
            continue
        module, inside = outer, _inside(outer)
        while inside is not None:
            module, inside = inside, _inside(inside)
        found.setdefault(id(module), outer)
    return found


def _inside(module: Any) -> Any:
    children = getattr(module, "_modules", {})
    return next((children[name] for name in _PUT_IN if name in children), None)
