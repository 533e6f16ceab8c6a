"""FullyShardedDataParallel without `use_orig_params`: splits the flat parameter of each wrapper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter, Sharing
from stepwatch.frameworks.parameter_sources import Lookup, group_of, no_moments, nothing, part_of

_FLAT = "_flat_param"
# Attributes of a flat parameter that describe the parameters inside. The fourth, since torch 2.1, has this rank's
# elements.
_KEPT = ("_param_infos", "_fqns", "_shapes", "_shard_param_infos")


class FlatParts:
    """Keeps stand-ins for the parameters inside the flat parameters of a model.

    A stand-in has the shape, the dtype and `requires_grad` of the parameter, and one element of memory.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[Any]] = {}  # by the id of the flat parameter, which they keep alive

    def named_parameters(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Yield the named parameters of a module, with flat parameters replaced by those inside them."""
        for name, parameter in module.named_parameters():
            if not _is_taken_apart(parameter):
                yield name, parameter
                continue
            prefix = name.removesuffix(_FLAT)
            yield from ((prefix + fqn, part) for fqn, part in zip(parameter._fqns, self._of(parameter)))

    def _of(self, flat: Any) -> list[Any]:
        if id(flat) not in self._parts:
            self._parts[id(flat)] = [_stand_in(flat, number) for number in range(len(flat._fqns))]
        return self._parts[id(flat)]

    def adapted(self, adapter: OptimizerAdapter) -> OptimizerAdapter:
        """Return the adapter of an optimizer, wrapped if the optimizer updates flat parameters."""
        if any(id(each) in self._parts for group in adapter.groups() for each in group["params"]):
            return _OfParts(adapter, self._parts)
        return adapter


def parts_of_gradient(flat: Any, parts: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield stand-ins for parameters inside a flat one, each with its part of the whole gradient."""
    sizes = zip(flat.grad.split(list(flat._numels_with_padding)), flat._is_padding_mask)
    gradients = [gradient for gradient, is_padding in sizes if not is_padding]
    for part in parts:
        number = part._stepwatch_number
        yield part, gradients[number].view(flat._shapes[number])


def flat_of(part: Any) -> Any:
    """Return the flat parameter of a stand-in; None: the argument is a parameter itself."""
    return getattr(part, "_stepwatch_flat", None)


def _is_taken_apart(parameter: Any) -> bool:
    return (
        all(hasattr(parameter, name) for name in _KEPT)
        and getattr(parameter, "_params", None) is None
        and len(parameter._fqns) == len(parameter._shard_param_infos)
    )


def _stand_in(flat: Any, number: int) -> Any:
    import torch

    element = torch.zeros((), dtype=flat.dtype).expand(flat._shapes[number])
    part = torch.nn.Parameter(element, requires_grad=flat.requires_grad)
    part._stepwatch_flat, part._stepwatch_number = flat, number  # type: ignore[attr-defined]
    return part


def _on_this_rank(part: Any, values: Any) -> Any:
    """Return this rank's elements of a part, from a tensor with the shape of its flat shard."""
    if values is None:
        return None
    info = part._stepwatch_flat._shard_param_infos[part._stepwatch_number]
    if not info.in_shard:
        return nothing()
    return part_of(values, info.offset_in_shard, info.offset_in_shard + info.numel_in_shard)


class _OfParts(OptimizerAdapter):
    """Reads an optimizer of flat parameters as an optimizer of the parameters inside them."""

    def __init__(self, inner: OptimizerAdapter, parts: Mapping[int, Sequence[Any]]) -> None:
        self._inner = inner
        self._parts_of = parts
        self.optimizer, self.parts, self.is_understood = inner.optimizer, inner.parts, inner.is_understood

    def groups(self) -> list[Mapping[str, Any]]:
        """Return the groups with the parameters inside."""
        return [group_of(self._taken_apart(group["params"]), group) for group in self._inner.groups()]

    def _taken_apart(self, parameters: Sequence[Any]) -> list[Any]:
        return [part for each in parameters for part in self._parts_of.get(id(each), [each])]

    def moments(self) -> Any:
        """Return parts of the moments."""
        state = self._inner.moments()
        return Lookup(lambda part: _part_of_state(part, state))

    def reduced(self) -> Any:
        """Return parts of the reduced gradients."""
        reduced = self._inner.reduced()

        def of(parameter: Any) -> Any:
            return parameter.grad if reduced is None else reduced.get(parameter)

        return Lookup(lambda part: of(part) if flat_of(part) is None else _on_this_rank(part, of(flat_of(part))))

    def weights(self) -> Any:
        """Return parts of the weights."""
        return Lookup(lambda part: part if flat_of(part) is None else _on_this_rank(part, flat_of(part)))

    def sharing(self, parameter: Any) -> Sharing:
        """Return the ranks with the same reduced gradient of a parameter."""
        return self._inner.sharing(parameter)

    def has_part(self, parameter: Any) -> bool:
        """Return whether this rank has any element of a parameter."""
        flat = flat_of(parameter)
        if flat is None:
            return self._inner.has_part(parameter)
        return bool(flat._shard_param_infos[parameter._stepwatch_number].in_shard)

    def shares(self) -> str:
        """Return the text that names the rows that cover only this rank's part of a tensor."""
        return self._inner.shares()

    def was_skipped(self, result: Any) -> bool:
        """Return whether the last step updated no parameter."""
        return self._inner.was_skipped(result)

    def remedy(self, kind: str) -> str:
        """Return advice for a user who misses rows of a kind, as the end of a sentence."""
        return self._inner.remedy(kind)


def _part_of_state(part: Any, state: Any) -> Any:
    flat = flat_of(part)
    whole = state.get(part if flat is None else flat)
    if flat is None or not whole:
        return whole
    info = flat._shard_param_infos[part._stepwatch_number]
    if not info.in_shard:
        return no_moments()
    is_like_flat = {name for name, value in whole.items() if getattr(value, "shape", None) == flat.shape}
    return {name: _on_this_rank(part, value) if name in is_like_flat else value for name, value in whole.items()}
