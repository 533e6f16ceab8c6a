"""What can be watched in a model: its modules and parameters, under the names that torch gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Its forward only calls the wrapped module, whose own hooks see the same tensors.
_NOT_WATCHED = {"FullyShardedDataParallel"}


@dataclass
class ModelIndex:
    """Modules and parameters of all chunks, in the order in which torch names them.

    Attributes
    ----------
    modules : list of torch.nn.Module
        A module that is shared appears once, under its first name.
    module_rows : list of tuple
        (chunk, name, type name, watchable) of each module; the root's name is "".
    parameters : list of torch.nn.Parameter
        Those that are shared appear once.
    parameter_rows : list of tuple
        (chunk, name) of each parameter.
    """

    modules: list[torch.nn.Module] = field(default_factory=list)
    module_rows: list[tuple[int, str, str, bool]] = field(default_factory=list)
    parameters: list[torch.nn.Parameter] = field(default_factory=list)
    parameter_rows: list[tuple[int, str]] = field(default_factory=list)


def index_model(chunks: Sequence[torch.nn.Module]) -> ModelIndex:
    """List what can be watched.

    Parameters
    ----------
    chunks : sequence of torch.nn.Module
        The model, or the chunks of a virtual pipeline.

    Returns
    -------
    ModelIndex
        A module or parameter that several chunks share belongs to the first of them.
    """
    index = ModelIndex()
    modules: set[int] = set()
    parameters: set[int] = set()
    for number, chunk in enumerate(chunks):
        for name, module in chunk.named_modules():
            if id(module) in modules:
                continue
            modules.add(id(module))
            kind = type(module).__name__
            index.modules.append(module)
            index.module_rows.append((number, name, kind, kind not in _NOT_WATCHED))
        for name, parameter in chunk.named_parameters():
            if id(parameter) in parameters:
                continue
            parameters.add(id(parameter))
            index.parameters.append(parameter)
            index.parameter_rows.append((number, name))
    return index


def optimizer_of_parameters(optimizers: Sequence[Any]) -> dict[int, int]:
    """Map the id of each parameter to the index of the first optimizer that updates it.

    Parameters
    ----------
    optimizers : sequence
        Anything with `param_groups`; others update nothing that is known.

    Returns
    -------
    dict of int to int
    """
    found: dict[int, int] = {}
    for number, optimizer in enumerate(optimizers):
        for group in getattr(optimizer, "param_groups", []):
            for parameter in group["params"]:
                found.setdefault(id(parameter), number)
    return found
