"""Classes shaped like DeepSpeed's, for tests without it: one of two ranks, of which the other's data are alike."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

STAGE12 = "deepspeed.runtime.zero.stage_1_and_2"
STAGE3 = "deepspeed.runtime.zero.stage3"
BF16 = "deepspeed.runtime.bf16_optimizer"


class Optimizer:
    """The common part: an optimizer inside, which updates flat copies."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.overflow = self.overflows = False
        self.own = [each for group in optimizer.param_groups for each in group["params"]]
        self.is_boundary = True

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    def is_gradient_accumulation_boundary(self) -> bool:
        return self.is_boundary

    def flat(self) -> torch.Tensor:
        return torch.cat([each.detach().reshape(-1).float() for each in self.own])

    def put(self, flat: torch.Tensor) -> None:
        offset = 0
        with torch.no_grad():
            for each in self.own:
                each.copy_(flat[offset : offset + each.numel()].view_as(each))
                offset += each.numel()

    def step(self) -> None:
        self.overflow = self.overflows
        if not self.overflow:
            self.update()

    def update(self) -> None:
        raise NotImplementedError


class Fragment:
    """Is `tensor_fragment`."""

    def __init__(self, gradients: dict[int, Any], start: int, stop: int, group: int = 0) -> None:
        self.gradients, self.group = gradients, group
        self.hp_fragment_address = types.SimpleNamespace(start=start, numel=stop - start)
        self.optim_fragment: Any = None

    def get_lp_grad_fragment(self, index: int) -> torch.Tensor:
        if self.gradients.get(self.group) is None:
            raise ValueError("Gradients are only available immediately after backward and before engine step")
        return self.gradients[self.group][index]


class ZeroOptimizer(Optimizer):
    """Keeps all parameters of a group but the last one; the gradients it has reduced are halves of those it got."""

    def __init__(
        self, optimizer: Any, stage: int, overlaps: bool = False, round_robin: bool = False, scaler: Any = None
    ) -> None:
        super().__init__(optimizer)
        self.partition_gradients, self.overlap_comm = stage == 2, overlaps
        self.contiguous_gradients, self.use_grad_accum_attribute = True, False
        self.round_robin_gradients, self.cpu_offload = round_robin, False
        self.torch_autocast_gradscaler = scaler
        self.bit16_groups = [list(group["params"]) for group in optimizer.param_groups]
        self.averaged_gradients: dict[int, Any] = {}
        orders = [[*group[::2], *group[1::2]] if round_robin else group for group in self.bit16_groups]
        self.params_in_partition = [order[:-1] for order in orders]
        self.round_robin_bit16_padding = [[0] * len(order) for order in orders]
        self.partition_size = [sum(each.numel() for each in kept) for kept in self.params_in_partition]
        self.first_offset = [0] * len(orders)
        self.single_partition_of_fp32_groups = [
            torch.cat([each.detach().reshape(-1) for each in kept]).clone() for kept in self.params_in_partition
        ]
        for group, copy in zip(optimizer.param_groups, self.single_partition_of_fp32_groups):
            group["params"] = [copy]
        self.is_linked = False
        self.sums: dict[int, torch.Tensor] = {}
        for number, parameters in enumerate(self.bit16_groups):
            self.link(number, parameters)

    def link(self, group: int, parameters: list[Any]) -> None:
        # In the order that they had at first, as DeepSpeed does: wrong for `round_robin`.
        start, size = 0, self.partition_size[group]
        for index, each in enumerate(parameters):
            stop = min(start + each.numel(), size)
            each._hp_mapping = Fragment(self.averaged_gradients, start, stop, group) if start < size else None
            each._index_in_param_group = index
            start = stop
            each.register_post_accumulate_grad_hook(lambda parameter: self.process_gradients(parameter, group))

    def process_gradients(self, parameter: torch.nn.Parameter, i: int) -> None:
        if self.partition_gradients or self.overlap_comm:
            self.reduce_ready_partitions_and_remove_grads(parameter, i)

    def reduce_ready_partitions_and_remove_grads(self, parameter: torch.nn.Parameter, i: int) -> None:
        if not self.partition_gradients and not self.is_boundary:
            return
        half = parameter.grad / 2
        self.sums[id(parameter)] = self.sums[id(parameter)] + half if id(parameter) in self.sums else half
        parameter.grad = None

    def reduce_gradients(self) -> None:
        if not self.partition_gradients and not self.overlap_comm:
            for parameter in self.own:
                self.reduce_ready_partitions_and_remove_grads(parameter, 0)
        for group, kept in enumerate(self.params_in_partition):
            self.averaged_gradients[group] = [self.sums[id(each)] for each in kept]

    def update(self) -> None:
        groups = self.optimizer.param_groups
        for number, copy in enumerate(self.single_partition_of_fp32_groups):
            copy.grad = torch.cat([each.reshape(-1) for each in self.averaged_gradients[number]])
            self.optimizer.param_groups = [groups[number]]
            self.step_inside()
            self.optimizer.param_groups = groups
            self.link_states()
            start = 0
            for each in self.params_in_partition[number]:
                each.data.copy_(copy[start : start + each.numel()].view_as(each))
                start += each.numel()
            self.averaged_gradients[number] = None
        self.sums.clear()

    def step_inside(self) -> None:
        if self.torch_autocast_gradscaler is None:
            self.optimizer.step()
            return
        self.torch_autocast_gradscaler.step(self.optimizer)
        self.torch_autocast_gradscaler.update()

    def link_states(self) -> None:
        # After the update of the first group, of all: the others have no state yet.
        for each in () if self.is_linked else self.own:
            own = each._hp_mapping
            if own is not None:
                state = self.optimizer.state[self.single_partition_of_fp32_groups[own.group]]
                start, size = own.hp_fragment_address.start, own.hp_fragment_address.numel
                own.optim_fragment = {
                    name: state[name][start : start + size] for name in ("exp_avg", "exp_avg_sq") if name in state
                }
        self.is_linked = True


