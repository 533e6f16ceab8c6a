"""Megatron-core's optimizers: of copies of parameters, of this rank's parts of parameters, and chains of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stepwatch.frameworks.megatron_leaders import leader_of
from stepwatch.frameworks.megatron_reduction import MegatronReduction
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter, Sharing
from stepwatch.frameworks.parameter_sources import MOMENTS, Lookup, group_of, no_moments, nothing, part_of
from stepwatch.frameworks.reduction import Reduction


class _Place(NamedTuple):
    """The place where one parameter of the model is updated.

    Attributes
    ----------
    leaf : object or None
        Megatron's optimizer; None: the optimizer of another rank.
    key : torch.Tensor or None
        The inner optimizer's key of the parameter's state: the parameter, a copy, or a part.
    start, stop : int or None
        The elements that this rank updates, if the parameter is split.
    """

    leaf: Any
    key: Any
    start: int | None = None
    stop: int | None = None


class MegatronOptimizer(OptimizerAdapter):
    """Reads any of Megatron's optimizers, also chained ones.

    Gradients, before and after their reduction, include the loss scale.
    """

    is_understood = True

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self._places: dict[int, _Place] = {}
        self._groups: list[Mapping[str, Any]] = []
        leaves = list(_leaves(optimizer))
        for leaf in leaves:
            for group, *groups in zip(leaf.optimizer.param_groups, *_model_groups_of(leaf)):
                self._add(_places_of(leaf, *groups), group)
        self._add(((parameter, _Place(None, None)) for parameter in _of_other_ranks(optimizer, leaves)), {})
        self._reduces_parts = any(hasattr(leaf, "model_float16_groups") for leaf in leaves)
        self._in_parts = self._reduces_parts or any(place.leaf is None for place in self._places.values())
        self._gathers_late = any(_gathers_late(leaf) for leaf in leaves)

    @property
    def unwrapped(self) -> Any:
        """The chain that contains this optimizer; it does not call `step` of its parts."""
        return None if hasattr(self.optimizer, "chained_optimizers") else leader_of(self.optimizer)

    def _add(self, places: Iterator[tuple[Any, _Place]], group: Mapping[str, Any]) -> None:
        added = []
        for parameter, place in places:
            if id(parameter) not in self._places:
                self._places[id(parameter)] = place
                added.append(parameter)
        self._groups.append(group_of(added, group))

    def groups(self) -> list[Mapping[str, Any]]:
        """Return the parameters of the model; the inner optimizers' groups contain copies and parts."""
        return list(self._groups)

    def moments(self) -> Any:
        """Return the moments by parameter; the inner optimizers keep them by its copy or part."""
        return Lookup(self._state_of)

    def _state_of(self, parameter: Any) -> Any:
        place = self._places.get(id(parameter))
        if place is None:
            return None
        return no_moments() if place.leaf is None else _moments_of(place.leaf.optimizer, place.key)

    def reduced(self) -> Any:
        """Return main gradients; after a reduce-scatter, only this rank's part of a gradient is reduced."""
        return Lookup(self._reduced_of)

    def _reduced_of(self, parameter: Any) -> Any:
        gradient = getattr(parameter, "main_grad", None)
        if gradient is None:
            gradient = parameter.grad
        place = self._places.get(id(parameter))
        if gradient is None or place is None or (place.leaf is not None and place.start is None):
            return gradient
        # With a layer-wise optimizer, a rank has the whole reduced gradient also of parameters that other ranks update.
        if place.leaf is None:
            return nothing() if self._reduces_parts else gradient
        return part_of(gradient, place.start, place.stop)

    def updated_weights(self) -> Any:
        """Return this rank's parts of weights that are gathered only during the next forward pass."""
        return Lookup(self._weight_of) if self._gathers_late else None

    def _weight_of(self, parameter: Any) -> Any:
        place = self._places.get(id(parameter))
        if place is None:
            return parameter
        if place.leaf is None:
            return nothing()
        return parameter if place.start is None else part_of(parameter, place.start, place.stop)

    def reduction(self) -> type[Reduction]:
        """Return the reader of main gradients."""
        return MegatronReduction

    def sharing(self, parameter: Any) -> Sharing:
        """Return the ranks with the same reduced gradient; the usual groups do not apply to experts."""
        if not getattr(parameter, "allreduce", True):
            return Sharing(tensor_parallel=False, data_parallel=False)
        return Sharing(data_parallel=not self._reduces_parts)

    def shares(self) -> str:
        """Return the text that names the rows that cover only this rank's part of a tensor."""
        if not self._in_parts:
            return ""
        name = type(self.optimizer).__name__
        if not self._reduces_parts:
            return f"under {name}, each rank has rows of moments for the parameters that it updates"
        late = "updated weights, " if self._gathers_late else ""
        return f"under {name}, rows of {late}moments and reduced gradients cover the part that this rank updates"

    def was_skipped(self, result: Any) -> bool:
        """Return whether a step found non-finite gradients."""
        success = result[0] if isinstance(result, tuple) and result else result
        return success is False

    def remedy(self, kind: str) -> str:
        """Return advice for a user who misses rows of a kind, as the end of a sentence."""
        return "pass the optimizer that get_megatron_optimizer returned, and the model chunks passed to that function"


