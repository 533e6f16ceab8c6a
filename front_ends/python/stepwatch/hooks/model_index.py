"""The modules and parameters of a model that can be watched, under their names in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.fsdp1_flat import FlatParts, flat_of
from stepwatch.frameworks.names import as_written, is_wrapper, places_to_watch
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.frameworks.reduction import Holding, Reduction
from stepwatch.frameworks.table import composed_modules, reduction_of, reduction_of_parameter

if TYPE_CHECKING:
    import torch


@dataclass
class ModelIndex:
    """Modules and parameters of all chunks, in the order in which torch names them.

    Attributes
    ----------
    modules : list of torch.nn.Module
        A shared module appears once, under its first name. A module wrapped by torch.compile is replaced by the
        wrapper, whose hooks receive the inputs of the module.
    module_rows : list of tuple
        (chunk, name, type name, watchable, name in the user's code or None) of each module; the root's name is "".
    parameters : list of torch.nn.Parameter
        A shared parameter appears once. A flat parameter is replaced by the parameters inside it.
    parameter_rows : list of tuple
        (chunk, name, name in the user's code or None) of each parameter.
    sharded : dict of int to type
        The parameters whose hooks cannot read unreduced gradients, each with the class that can.
    holdings : dict of int to Holding
        The parameters whose holdings on this rank a module determines.
    """

    modules: list[torch.nn.Module] = field(default_factory=list)
    module_rows: list[tuple[int, str, str, bool, str | None]] = field(default_factory=list)
    parameters: list[torch.nn.Parameter] = field(default_factory=list)
    parameter_rows: list[tuple[int, str, str | None]] = field(default_factory=list)
    sharded: dict[int, type[Reduction]] = field(default_factory=dict)
    holdings: dict[int, Holding] = field(default_factory=dict)

    def roots(self) -> list[torch.nn.Module]:
        """Return the root module of each chunk."""
        return [module for module, (_, name, *_) in zip(self.modules, self.module_rows) if not name]


def index_model(
    chunks: Sequence[torch.nn.Module],
    optimizers: Sequence[OptimizerAdapter] = (),
    flat_parts: FlatParts | None = None,
) -> ModelIndex:
    """List the modules and parameters that can be watched.

    Parameters
    ----------
    chunks : sequence of torch.nn.Module
        The model, or the chunks of a virtual pipeline.
    optimizers : sequence of OptimizerAdapter
        Some of them reduce gradients out of reach of hooks.
    flat_parts : FlatParts, optional
        Stand-ins for the parameters inside flat ones.

    Returns
    -------
    ModelIndex
        A module or parameter that several chunks share belongs to the first of them.
    """
    index, flat_parts = ModelIndex(), flat_parts or FlatParts()
    modules: set[int] = set()
    parameters: set[int] = set()
    sharded = sharded_parameters(chunks, optimizers)
    holdings = _holdings(chunks)
    for number, chunk in enumerate(chunks):
        places = places_to_watch(chunk.modules())
        for torchs_name, module in chunk.named_modules():
            if id(module) in modules:
                continue
            modules.add(id(module))
            name, kind = _printable(torchs_name), _printable(type(module).__name__)
            index.modules.append(places.get(id(module), module))
            index.module_rows.append((number, name, kind, not is_wrapper(module), as_written(name)))
        for torchs_name, parameter in flat_parts.named_parameters(chunk):
            if id(parameter) in parameters:
                continue
            parameters.add(id(parameter))
            holder = id(parameter if flat_of(parameter) is None else flat_of(parameter))
            if holder in sharded:
                index.sharded[len(index.parameters)] = sharded[holder]
            if holder in holdings:
                index.holdings[len(index.parameters)] = holdings[holder]
            name = _printable(torchs_name)
            index.parameters.append(parameter)
            index.parameter_rows.append((number, name, as_written(name)))
    return index


def sharded_parameters(
    chunks: Sequence[torch.nn.Module], optimizers: Sequence[OptimizerAdapter] = ()
) -> dict[int, type[Reduction]]:
    """Find the parameters whose gradients a framework reduces out of reach of their hooks.

    Parameters
    ----------
    chunks : sequence of torch.nn.Module
        The model, or the chunks of a virtual pipeline.
    optimizers : sequence of OptimizerAdapter

    Returns
    -------
    dict of int to type
        The class that reads them, by the id of the parameter.
    """
    found: dict[int, type[Reduction]] = {}
    for module in (*(module for chunk in chunks for module in chunk.modules()), *composed_modules()):
        reduction = reduction_of(module)
        for parameter in () if reduction is None else reduction.parameters_of(module):
            found.setdefault(id(parameter), reduction)
    for parameter in (parameter for chunk in chunks for parameter in chunk.parameters()):
        reduction = reduction_of_parameter(parameter)
        if reduction is not None:
            found.setdefault(id(parameter), reduction)
    for adapter in optimizers:
        reduction = adapter.reduction()
        for group in () if reduction is None else adapter.groups():
            for parameter in filter(reduction.sees, group["params"]):
                found.setdefault(id(parameter), reduction)
    return found


def _holdings(chunks: Sequence[torch.nn.Module]) -> dict[int, Holding]:
    found: dict[int, Holding] = {}
    for module in (module for chunk in chunks for module in chunk.modules()):
        reduction = reduction_of(module)
        for parameter, holding in () if reduction is None else reduction.holdings_of(module):
            found.setdefault(id(parameter), holding)
    return found


def optimizer_of_parameters(groups_of_optimizers: Sequence[Sequence[Any]]) -> dict[int, int]:
    """Map the id of each parameter to the index of the first optimizer that updates it.

    Parameters
    ----------
    groups_of_optimizers : sequence
        The parameter groups of each optimizer.

    Returns
    -------
    dict of int to int
    """
    found: dict[int, int] = {}
    for number, groups in enumerate(groups_of_optimizers):
        for group in groups:
            for parameter in group["params"]:
                found.setdefault(id(parameter), number)
    return found


def _printable(name: str) -> str:
    """Return a name that can be encoded; names may contain lone surrogates."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