class Bf16Optimizer(Optimizer):
    """Is `BF16_Optimizer`: adds up whole gradients in fp32, and takes them from the parameters after each pass."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.bf16_groups = [self.own]
        self.fp32_groups_gradients = [[torch.zeros(each.numel()) for each in self.own]]
        self.fp32_groups_has_gradients = [[False] * len(self.own)]
        self.fp32_groups_flat_partition = [self.flat()]
        optimizer.param_groups[0]["params"] = list(self.fp32_groups_flat_partition)
        offset = 0
        for each in self.own:
            each._hp_mapping = Fragment({}, offset, offset + each.numel())
            offset += each.numel()

    def backward_epilogue(self) -> None:
        for number, each in enumerate(self.own):
            self._update_hp_grad(each, 0, number, False)
            each.grad = None

    def _update_hp_grad(self, lp: torch.nn.Parameter, group_idx: int, param_idx: int, clear_lp_grads: bool) -> None:
        if lp.grad is not None:
            self.fp32_groups_gradients[group_idx][param_idx].add_(lp.grad.view(-1))
            self.fp32_groups_has_gradients[group_idx][param_idx] = True

    def reduce_gradients(self) -> None:
        for gradient in self.fp32_groups_gradients[0]:
            gradient /= 2

    def update(self) -> None:
        (copy,) = self.fp32_groups_flat_partition
        copy.grad = torch.cat(self.fp32_groups_gradients[0])
        self.optimizer.step()
        self.put(copy)
        for gradient in self.fp32_groups_gradients[0]:
            gradient.zero_()


class ZeroOptimizerStage3(Optimizer):
    """Keeps the second half of each parameter, padded where its size is odd."""

    def __init__(self, optimizer: Any, offloads: bool = False, sub_groups: int = 1) -> None:
        super().__init__(optimizer)
        size = -(-len(self.own) // sub_groups)
        self.fp16_groups = [self.own[start : start + size] for start in range(0, len(self.own), size)]
        self.sub_group_to_group_id = dict.fromkeys(range(sub_groups), 0)
        self.offload_optimizer = offloads
        self.averaged_gradients: dict[int, Any] = {}
        self.grad_position: dict[int, list[int]] = {}
        self.whole: dict[int, torch.Tensor] = {}
        self.sums: dict[int, torch.Tensor] = {}
        self.fp32_partitioned_groups_flat = [self.flat_group(number) for number in range(sub_groups)]
        optimizer.param_groups[0]["params"] = []

    def flat_group(self, number: int) -> torch.Tensor:
        offset = 0
        for each in self.fp16_groups[number]:
            size = (each.numel() + 1) // 2
            each.ds_id, each.ds_numel = len(self.grad_position), each.numel()
            each.ds_process_group = types.SimpleNamespace(rank=lambda: 1)
            each.ds_tensor = self.second_half(each.detach().reshape(-1))
            each.ds_tensor.ds_numel = size
            self.grad_position[each.ds_id] = [number, offset, size]
            offset += size
            each.register_post_accumulate_grad_hook(
                lambda parameter: self.reduce_ready_partitions_and_remove_grads(parameter)
            )
        return torch.cat([each.ds_tensor for each in self.fp16_groups[number]]).clone()

    @staticmethod
    def second_half(flat: torch.Tensor) -> torch.Tensor:
        padded = torch.cat([flat, torch.full((flat.numel() % 2,), 99.0)])
        return padded[padded.numel() // 2 :].clone()

    def get_param_id(self, parameter: torch.nn.Parameter) -> int:
        return parameter.ds_id

    def _swappable_optimizer_subgroup(self, group: int) -> bool:
        return False

    def reduce_ready_partitions_and_remove_grads(self, parameter: torch.nn.Parameter) -> None:
        self.reduce_independent_p_g_buckets_and_remove_grads(parameter)

    def reduce_independent_p_g_buckets_and_remove_grads(self, parameter: torch.nn.Parameter) -> None:
        half = parameter.grad.reshape(-1) / 2
        self.sums[parameter.ds_id] = self.sums[parameter.ds_id] + half if parameter.ds_id in self.sums else half
        parameter.grad = None

    def reduce_gradients(self) -> None:
        for number, flat in enumerate(self.fp32_partitioned_groups_flat):
            parts = [self.second_half(self.sums[each.ds_id]) for each in self.fp16_groups[number]]
            flat.grad = torch.cat(parts)
            if not self.offload_optimizer:
                self.averaged_gradients[number] = parts

    def update(self) -> None:
        for flat in self.fp32_partitioned_groups_flat:
            self.optimizer.param_groups[0]["params"] = [flat]
            self.optimizer.step()
            self.optimizer.param_groups[0]["params"] = []
        for each in self.own:
            group, start, size = self.grad_position[each.ds_id]
            each.ds_tensor.copy_(self.fp32_partitioned_groups_flat[group][start : start + size])
        self.averaged_gradients.clear()
        self.sums.clear()


class UnfusedOptimizer(Optimizer):
    """Is `FP16_UnfusedOptimizer`: a copy of each parameter."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.fp16_groups = [self.own]
        self.fp32_groups = [[each.detach().clone().float() for each in self.own]]
        optimizer.param_groups[0]["params"] = list(self.fp32_groups[0])

    def reduce_gradients(self) -> None:
        for each in self.own:
            each.grad /= 2

    def update(self) -> None:
        for each, copy in zip(self.own, self.fp32_groups[0]):
            copy.grad, each.grad = each.grad.float(), None
        self.optimizer.step()
        self.put(torch.cat([copy.reshape(-1) for copy in self.fp32_groups[0]]))


