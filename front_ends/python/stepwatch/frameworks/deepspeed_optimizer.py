"""DeepSpeed's optimizers with unsharded weights: ZeRO 1 and 2, BF16_Optimizer, and those of fp16.

Gradients, before and after their reduction, include the loss scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stepwatch.frameworks.deepspeed_reduction import DeepSpeedReduction
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter, Sharing, param_groups_of
from stepwatch.frameworks.parameter_sources import MOMENTS, Lookup, group_of, no_moments, nothing, part_of
from stepwatch.frameworks.reduction import Reduction


class DeepSpeedOptimizer(OptimizerAdapter):
    """Base of DeepSpeed's optimizers: they keep lists of the model's parameters and copies of these.

    Attributes
    ----------
    model_groups : str
        The attribute with a list of the model's parameters for each group of the optimizer inside.
    """

    is_understood = True
    model_groups = "fp16_groups"

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        groups = getattr(optimizer, self.model_groups, ())
        # Id of a parameter of the model -> the number of its group, and its position there.
        self.places = {id(each): (i, j) for i, group in enumerate(groups) for j, each in enumerate(group)}
        inner = param_groups_of(optimizer.optimizer)
        self._groups = [group_of(list(group), inner[self.inner_group(i)]) for i, group in enumerate(groups)]

    def inner_group(self, number: int) -> int:
        """Return the number of the inner optimizer's group that updates a group of the model's parameters."""
        return number

    def groups(self) -> list[Mapping[str, Any]]:
        """Return the parameters of the model; the groups of the inner optimizer contain copies of them."""
        return list(self._groups)

    def was_skipped(self, result: Any) -> bool:
        """Return whether a step found non-finite gradients."""
        return bool(getattr(self.optimizer, "overflow", False))

    def remedy(self, kind: str) -> str:
        """Return advice for a user who misses rows of a kind, as the end of a sentence."""
        return "pass the engine or the optimizer that deepspeed.initialize returned"


class Stage12(DeepSpeedOptimizer):
    """Reads ZeRO 1 and 2: each rank keeps gradients and moments of its parts of flat groups."""

    model_groups = "bit16_groups"
    flat_copies = "single_partition_of_fp32_groups"

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self._reordered = dict(_reordered_parts_of(optimizer))

    def moments(self) -> Any:
        """Return the moments of this rank's parts."""
        return Lookup(self._state_of)

    def _state_of(self, parameter: Any) -> Any:
        place = self.places.get(id(parameter))
        if place is None:
            return None
        group = place[0]
        flat = getattr(self.optimizer, self.flat_copies)[group]
        state = self.optimizer.optimizer.state.get(flat) or {}
        if group in self._reordered:
            part = self._reordered[group].get(id(parameter))
            return no_moments() if part is None else _parts_of_moments(state, part.start, part.stop)
        fragment = _fragment_of(parameter)
        if fragment is None:
            return no_moments()
        # Do not use DeepSpeed's own link of fragments after the first update: it is missing for groups after the first.
        place = fragment.hp_fragment_address
        return _parts_of_moments(state, place.start, place.start + place.numel)

    def reduced(self) -> Any:
        """Return this rank's parts of the reduced gradients."""
        wait = getattr(self.optimizer, "_wait_for_offload_copies", None)
        if wait is not None:  # the step begins with this call as well
            wait()
        return Lookup(self._reduced_of)

    def _reduced_of(self, parameter: Any) -> Any:
        place = self.places.get(id(parameter))
        if place is None:
            return None
        if place[0] in self._reordered:
            return self._reordered_gradient_of(parameter, place[0])
        fragment = _fragment_of(parameter)
        if fragment is None:
            return nothing()
        try:
            return fragment.get_lp_grad_fragment(parameter._index_in_param_group)
        except (ValueError, KeyError, IndexError):  # the parameter has none in this step
            return None

    def _reordered_gradient_of(self, parameter: Any, group: int) -> Any:
        part = self._reordered[group].get(id(parameter))
        if part is None:
            return nothing()
        optimizer = self.optimizer
        gradients = optimizer.averaged_gradients.get(group)
        flat = optimizer.single_partition_of_fp32_groups[group].grad if optimizer.cpu_offload else None
        flat = getattr(gradients, "flat_partition", None) if flat is None else flat
        if flat is not None:
            return part_of(flat, part.start, part.stop)
        return None if gradients is None else gradients[part.number]

    def reduction(self) -> type[Reduction] | None:
        """Return the reader of gradients before their reduction; None if parameter hooks can read them."""
        optimizer = self.optimizer
        moves = ("partition_gradients", "overlap_comm", "use_grad_accum_attribute", "contiguous_gradients")
        return DeepSpeedReduction if any(getattr(optimizer, name, False) for name in moves) else None

    def sharing(self, parameter: Any) -> Sharing:
        """Return the ranks with the same reduced gradient: every rank has a different part."""
        return Sharing(data_parallel=False)

    def has_part(self, parameter: Any) -> bool:
        """Return whether this rank updates any element of a parameter."""
        place = self.places.get(id(parameter))
        if place is not None and place[0] in self._reordered:
            return id(parameter) in self._reordered[place[0]]
        return place is None or _fragment_of(parameter) is not None

    def shares(self) -> str:
        """Return the text that names the rows that cover only this rank's part of a tensor."""
        return "under ZeRO, rows of moments and reduced gradients cover the part that this rank updates"


