"""Search for the optimizer of Megatron-core that wraps another; in a chain, only the chain is stepped."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

_OPTIMIZERS = "megatron.core.optimizer.optimizer"


def leader_of(optimizer: Any) -> Any:
    """Return the optimizer of Megatron that wraps this one, or None.

    Parameters
    ----------
    optimizer : object
        An optimizer of torch or Megatron. It has no reference to its wrapper, so all objects of the process are
        searched.
    """
    if _OPTIMIZERS not in sys.modules:
        return None
    for holder in _holders_of(optimizer):
        chained = isinstance(holder, list)
        for leader in _holders_of(holder) if chained else (holder,):
            if _is_megatrons(leader) and _leads(leader, optimizer):
                return leader
    return None


def _holders_of(value: Any) -> Iterator[Any]:
    """Yield the lists and objects that refer to a value, objects also through their `__dict__`."""
    for holder in gc.get_referrers(value):
        if isinstance(holder, dict):
            yield from (each for each in gc.get_referrers(holder) if getattr(each, "__dict__", None) is holder)
        elif isinstance(holder, list) or _is_megatrons(holder):
            yield holder


def _is_megatrons(value: Any) -> bool:
    return any(
        base.__name__ == "MegatronOptimizer" and base.__module__.startswith("megatron.core")
        for base in type(value).__mro__
    )


def _leads(leader: Any, optimizer: Any) -> bool:
    chained = vars(leader).get("chained_optimizers") or ()
    return vars(leader).get("optimizer") is optimizer or any(each is optimizer for each in chained)
