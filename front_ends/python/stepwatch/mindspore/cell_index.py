"""The cells and parameters of a model that can be watched, under their dotted names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwatch.mindspore.tensors import Weight

# MindSpore adds such a cell beside a recomputed one, and runs the same cells through it.
_RECOMPUTING = "_recompute_cell"


@dataclass
class CellIndex:
    """Cells and parameters of all chunks, in the order in which MindSpore names them.

    Attributes
    ----------
    cells : list of mindspore.nn.Cell
        A shared cell appears once, under its first name.
    cell_rows : list of tuple
        (chunk, name, type name, watchable, None) of each cell, as the session takes them.
    recomputed_in : dict of int to list of int
        The recomputed cells around a cell, by their positions.
    compiled : list of str
        Names of the cells whose `construct` is compiled.
    inside_compiled : set of int
        The positions of the cells inside them, which call no hook.
    weights : list of Weight
        A shared parameter appears once.
    weight_rows : list of tuple
        (chunk, name) of each parameter.
    """

    cells: list[Any] = field(default_factory=list)
    cell_rows: list[tuple[int, str, str, bool, str | None]] = field(default_factory=list)
    recomputed_in: dict[int, list[int]] = field(default_factory=dict)
    compiled: list[str] = field(default_factory=list)
    inside_compiled: set[int] = field(default_factory=set)
    weights: list[Weight] = field(default_factory=list)
    weight_rows: list[tuple[int, str]] = field(default_factory=list)

    def identity(self) -> tuple[list[int], list[tuple[int, bool]]]:
        """Return what differs once cells or parameters are replaced, or parameters frozen."""
        parameters = [(id(weight.held), bool(weight.held.requires_grad)) for weight in self.weights]
        return [id(cell) for cell in self.cells], parameters


def index_cells(chunks: Sequence[Any]) -> CellIndex:
    """List the cells and parameters that can be watched.

    Parameters
    ----------
    chunks : sequence of mindspore.nn.Cell

    Returns
    -------
    CellIndex
        Optimizers inside the model, as in a TrainOneStepCell, are left out with their parameters.
    """
    from mindspore import nn

    index, cells, parameters = CellIndex(), set(), set()
    for number, chunk in enumerate(chunks):
        outside: list[str] = []  # prefixes of optimizers
        recomputed: list[tuple[str, int]] = []
        compiled: list[str] = []
        for name, cell in chunk.cells_and_names():
            if _is_below(name, outside) or _RECOMPUTING in name.split("."):
                continue
            if isinstance(cell, nn.Optimizer) or _is_experimental_optimizer(cell):
                outside.append(name)
                continue
            if id(cell) in cells:
                continue
            cells.add(id(cell))
            around = [at for prefix, at in recomputed if _is_below(name, [prefix])]
            if around:
                index.recomputed_in[len(index.cells)] = around
            if getattr(cell, _RECOMPUTING, None) is not None:
                recomputed.append((name, len(index.cells)))
            if _is_below(name, compiled):
                index.inside_compiled.add(len(index.cells))
            elif is_compiled(cell):
                compiled.append(name)
                index.compiled.append(f"{number}:{name}")
            index.cells.append(cell)
            index.cell_rows.append((number, name, type(cell).__name__, True, None))
        for name, parameter in chunk.parameters_and_names():
            if _is_below(name, outside) or id(parameter) in parameters:
                continue
            parameters.add(id(parameter))
            index.weights.append(Weight(parameter))
            index.weight_rows.append((number, name))
    return index


def is_compiled(cell: Any) -> bool:
    """Return whether the `construct` of a cell is compiled, as by `mindspore.jit`."""
    return bool(getattr(cell.construct, "__wrapped_by_jit__", False))


def _is_below(name: str, prefixes: Sequence[str]) -> bool:
    return any(not prefix or name.startswith(prefix + ".") for prefix in prefixes)


def _is_experimental_optimizer(cell: Any) -> bool:
    return any(
        kind.__name__ == "Optimizer" and kind.__module__.startswith("mindspore.experimental.optim")
        for kind in type(cell).__mro__
    )