class Bf16(Stage12):
    """Reads BF16_Optimizer: whole gradients in fp32 on each rank, and moments of its parts of flat groups."""

    model_groups = "bf16_groups"
    flat_copies = "fp32_groups_flat_partition"

    def reduced(self) -> Any:
        """Return the gradients in fp32."""
        return Lookup(self._reduced_of)

    def _reduced_of(self, parameter: Any) -> Any:
        place = self.places.get(id(parameter))
        if place is None:
            return None
        group, number = place
        had_gradient = self.optimizer.fp32_groups_has_gradients[group][number]
        return self.optimizer.fp32_groups_gradients[group][number] if had_gradient else None

    def reduction(self) -> type[Reduction]:
        """Return the reader of gradients in fp32."""
        return DeepSpeedReduction

    def sharing(self, parameter: Any) -> Sharing:
        """Return the ranks with the same reduced gradient: all ranks have the whole gradient."""
        return Sharing()

    def shares(self) -> str:
        """Return the text that names the rows that cover only this rank's part of a tensor."""
        return "under BF16_Optimizer, rows of moments cover the part that this rank updates"


class Unfused(DeepSpeedOptimizer):
    """Reads FP16_UnfusedOptimizer, also of bf16: a copy in fp32 of each parameter."""

    def moments(self) -> Any:
        """Return the moments of the copies."""
        return Lookup(self._state_of)

    def _state_of(self, parameter: Any) -> Any:
        place = self.places.get(id(parameter))
        if place is None:
            return None
        group, number = place
        return self.optimizer.optimizer.state.get(self.optimizer.fp32_groups[group][number])


class Fused(DeepSpeedOptimizer):
    """Reads FP16_Optimizer: one flat copy in fp32 of each group."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self._offsets = [list(_offsets_of(group["params"])) for group in self.groups()]

    def moments(self) -> Any:
        """Return the parts of the flat moments."""
        return Lookup(self._state_of)

    def _state_of(self, parameter: Any) -> Any:
        place = self.places.get(id(parameter))
        if place is None:
            return None
        group, number = place
        flat = self.optimizer.fp32_groups_flat[group]
        state = self.optimizer.optimizer.state.get(flat) or {}
        start = self._offsets[group][number]
        own = _parts_of_moments(state, start, start + parameter.numel())
        return own | {name: own[name].view(parameter.shape) for name in MOMENTS if name in own}


class _Part(NamedTuple):
    """A part of a parameter in the flat group of this rank: its number and position there."""

    number: int
    start: int
    stop: int


def _reordered_parts_of(optimizer: Any) -> Iterator[tuple[int, dict[int, _Part]]]:
    """Find the parts of this rank in groups that `round_robin_gradients` has reordered.

    The fragments that DeepSpeed links to the parameters follow the original order unless there is padding.
    """
    if not getattr(optimizer, "round_robin_gradients", False):
        return
    for group, parameters in enumerate(optimizer.params_in_partition):
        if any(optimizer.round_robin_bit16_padding[group]):
            continue
        parts: dict[int, _Part] = {}
        start, size = 0, int(optimizer.partition_size[group])
        for number, parameter in enumerate(parameters):
            before = optimizer.first_offset[group] if number == 0 else 0
            stop = min(start + parameter.numel() - before, size)
            parts[id(parameter)] = _Part(number, start, stop)
            start = stop
        yield group, parts


def _parts_of_moments(state: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    own = {name: part_of(state[name], start, stop) for name in MOMENTS if name in state}
    return {"step": state.get("step"), **own}


def _offsets_of(parameters: Sequence[Any]) -> Iterator[int]:
    offset = 0
    for parameter in parameters:
        yield offset
        offset += parameter.numel()


def _fragment_of(parameter: Any) -> Any:
    """Return DeepSpeed's fragment of a parameter on this rank, or None."""
    return getattr(parameter, "_hp_mapping", None)