def _leaves(optimizer: Any) -> Iterator[Any]:
    """Yield the optimizers of a chain that update parameters."""
    chained = getattr(optimizer, "chained_optimizers", None)
    if chained is not None:
        for each in chained:
            yield from _leaves(each)
    elif not getattr(optimizer, "is_stub_optimizer", False) and getattr(optimizer, "optimizer", None) is not None:
        yield optimizer


def _model_groups_of(leaf: Any) -> list[Any]:
    """Return, for each group of an optimizer, the model's parameters, their inner copies, and their parts.

    Each is a list of lists by groups, first for the parameters in half precision, then for those in fp32.
    """
    if hasattr(leaf, "model_float16_groups"):  # DistributedOptimizer
        halves = [leaf.model_float16_groups, leaf.shard_fp32_from_float16_groups, leaf.shard_float16_groups]
        return [*halves, leaf.model_fp32_groups, leaf.shard_fp32_groups, leaf.shard_fp32_groups]
    if hasattr(leaf, "float16_groups"):
        copies = leaf.fp32_from_float16_groups
        return [leaf.float16_groups, copies, copies, *[leaf.fp32_from_fp32_groups] * 3]
    return [[group["params"] for group in leaf.optimizer.param_groups]] * 6


def _places_of(leaf: Any, *groups: Any) -> Iterator[tuple[Any, _Place]]:
    """Yield the parameters of one group that this rank updates at least in part."""
    for parameters, copies, parts in (groups[:3], groups[3:]):
        for parameter, copy, part in zip(parameters, copies, parts):
            key = part if copy is None else copy
            if not hasattr(leaf, "model_float16_groups"):
                yield parameter, _Place(leaf, key)
                continue
            own = leaf._get_model_param_range_map(parameter)["param"]
            yield parameter, _Place(leaf, key, own.start, own.end)


def _of_other_ranks(optimizer: Any, leaves: list[Any]) -> Iterator[Any]:
    """Yield parameters that this rank's optimizer shares with other ranks; it updates some of them itself."""
    for leaf in leaves:
        for buffer in getattr(leaf, "buffers", ()):
            yield from buffer.params
    for name in ("dp_cp_params_list", "expt_dp_params_list"):  # LayerWiseDistributedOptimizer
        for parameters in getattr(optimizer, name, None) or ():
            yield from parameters


def _moments_of(optimizer: Any, key: Any) -> Any:
    state = optimizer.state.get(key)
    unscaled = getattr(optimizer, "get_unscaled_state", None)
    if not state or unscaled is None:
        return state
    # TransformerEngine's FusedAdam scales moments in low precision.
    return {name: unscaled(key, name) for name in MOMENTS if name in state}


def _gathers_late(leaf: Any) -> bool:
    return bool(getattr(getattr(leaf, "ddp_config", None), "overlap_param_gather", False))
