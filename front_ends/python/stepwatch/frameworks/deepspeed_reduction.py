"""Gradients that DeepSpeed's hooks remove from parameters, accumulate elsewhere and reduce."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

from stepwatch.frameworks.reduction import Reduction

_STAGE12 = "deepspeed.runtime.zero.stage_1_and_2"
_STAGE3 = "deepspeed.runtime.zero.stage3"
_BF16 = "deepspeed.runtime.bf16_optimizer"


class DeepSpeedReduction(Reduction):
    """Reports each gradient after every micro-batch, before DeepSpeed reduces it.

    ZeRO 2 and 3 reduce the gradient of each micro-batch separately. This class accumulates it in fp32, so that the last
    report of a step is the sum of all micro-batches, as in other frameworks. In steps of several micro-batches this
    uses the memory of the requested gradients, as long as they are requested.
    """

    framework = "DeepSpeed"

    def __init__(self, seen: Callable[[int, Any], None], guard: Callable[[str, Callable[[], None]], None]) -> None:
        super().__init__(seen, guard)
        self._sums: dict[int, Any] = {}  # by ids of parameters
        self._wanted: set[int] = set()
        self._coalesced: set[int] = set()  # ids of parameters that `coalesce_grad_reduction` is to reduce

    def _replace(self) -> bool:
        self._wanted = {id(parameter) for parameter in self._parameters}
        report = self._on_gradient()
        stage12 = _class_in(_STAGE12, "DeepSpeedZeroOptimizer")
        stage3 = _class_in(_STAGE3, "DeepSpeedZeroOptimizer_Stage3")
        return any(
            [
                self._put(stage12, "reduce_ready_partitions_and_remove_grads", _before_reduction_of_stage12(report)),
                self._put(stage12, "process_gradients", _after_accumulation_of_stage1(report)),
                self._put(stage3, "reduce_ready_partitions_and_remove_grads", _of_coalesced_stage3(report)),
                self._put(
                    stage3, "reduce_independent_p_g_buckets_and_remove_grads", _before_reduction_of_stage3(report)
                ),
                self._put(_class_in(_BF16, "BF16_Optimizer"), "_update_hp_grad", _after_accumulation_in_fp32(report)),
            ]
        )

    def _put(self, kind: Any, name: str, wrapper: Callable[[Any], Any]) -> bool:
        if kind is None or name not in vars(kind):
            return False
        original = vars(kind)[name]
        self._patches.put(kind, name, functools.wraps(original)(wrapper(original)))
        return True

    def _on_gradient(self) -> Callable[..., None]:
        owner = weakref.ref(self)

        def report(optimizer: Any, parameter: Any, gradient: Any, adds_up: bool = False) -> None:
            reduction = owner()
            if reduction is None or gradient is None or id(parameter) not in reduction._wanted:
                return
            if _coalesces(optimizer):  # the gradient is the sum of all micro-batches so far, reduced after the last one
                reduction._coalesced.add(id(parameter))
                adds_up = False
            elif id(parameter) in reduction._coalesced:
                reduction._coalesced.discard(id(parameter))
                return
            add = reduction._sum_of if adds_up else _as_it_is
            reduction._report((each, add(optimizer, each, gradient)) for each in (parameter,))

        return report

    def _sum_of(self, optimizer: Any, parameter: Any, gradient: Any) -> Any:
        before = self._sums.get(id(parameter))
        gradient = gradient.detach()
        if before is not None:
            return before.add_(gradient)
        if not _is_last(optimizer):
            self._sums[id(parameter)] = gradient.float().clone()
        return gradient

    def begin_step(self) -> None:
        """Release the sums of the previous step."""
        self._sums.clear()
        self._coalesced.clear()

    def remove(self) -> None:
        """Restore DeepSpeed's functions."""
        super().remove()
        self.begin_step()
        self._wanted = set()


def _class_in(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


def _as_it_is(optimizer: Any, parameter: Any, gradient: Any) -> Any:
    return gradient


def _is_last(optimizer: Any) -> bool:
    """Return whether DeepSpeed regards the running micro-batch as the last one of the step."""
    last = getattr(optimizer, "is_gradient_accumulation_boundary", False)
    return bool(last() if callable(last) else last)


def _reduces_by_hooks(optimizer: Any) -> bool:
    return bool(optimizer.partition_gradients or optimizer.overlap_comm)


def _coalesces(optimizer: Any) -> bool:
    """Return whether the caller is inside `engine.coalesce_grad_reduction()`."""
    return bool(getattr(optimizer, "_coalesce_grad_reduction", False))


def _gradient_of(optimizer: Any, parameter: Any) -> Any:
    get = getattr(optimizer, "get_gradient_for_reduction", None)
    return parameter.grad if get is None else get(parameter)


def _before_reduction_of_stage12(report: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        def reduce(optimizer: Any, parameter: Any, *args: Any, **kwargs: Any) -> Any:
            # Otherwise it is called only for the last micro-batch, which is reported already.
            if _reduces_by_hooks(optimizer) and getattr(parameter, "ds_grad_is_ready", True):
                report(optimizer, parameter, _gradient_of(optimizer, parameter), optimizer.partition_gradients)
            return original(optimizer, parameter, *args, **kwargs)

        return reduce

    return wrap


def _after_accumulation_of_stage1(report: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        def process(optimizer: Any, parameter: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(optimizer, parameter, *args, **kwargs)
            stays = _coalesces(optimizer) or not _reduces_by_hooks(optimizer)  # otherwise the reduction reports it
            if stays and getattr(parameter, "ds_grad_is_ready", True):
                report(optimizer, parameter, _gradient_of(optimizer, parameter))
            return result

        return process

    return wrap


def _of_coalesced_stage3(report: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        def reduce(optimizer: Any, parameter: Any, *args: Any, **kwargs: Any) -> Any:
            if _coalesces(optimizer) and getattr(parameter, "ds_grad_is_ready", True):
                report(optimizer, parameter, parameter.grad)
            return original(optimizer, parameter, *args, **kwargs)

        return reduce

    return wrap


def _before_reduction_of_stage3(report: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        def reduce(optimizer: Any, parameter: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(parameter, "ds_grad_is_ready", True):
                report(optimizer, parameter, parameter.grad, True)
            return original(optimizer, parameter, *args, **kwargs)

        return reduce

    return wrap


def _after_accumulation_in_fp32(report: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        def update(optimizer: Any, parameter: Any, group: int, number: int, *args: Any, **kwargs: Any) -> Any:
            had_gradient = parameter.grad is not None
            result = original(optimizer, parameter, group, number, *args, **kwargs)
            if had_gradient:
                report(optimizer, parameter, optimizer.fp32_groups_gradients[group][number])
            return result

        return update

    return wrap
