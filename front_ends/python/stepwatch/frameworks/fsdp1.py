"""FullyShardedDataParallel, which accumulates into a flat parameter and calls no hook of its parts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stepwatch.frameworks.fsdp1_flat import flat_of, parts_of_gradient
from stepwatch.frameworks.reduction import Holding, Reduction

_RUNTIME = "torch.distributed.fsdp._runtime_utils"


class Fsdp1Reduction(Reduction):
    """Reports each part of a flat parameter's gradient."""

    framework = "FSDP"
    shares = "under FSDP, rows of weights, moments and reduced gradients cover this rank's shard"

    @staticmethod
    def holdings_of(module: Any) -> Iterator[tuple[Any, Holding]]:
        """Yield a module's own flat parameter and those inside: NO_SHARD copies all, HYBRID_SHARD copies shards."""
        import torch

        handle = getattr(module, "_handle", None)
        if handle is None:
            return
        is_whole = not handle.uses_sharded_strategy
        group = handle.process_group if is_whole else getattr(module, "_inter_node_pg", None)
        distributed = torch.distributed
        ranks = [distributed.get_rank()] if group is None else distributed.get_process_group_ranks(group)
        flat = handle.flat_param
        yield from ((parameter, Holding(ranks, is_whole)) for parameter in (flat, *(flat._params or ())))

    def _replace(self) -> bool:
        runtime = sys.modules.get(_RUNTIME)
        original = None if runtime is None else runtime.__dict__.get("_post_backward_hook")
        if original is None:
            return False
        report = self._reporter()
        stand_ins: dict[int, list[Any]] = {}
        for part in self._parameters:
            if flat_of(part) is not None:
                stand_ins.setdefault(id(flat_of(part)), []).append(part)

        @functools.wraps(original)
        def post_backward_hook(state: Any, handle: Any, *args: Any, **kwargs: Any) -> Any:
            report(_parts_of(handle.flat_param, stand_ins))
            return original(state, handle, *args, **kwargs)

        self._patches.put(runtime, "_post_backward_hook", post_backward_hook)
        return True


def _parts_of(flat: Any, stand_ins: Mapping[int, Sequence[Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield each parameter of FSDP1's flat parameter with its part of the gradient; padding lies between the parts."""
    if flat.grad is None:
        return
    if flat._params is None:  # use_orig_params=False: the model has only the flat parameter
        yield from parts_of_gradient(flat, stand_ins.get(id(flat), ()))
        return
    parts = zip(flat.grad.split(list(flat._numels_with_padding)), flat._is_padding_mask)
    unpadded = [part for part, is_padding in parts if not is_padding]
    for parameter, part, shape in zip(flat._params, unpadded, flat._shapes):
        yield parameter, part.view(shape)
