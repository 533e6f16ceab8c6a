"""DeepSpeed's communication: it keeps references to some operators of torch.distributed from its start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

# The attributes of its backend, and the operators that they hold: the first name that torch has.
_KEPT = {
    "all_gather_function": ("all_gather_into_tensor", "_all_gather_base"),
    "reduce_scatter_function": ("reduce_scatter_tensor", "_reduce_scatter_base"),
}


def kept_operators() -> Iterator[tuple[Any, str, str]]:
    """Yield DeepSpeed's running backend, the attribute and the operator, for each operator that it keeps."""
    backend = getattr(sys.modules.get("deepspeed.comm.comm"), "cdb", None)
    distributed = vars(sys.modules["torch.distributed"])
    for attribute, names in _KEPT.items():
        operator = next((name for name in names if name in distributed), None)
        if operator is not None and callable(getattr(backend, "__dict__", {}).get(attribute)):
            yield backend, attribute, operator
