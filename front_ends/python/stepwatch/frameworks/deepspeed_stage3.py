"""DeepSpeed's ZeRO 3: each rank keeps a part of each weight, of its gradient and of its moments."""

from __future__ import annotations

from typing import Any

from stepwatch.frameworks.deepspeed_optimizer import DeepSpeedOptimizer
from stepwatch.frameworks.deepspeed_reduction import DeepSpeedReduction
from stepwatch.frameworks.optimizer_adapter import Sharing
from stepwatch.frameworks.parameter_sources import MOMENTS, Lookup
from stepwatch.frameworks.reduction import Reduction


class Stage3(DeepSpeedOptimizer):
    """Reads this rank's parts, without the padding after the last one."""

    def inner_group(self, number: int) -> int:
        """Return the number of the inner optimizer's group: each is updated in sub-groups of limited size."""
        return self.optimizer.sub_group_to_group_id[number]

    def moments(self) -> Any:
        """Return the moments of this rank's parts; moments swapped to disk are missing."""
        return Lookup(self._state_of)

    def _state_of(self, parameter: Any) -> Any:
        place = self._flat_place_of(parameter)
        if place is None:
            return None
        group, start = place
        optimizer = self.optimizer
        if optimizer._swappable_optimizer_subgroup(group):
            return None
        state = self._flat_state(optimizer.fp32_partitioned_groups_flat[group])
        own = {name: _own(parameter, state[name][start:]) for name in MOMENTS if name in state}
        return {"step": state.get("step"), **own}

    def _flat_state(self, flat: Any) -> Any:
        # With a partial offload (`ratio`), the backup optimizer updates the part that stays on the device.
        for optimizer in (self.optimizer.optimizer, getattr(self.optimizer, "backup_optimizer", None)):
            state = None if optimizer is None else optimizer.state.get(flat)
            if state:
                return state
        return {}

    def _flat_place_of(self, parameter: Any) -> Any:
        """Return the number of the flat group of a parameter, and the start of its part there."""
        if id(parameter) not in self.places:
            return None
        found = self.optimizer.grad_position.get(self.optimizer.get_param_id(parameter))
        return None if found is None else found[:2]

    def reduced(self) -> Any:
        """Return this rank's parts of the reduced gradients."""
        return Lookup(self._reduced_of)

    def _reduced_of(self, parameter: Any) -> Any:
        place = self.places.get(id(parameter))
        if place is None or not parameter.requires_grad:
            return None
        if not self.optimizer.offload_optimizer:
            group, number = place
            gradients = self.optimizer.averaged_gradients.get(group)
            return None if gradients is None else _own(parameter, gradients[number].view(-1))
        place = self._flat_place_of(parameter)
        if place is None or self.optimizer._swappable_optimizer_subgroup(place[0]):
            return None
        group, start = place
        gradient = self.optimizer.fp32_partitioned_groups_flat[group].grad
        return None if gradient is None else _own(parameter, gradient[start:])

    def weights(self) -> Any:
        """Return this rank's parts of the weights."""
        return Lookup(_weight_of)

    def reduction(self) -> type[Reduction]:
        """Return the reader of gradients before their reduction."""
        return DeepSpeedReduction

    def sharing(self, parameter: Any) -> Sharing:
        """Return the ranks with the same reduced gradient: every rank has a different part."""
        return Sharing(data_parallel=False)

    def has_part(self, parameter: Any) -> bool:
        """Return whether this rank keeps any element of a parameter."""
        return not hasattr(parameter, "ds_tensor") or _own_size(parameter) > 0

    def shares(self) -> str:
        """Return the text that names the rows that cover only this rank's part of a tensor."""
        return "under ZeRO 3, rows of weights, moments and reduced gradients cover the part that this rank keeps"

    def remedy(self, kind: str) -> str:
        """Return advice for a user who misses rows of a kind, as the end of a sentence."""
        swapped = "state that is swapped to disk is not read; otherwise "
        return (swapped if kind in (*MOMENTS, "grad_reduced") else "") + super().remedy(kind)


def _weight_of(parameter: Any) -> Any:
    part = getattr(parameter, "ds_tensor", None)
    if part is None:
        return parameter
    return _own(parameter, part.view(-1)) if part.numel() == part.ds_numel else None


def _own(parameter: Any, flat: Any) -> Any:
    """Cut values that start with this rank's part of a parameter to the elements of the parameter.

    The parts of all ranks have the same size, so the last part can extend past the end of the parameter.
    """
    return flat[: _own_size(parameter)]


def _own_size(parameter: Any) -> int:
    size: int = parameter.ds_tensor.ds_numel
    left: int = parameter.ds_numel - parameter.ds_process_group.rank() * size
    return max(0, min(size, left))
