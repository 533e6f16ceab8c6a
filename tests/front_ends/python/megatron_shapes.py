"""Classes shaped like Megatron-core's, for tests without it: they add up, reduce and update as it does on one rank."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

BUFFERS = "megatron.core.distributed.param_and_grad_buffer"
OPTIMIZERS = "megatron.core.optimizer.optimizer"
REDUCED = 0.5  # what stands for the average over ranks


class Bucket:
    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.params_list = parameters


class BucketGroup:
    """Is `_ParamAndGradBucketGroup` in the module of Megatron's buffers."""

    def __init__(self, parameters: list[torch.nn.Parameter], overlaps: bool) -> None:
        self.buckets = [Bucket(parameters)]
        self.overlaps = overlaps
        self.is_last_microbatch = True
        self.ready: set[int] = set()
        self.add_delayed: Callable[[], Any] = lambda: None  # what `backward_dw` does

    def register_grad_ready(self, parameter: torch.nn.Parameter) -> None:
        if self.is_last_microbatch:
            self.ready.add(id(parameter))
            if len(self.ready) == len(self.buckets[0].params_list):
                self.start_grad_sync()

    def start_grad_sync(self) -> None:
        for parameter in self.buckets[0].params_list:
            parameter.main_grad *= REDUCED

    def finish_grad_sync(self) -> None:
        self.add_delayed()
        if not self.overlaps:
            self.start_grad_sync()
        self.ready.clear()


class DistributedDataParallel(torch.nn.Module):
    __module__ = "megatron.core.distributed.distributed_data_parallel"

    def __init__(self, module: torch.nn.Module, overlaps: bool = False) -> None:
        super().__init__()
        self.module = module
        parameters = [each for each in module.parameters() if each.requires_grad]
        self.group = sys.modules[BUFFERS]._ParamAndGradBucketGroup(parameters, overlaps)
        self.grad_accs = []
        for parameter in parameters:
            parameter.main_grad = torch.zeros_like(parameter)
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(self._make_backward_post_hook(parameter))
            self.grad_accs.append(node)

    def _make_backward_post_hook(self, parameter: torch.nn.Parameter) -> Any:
        def hook(*_: Any) -> None:
            parameter.main_grad.add_(parameter.grad)
            parameter.grad = None
            if self.group.overlaps:
                self.group.register_grad_ready(parameter)

        return hook

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self.group.is_last_microbatch = False
        yield
        self.group.is_last_microbatch = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


class MegatronOptimizer:
    __module__ = "megatron.core.optimizer.optimizer"

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.found_inf = False

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    def zero_grad(self) -> None:
        pass

    def take_gradients(self) -> None:
        raise NotImplementedError

    def give_weights(self) -> None:
        pass

    def step_with_ready_grads(self) -> None:
        self.take_gradients()
        self.optimizer.step()
        self.give_weights()

    def step(self) -> Any:
        if self.found_inf:
            return False, None, None
        self.step_with_ready_grads()
        return True, 1.0, 0


class FP32Optimizer(MegatronOptimizer):
    __module__ = "megatron.core.optimizer.optimizer"

    def take_gradients(self) -> None:
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = parameter.main_grad

    def give_weights(self) -> None:
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class Float16OptimizerWithFloat16Params(MegatronOptimizer):
    __module__ = "megatron.core.optimizer.optimizer"

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.float16_groups: list[Any] = []
        self.fp32_from_float16_groups: list[Any] = []
        self.fp32_from_fp32_groups: list[Any] = []
        for group in optimizer.param_groups:
            own = list(group["params"])
            copies = [each.detach().clone().float() for each in own]
            group["params"] = copies
            self.float16_groups.append(own)
            self.fp32_from_float16_groups.append(copies)
            self.fp32_from_fp32_groups.append([])

    def take_gradients(self) -> None:
        for own, copies in zip(self.float16_groups, self.fp32_from_float16_groups):
            for parameter, copy in zip(own, copies):
                copy.grad = parameter.main_grad.float()

    def give_weights(self) -> None:
        with torch.no_grad():
            for own, copies in zip(self.float16_groups, self.fp32_from_float16_groups):
                for parameter, copy in zip(own, copies):
                    parameter.copy_(copy)


class Range:
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class DistributedOptimizer(MegatronOptimizer):
    """Updates the first half of all elements; the last parameter belongs to another rank."""

    __module__ = "megatron.core.optimizer.distrib_optimizer"

    def __init__(self, optimizer: Any, overlaps: bool = False) -> None:
        super().__init__(optimizer)
        self.ddp_config = types.SimpleNamespace(overlap_param_gather=overlaps)
        (group,) = optimizer.param_groups
        everything = list(group["params"])
        self.buffers = [types.SimpleNamespace(params=everything)]
        self.own = everything[:-1]
        self.ranges = {id(each): Range(0, (each.numel() + 1) // 2) for each in self.own}
        group["params"] = [each.detach().view(-1)[: self.ranges[id(each)].end] for each in self.own]
        self.model_fp32_groups, self.shard_fp32_groups = [self.own], [group["params"]]
        self.model_float16_groups: list[Any] = [[]]
        self.shard_float16_groups: list[Any] = [[]]
        self.shard_fp32_from_float16_groups: list[Any] = [[]]

    def leave_all_to_others(self) -> None:
        self.own = []
        for groups in (self.optimizer.param_groups, [{"params": self.model_fp32_groups[0]}]):
            groups[0]["params"] = []
        self.model_fp32_groups, self.shard_fp32_groups = [[]], [[]]

    def _get_model_param_range_map(self, parameter: torch.nn.Parameter) -> dict[str, Range]:
        return {"param": self.ranges[id(parameter)]}

    def take_gradients(self) -> None:
        for parameter, part in zip(self.own, self.shard_fp32_groups[0]):
            part.grad = parameter.main_grad.view(-1)[: part.numel()]


class ChainedOptimizer(MegatronOptimizer):
    __module__ = "megatron.core.optimizer.optimizer"

    def __init__(self, chained_optimizers: list[MegatronOptimizer]) -> None:
        self.chained_optimizers = chained_optimizers
        self.found_inf = False

    @property
    def optimizer(self) -> Any:
        assert len(self.chained_optimizers) == 1
        return self.chained_optimizers[0].optimizer

    @property
    def param_groups(self) -> Any:
        return [group for each in self.chained_optimizers for group in each.param_groups]

    @property
    def state(self) -> Any:
        return object()  # has no `get`

    def step_with_ready_grads(self) -> None:
        for each in self.chained_optimizers:
            each.step_with_ready_grads()


class LayerWiseDistributedOptimizer(ChainedOptimizer):
    """Updates the parameters of the optimizers in its chain; others are updated by another rank."""

    __module__ = "megatron.core.optimizer.layer_wise_optimizer"

    def __init__(self, chained_optimizers: list[MegatronOptimizer], others: list[torch.nn.Parameter]) -> None:
        super().__init__(chained_optimizers)
        self.dp_cp_params_list = [[each for group in self.param_groups for each in group["params"]], others]
        self.expt_dp_params_list = None


def buffers_module() -> types.ModuleType:
    """Return what is to stand in `sys.modules` as `BUFFERS`; its class is made anew, so that tests share nothing."""
    module = types.ModuleType(BUFFERS)
    functions = {name: each for name, each in vars(BucketGroup).items() if callable(each)}
    module._ParamAndGradBucketGroup = type("_ParamAndGradBucketGroup", (), functions)  # type: ignore[attr-defined]
    return module
