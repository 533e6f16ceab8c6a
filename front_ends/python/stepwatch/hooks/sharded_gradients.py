"""Gradients of parameters that FSDP shards, seen when they are about to be reduced.

No hook on such a parameter sees them: FSDP1 accumulates into a flat parameter and calls no hook of its parts, FSDP2
calls their hooks itself, with the shard of the reduced gradient. So functions of torch are replaced while a plan wants
`grad_unreduced`.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from stepwatch.hooks.patches import Patches

_FSDP1 = ("torch.distributed.fsdp._runtime_utils",)
# The second: before torch 2.6.
_FSDP2 = (
    "torch.distributed.fsdp._fully_shard._fsdp_param_group",
    "torch.distributed._composable.fsdp._fsdp_param_group",
)


class ShardedGradients:
    """Tells of each whole gradient of a sharded parameter, once a backward pass.

    Parameters
    ----------
    seen : callable
        Called with (id of the parameter in the model, gradient) on an autograd thread, before the gradient is reduced
        or, where this backward pass does not reduce (`no_sync`), when it has been added to those before. What it is
        given has the shape of the whole parameter; under FSDP1 without `use_orig_params` it is flat.
    guard : callable
        Runs a function and keeps what it raises from the training loop: guard(what, function).
    """

    def __init__(self, seen: Callable[[int, Any], None], guard: Callable[[str, Callable[[], None]], None]) -> None:
        self._seen = seen
        self._guard = guard
        self._patches = Patches()
        weakref.finalize(self, self._patches.remove).atexit = False

    def watch(self) -> bool:
        """Begin to tell.

        Returns
        -------
        bool
            False: this torch has none of the places that are known; nothing will be seen.
        """
        self.remove()
        # A module of torch that was never imported is used by no model.
        places = [self._watch_flat(sys.modules[name]) for name in _FSDP1 if name in sys.modules]
        places += [self._watch_groups(sys.modules[name]) for name in _FSDP2 if name in sys.modules]
        return any(places)

    def remove(self) -> None:
        """Give torch its own functions back."""
        self._patches.remove()

    def _tell(self, gradients: Iterable[tuple[Any, Any]]) -> None:
        def tell() -> None:
            for parameter, gradient in gradients:
                self._seen(id(parameter), gradient)

        self._guard("reading gradients that FSDP reduces", tell)

    def _teller(self) -> Callable[[Iterable[tuple[Any, Any]]], None]:
        # The wrappers hang on torch itself: they must not keep a monitor alive that nobody closes, nor its model.
        owner = weakref.ref(self)

        def tell(gradients: Iterable[tuple[Any, Any]]) -> None:
            sharded = owner()
            if sharded is not None:
                sharded._tell(gradients)

        return tell

    def _watch_flat(self, runtime: ModuleType) -> bool:
        original = runtime.__dict__.get("_post_backward_hook")
        if original is None:
            return False

        tell = self._teller()

        @functools.wraps(original)
        def post_backward_hook(state: Any, handle: Any, *args: Any, **kwargs: Any) -> Any:
            tell(_parts_of(handle.flat_param))
            return original(state, handle, *args, **kwargs)

        self._patches.put(runtime, "_post_backward_hook", post_backward_hook)
        return True

    def _watch_groups(self, groups: ModuleType) -> bool:
        foreach_reduce = groups.__dict__.get("foreach_reduce")
        group_class = getattr(groups, "FSDPParamGroup", None)
        post_backward = getattr(group_class, "post_backward", None)
        if foreach_reduce is None or post_backward is None:
            return False

        tell = self._teller()

        @functools.wraps(foreach_reduce)
        def reduce(fsdp_params: Sequence[Any], unsharded_grads: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            tell((part.sharded_param, gradient) for part, gradient in zip(fsdp_params, unsharded_grads))
            return foreach_reduce(fsdp_params, unsharded_grads, *args, **kwargs)

        @functools.wraps(post_backward)
        def accumulate(group: Any, *args: Any, **kwargs: Any) -> Any:
            result = post_backward(group, *args, **kwargs)
            if not group.reduce_grads:
                tell(_accumulated(group.fsdp_params))
            return result

        self._patches.put(groups, "foreach_reduce", reduce)
        self._patches.put(group_class, "post_backward", accumulate)
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


def _accumulated(parts: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the parameters of an FSDP2 group with what has been added up without being reduced.

    Of a DTensor the part of this rank: what torch makes of it for the reduction may be a collective.
    """
    for part in parts:
        if part.unsharded_accumulated_grad is not None:
            yield part.sharded_param, part.unsharded_accumulated_grad
        elif hasattr(part, "_unsharded_param") and part.unsharded_param.grad is not None:
            yield part.sharded_param, part.unsharded_param.grad