class FusedOptimizer(UnfusedOptimizer):
    """Is `FP16_Optimizer`: one flat copy."""

    def __init__(self, optimizer: Any) -> None:
        Optimizer.__init__(self, optimizer)
        self.fp16_groups = [self.own]
        self.fp32_groups_flat = [self.flat()]
        optimizer.param_groups[0]["params"] = list(self.fp32_groups_flat)

    def update(self) -> None:
        (copy,) = self.fp32_groups_flat
        copy.grad = torch.cat([each.grad.reshape(-1).float() for each in self.own])
        self.optimizer.step()
        self.put(copy)
        for each in self.own:
            each.grad = None


def modules() -> dict[str, types.ModuleType]:
    """Return what is to stand in `sys.modules`, with classes made anew, so that tests share nothing."""
    found = {"deepspeed": types.ModuleType("deepspeed")}
    for name, kind, shape in (
        (STAGE12, "DeepSpeedZeroOptimizer", ZeroOptimizer),
        (STAGE3, "DeepSpeedZeroOptimizer_Stage3", ZeroOptimizerStage3),
        (BF16, "BF16_Optimizer", Bf16Optimizer),
        ("deepspeed.runtime.fp16.unfused_optimizer", "FP16_UnfusedOptimizer", UnfusedOptimizer),
        ("deepspeed.runtime.fp16.fused_optimizer", "FP16_Optimizer", FusedOptimizer),
    ):
        own = {key: value for key, value in vars(shape).items() if callable(value)}
        found[name] = types.ModuleType(name)
        setattr(found[name], kind, type(kind, (shape,), {**own, "__init__": _init_of(shape), "__module__": name}))
    return found


def _init_of(shape: type) -> Any:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        shape.__init__(self, *args, **kwargs)  # whose `super()` is that of the shape

    return init


def made(module: str, kind: str, *args: Any, **kwargs: Any) -> Any:
    """Return an optimizer of a class in `sys.modules`."""
    return getattr(sys.modules[module], kind)(*args, **kwargs)


class DeepSpeedEngine:
    """Calls the optimizer in the last micro-batch of a step."""

    __module__ = "deepspeed.runtime.engine"

    def __init__(self, module: torch.nn.Module, optimizer: Any, micro_batches: int) -> None:
        self.module, self.optimizer = module, optimizer
        self.micro_batches, self.micro_steps = micro_batches, 0

    def backward(self, loss: torch.Tensor) -> None:
        self.optimizer.is_boundary = (self.micro_steps + 1) % self.micro_batches == 0
        loss.backward()
        if hasattr(self.optimizer, "backward_epilogue"):
            self.optimizer.backward_epilogue()
        if self.optimizer.is_boundary:
            self.optimizer.reduce_gradients()

    def step(self) -> None:
        self.micro_steps += 1
        if self.micro_steps % self.micro_batches == 0:
            self.optimizer.step()
