"""Hooks that MindSpore can also compile.

MindSpore compiles a hook together with the cell wherever a graph contains the cell (GRAPH_MODE, `mindspore.jit`). The
compilation, and with it the training, fails at `try`, `import`, a fixed signature, a lambda or a builtin. So a hook is
a plain function that only calls the global `_deliver`. In a graph that is the function below, which does nothing; in
PyNative mode each hook has globals of its own, with the function to call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


def _nothing(*_: Any) -> None:
    return None


_deliver = functools.partial(_nothing)


def _of_cell(cell, *rest):  # its text is compiled by MindSpore, without annotations
    _deliver(cell, *rest)


def _of_parameter(gradient):
    _deliver(gradient)
    return gradient  # None is an error


def cell_hook(deliver: Callable[..., None]) -> Callable[..., None]:
    """Return a hook of a cell, or of an optimizer, that passes its arguments on.

    Parameters
    ----------
    deliver : callable
        Must not raise anything but what is to end the training.
    """
    return _with_own_globals(_of_cell, deliver)


def parameter_hook(deliver: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Return a hook of a parameter that passes the gradient on and returns it.

    Parameters
    ----------
    deliver : callable
        Must not raise.
    """
    return _with_own_globals(_of_parameter, deliver)


def _with_own_globals(template: Any, deliver: Callable[..., None]) -> Any:
    own = {"__name__": __name__, "__builtins__": __builtins__, "_deliver": deliver}
    hook = types.FunctionType(template.__code__, own, template.__name__)
    hook.__module__ = __name__  # where MindSpore looks for globals
    return hook
