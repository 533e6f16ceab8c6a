"""Megatron-core's DistributedDataParallel, which accumulates in `main_grad` and reduces in buckets."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stepwatch.frameworks.reduction import Reduction

_BUFFERS = "megatron.core.distributed.param_and_grad_buffer"


class MegatronReduction(Reduction):
    """Reports each main gradient after every micro-batch.

    If gradients are reduced during the backward pass, Megatron's own hook calls `register_grad_ready` between the
    addition and a reduction; otherwise a hook after Megatron's is called. The reduction of a bucket reports all its
    gradients again, which covers gradients without a hook and steps with fewer micro-batches than announced.
    """

    framework = "Megatron"

    def __init__(self, seen: Callable[..., None], guard: Callable[[str, Callable[[], None]], None]) -> None:
        super().__init__(seen, guard)
        self._ready: set[int] = set()  # ids of parameters reported before the hook behind Megatron's runs
        self._reduced: set[int] = set()  # ids of the groups of buckets whose reduction has begun in this step
        self._handles: list[Any] = []

    @staticmethod
    def parameters_of(module: Any) -> Iterable[Any]:
        """Return the parameters with a main gradient."""
        return filter(MegatronReduction.sees, module.parameters())

    @staticmethod
    def sees(parameter: Any) -> bool:
        """Return whether a parameter has a main gradient, as in Megatron's DistributedDataParallel."""
        return hasattr(parameter, "main_grad")

    def _replace(self) -> bool:
        bucket_group = getattr(sys.modules.get(_BUFFERS), "_ParamAndGradBucketGroup", None)
        if bucket_group is None or "start_grad_sync" not in vars(bucket_group):
            return False
        self._watch_buckets(bucket_group)
        self._watch_additions()
        return True

    def _watch_buckets(self, bucket_group: Any) -> None:
        owner = weakref.ref(self)
        ready, start = vars(bucket_group).get("register_grad_ready"), vars(bucket_group)["start_grad_sync"]
        if ready is not None:

            @functools.wraps(ready)
            def register_grad_ready(group: Any, parameter: Any, *args: Any, **kwargs: Any) -> Any:
                reduction = owner()
                if reduction is not None:
                    reduction._ready.add(id(parameter))
                    reduction._report(reduction._added(parameter))
                return ready(group, parameter, *args, **kwargs)

            self._patches.put(bucket_group, "register_grad_ready", register_grad_ready)

        @functools.wraps(start)
        def start_grad_sync(group: Any, *args: Any, **kwargs: Any) -> Any:
            reduction = owner()
            if reduction is not None:
                reduction._before_reduction_of(group)
            return start(group, *args, **kwargs)

        self._patches.put(bucket_group, "start_grad_sync", start_grad_sync)

    def _watch_additions(self) -> None:
        import torch

        owner = weakref.ref(self)
        for parameter in self._parameters:
            if not parameter.requires_grad or not hasattr(parameter, "main_grad"):
                continue
            # Hooks the same node as Megatron; hooks run in the order of registration.
            with torch.enable_grad():
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            self._handles.append(node.register_hook(_behind(owner, weakref.ref(parameter))))

    def _added(self, parameter: Any) -> Iterator[tuple[Any, Any]]:
        gradient = getattr(parameter, "main_grad", None)
        if gradient is not None:
            yield parameter, gradient

    def _after_addition(self, parameter: Any) -> None:
        if id(parameter) in self._ready:
            self._ready.discard(id(parameter))
        else:
            self._report(self._added(parameter))

    def _before_reduction_of(self, group: Any) -> None:
        # In the very first step Megatron calls this twice; the second call has no effect.
        if id(group) in self._reduced:
            return
        self._reduced.add(id(group))

        def report() -> None:
            for bucket in group.buckets:
                for parameter in bucket.params_list:
                    for _, gradient in self._added(parameter):
                        self._seen(id(parameter), gradient, True)

        self._guard("reading gradients that Megatron reduces", report)

    def begin_step(self) -> None:
        """Release the data of the previous step."""
        self._ready.clear()
        self._reduced.clear()

    def remove(self) -> None:
        """Restore Megatron's functions."""
        super().remove()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.begin_step()


def _behind(owner: Any, parameter: Any) -> Any:
    def hook(*_: Any) -> None:
        reduction, own = owner(), parameter()
        if reduction is not None and own is not None:
            reduction._after_addition(own)

    return hook
