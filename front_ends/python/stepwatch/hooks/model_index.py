"""The modules and parameters of a model that can be watched, under the names that torch gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Its forward only calls the wrapped module, whose own hooks see the same tensors.
_NOT_WATCHED = {"FullyShardedDataParallel"}
# FSDP1's wrapper, and the class that `fully_shard` (FSDP2) adds to a module's bases. By name: older torch lacks it.
_SHARDS = {"FullyShardedDataParallel", "FSDPModule"}


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
    sharded : set of int
        The parameters that FSDP shards: hooks on them do not see their gradients before they are reduced.
    """

    modules: list[torch.nn.Module] = field(default_factory=list)
    module_rows: list[tuple[int, str, str, bool]] = field(default_factory=list)
    parameters: list[torch.nn.Parameter] = field(default_factory=list)
    parameter_rows: list[tuple[int, str]] = field(default_factory=list)
    sharded: set[int] = field(default_factory=set)


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
    sharded = sharded_parameters(chunks)
    for number, chunk in enumerate(chunks):
        for name, module in chunk.named_modules():
            if id(module) in modules:
                continue
            modules.add(id(module))
            kind = type(module).__name__
            index.modules.append(module)
            index.module_rows.append((number, _printable(name), _printable(kind), kind not in _NOT_WATCHED))
        for name, parameter in chunk.named_parameters():
            if id(parameter) in parameters:
                continue
            parameters.add(id(parameter))
            if id(parameter) in sharded:
                index.sharded.add(len(index.parameters))
            index.parameters.append(parameter)
            index.parameter_rows.append((number, _printable(name)))
    return index


def sharded_parameters(chunks: Sequence[torch.nn.Module]) -> set[int]:
    """Find the parameters that FSDP shards.

    Parameters
    ----------
    chunks : sequence of torch.nn.Module
        The model, or the chunks of a virtual pipeline.

    Returns
    -------
    set of int
        Their ids. What FSDP2 was told to ignore is no DTensor and not among them.
    """
    found: set[int] = set()
    for module in (module for chunk in chunks for module in chunk.modules()):
        kinds = {kind.__name__ for kind in type(module).__mro__} & _SHARDS
        for parameter in module.parameters() if kinds else ():
            if "FSDPModule" not in kinds or hasattr(parameter, "to_local"):
                found.add(id(parameter))
    return found


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
        for group in param_groups_of(optimizer):
            for parameter in group["params"]:
                found.setdefault(id(parameter), number)
    return found


def param_groups_of(optimizer: Any) -> list[Any]:
    """Return the parameter groups of an optimizer.

    Parameters
    ----------
    optimizer : object

    Returns
    -------
    list of dict
        None of an optimizer that keeps no list under this name.
    """
    groups = getattr(optimizer, "param_groups", None)
    return list(groups) if isinstance(groups, (list, tuple)) else []


def _printable(name: str) -> str:
    """Return a name as it can be written; names may hold what no text can, lone surrogates."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
