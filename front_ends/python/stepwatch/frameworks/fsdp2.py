"""fully_shard (FSDP2), which calls the hooks of parameters itself, with the shard of the reduced gradient."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from stepwatch.frameworks.reduction import Reduction

# The second is for torch before 2.6.
_PLACES = (
    "torch.distributed.fsdp._fully_shard._fsdp_param_group",
    "torch.distributed._composable.fsdp._fsdp_param_group",
)


class Fsdp2Reduction(Reduction):
    """Reports each parameter's gradient when its group is reduced, or is accumulated without a reduction."""

    framework = "FSDP"
    shares = "under FSDP, rows of weights, moments and reduced gradients cover this rank's shard"

    @staticmethod
    def parameters_of(module: Any) -> Iterable[Any]:
        """Return the sharded parameters. Parameters that `fully_shard` ignores are not DTensors."""
        return (parameter for parameter in module.parameters() if hasattr(parameter, "to_local"))

    def _replace(self) -> bool:
        return any([self._watch_groups(sys.modules[name]) for name in _PLACES if name in sys.modules])

    def _watch_groups(self, groups: ModuleType) -> bool:
        foreach_reduce = groups.__dict__.get("foreach_reduce")
        group_class = getattr(groups, "FSDPParamGroup", None)
        post_backward = getattr(group_class, "post_backward", None)
        if foreach_reduce is None or post_backward is None:
            return False

        report = self._reporter()

        @functools.wraps(foreach_reduce)
        def reduce(fsdp_params: Sequence[Any], unsharded_grads: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            report((part.sharded_param, gradient) for part, gradient in zip(fsdp_params, unsharded_grads))
            return foreach_reduce(fsdp_params, unsharded_grads, *args, **kwargs)

        @functools.wraps(post_backward)
        def accumulate(group: Any, *args: Any, **kwargs: Any) -> Any:
            result = post_backward(group, *args, **kwargs)
            if not group.reduce_grads:
                report(_accumulated(group.fsdp_params))
            return result

        self._patches.put(groups, "foreach_reduce", reduce)
        self._patches.put(group_class, "post_backward", accumulate)
        return True


def _accumulated(parts: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the parameters of an FSDP2 group with their accumulated, unreduced gradients.

    For a DTensor, this rank's part: torch may convert it for the reduction by a collective.
    """
    for part in parts:
        if part.unsharded_accumulated_grad is not None:
            yield part.sharded_param, part.unsharded_accumulated_grad
        elif hasattr(part, "_unsharded_param") and part.unsharded_param.grad is not None:
            yield part.sharded_param, part.unsharded_param.grad
