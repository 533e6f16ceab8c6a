"""Calls of a module that is compiled by itself (`module.compile()`), observed outside of its graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from stepwatch.frameworks.names import is_compiled_wrapper

_CALL = "_compiled_call_impl"


def is_compiled(module: Any) -> bool:
    """Return whether torch calls a compiled version of a module, in which hooks are traced and inactive."""
    return vars(module).get(_CALL) is not None


def inside_of_compiled(modules: Iterable[Any]) -> set[int]:
    """Find the modules that run inside the graphs of others.

    Parameters
    ----------
    modules : iterable of torch.nn.Module
        All modules.

    Returns
    -------
    set of int
        Their ids, except those of modules that are compiled themselves.
    """
    compiled = [module for module in modules if is_compiled(module) or is_compiled_wrapper(module)]
    return {id(inside) for module in compiled for inside in module.modules()} - {id(module) for module in compiled}


class CompiledCall:
    """Calls hooks around the compiled call of one module, without changing or recompiling its graph.

    Parameters
    ----------
    module : torch.nn.Module
        A module for which `is_compiled` is true.
    before : callable
        As a forward pre-hook with keyword arguments: before(module, args, kwargs).
    after : callable
        As a forward hook with keyword arguments; if the module raises, called with None as the output while the
        exception is handled.
    """

    def __init__(self, module: Any, before: Callable[..., None], after: Callable[..., None]) -> None:
        self._module = module
        self._original = original = vars(module)[_CALL]
        from stepwatch.hooks.eager_hooks import is_traced  # needs torch

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_traced():  # compiled again, as part of the surrounding code
                return original(*args, **kwargs)
            before(module, args, kwargs)
            try:
                output = original(*args, **kwargs)
            except BaseException:
                after(module, args, kwargs, None)
                raise
            after(module, args, kwargs, output)
            return output

        self._call = call
        module.__dict__[_CALL] = call

    def remove(self) -> None:
        """Restore the call of the module, unless other code has replaced ours."""
        if vars(self._module).get(_CALL) is self._call:
            self._module.__dict__[_CALL] = self._original
