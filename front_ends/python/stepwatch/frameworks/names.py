"""Names of modules and parameters as in the user's code, without the parts that wrappers add."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_COMPILED = "_orig_mod"
# The attributes under which FSDP1, activation checkpointing and torch.compile store the wrapped module.
_PUT_IN = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module", _COMPILED})


def as_written(name: str) -> str | None:
    """Return a name without the parts that wrappers add, or None if it has no such part.

    Parameters
    ----------
    name : str
        The name in torch, such as "layers.0._checkpoint_wrapped_module.fc".
    """
    parts = name.split(".")
    own = [part for part in parts if part not in _PUT_IN]
    return None if len(own) == len(parts) else ".".join(own)


def is_wrapper(module: Any) -> bool:
    """Return whether a module only calls the one inside it, which has its name in the user's code."""
    return _inside(module) is not None


def is_compiled_wrapper(module: Any) -> bool:
    """Return whether a module is a result of `torch.compile(module)`."""
    return _COMPILED in getattr(module, "_modules", ())


def places_to_watch(modules: Iterable[Any]) -> dict[int, Any]:
    """Find the user's modules that run, and whose hooks run, only through wrappers of torch.compile.

    Parameters
    ----------
    modules : iterable of torch.nn.Module
        In the order in which torch names them.

    Returns
    -------
    dict of int to torch.nn.Module
        The wrapper that receives the tensors, by the id of the module.
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
