"""FullyShardedDataParallel: it accumulates into a flat parameter and calls no hook of its parts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from stepwatch.frameworks.reduction import Reduction

_RUNTIME = "torch.distributed.fsdp._runtime_utils"


class Fsdp1Reduction(Reduction):
    """Tells of each part of a flat parameter's gradient; without `use_orig_params` of the flat one."""

    framework = "FSDP"

    def _replace(self) -> bool:
        runtime = sys.modules.get(_RUNTIME)
        original = None if runtime is None else runtime.__dict__.get("_post_backward_hook")
        if original is None:
            return False
        tell = self._teller()

        @functools.wraps(original)
        def post_backward_hook(state: Any, handle: Any, *args: Any, **kwargs: Any) -> Any:
            tell(_parts_of(handle.flat_param))
            return original(state, handle, *args, **kwargs)

        self._patches.put(runtime, "_post_backward_hook", post_backward_hook)
        return True


def _parts_of(flat: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each parameter of FSDP1's flat parameter with its part of the gradient; padding lies between the parts."""
    if flat.grad is None:
        return
    if flat._params is None:  # use_orig_params=False: the model has the flat one alone
        yield flat, flat.grad
        return
    parts = zip(flat.grad.split(list(flat._numels_with_padding)), flat._is_padding_mask)
    unpadded = [part for part, is_padding in parts if not is_padding]
    for parameter, part, shape in zip(flat._params, unpadded, flat._shapes):
        yield parameter, part.view(shape)
