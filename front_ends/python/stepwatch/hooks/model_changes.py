"""Detection of changes of a model or its optimizers since they were indexed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.hooks.model_index import ModelIndex

if TYPE_CHECKING:
    import torch
    from stepwatch import _core


class ModelChanges:
    """Compares a model with its state at the last `set_model`: modules, parameters, groups, frozen parameters.

    A parameter that was trained once counts as trained: if it is frozen for a while, as a discriminator during the
    generator's update, it keeps its rows.

    Parameters
    ----------
    session : _core.Session
        Traverses the model, in about 20 ns for each of its parts.
    """

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._trained: dict[int, Any] = {}  # by id, which is valid while the parameter exists
        self._is_stale = False
        self._modules: list[Any] = []
        self._children: list[Any] = []
        self._optimizers: list[Any] = []
        self._grouped: list[Any] = []
        self._parameters: list[Any] = []
        self._places: list[int] = []
        self._frozen: list[Any] = []
        self._frozen_in_groups: list[Any] = []

    def set_model(
        self,
        chunks: Sequence[torch.nn.Module],
        parameters: Sequence[torch.nn.Parameter],
        adapters: Sequence[OptimizerAdapter],
    ) -> None:
        """Start over with the current state of a model.

        Parameters
        ----------
        chunks : sequence of torch.nn.Module
        parameters : sequence of torch.nn.Parameter
            The watched parameters.
        adapters : sequence of OptimizerAdapter
        """
        known = self._trained
        self._trained = {id(each): each for each in parameters if each.requires_grad or id(each) in known}
        self._is_stale = False
        self._modules = [module for chunk in chunks for module in chunk.modules()]
        self._children = [
            each
            for module in self._modules
            for name in ("_modules", "_parameters")
            for entry in _entries(module, name)
            for each in entry
        ]
        self._optimizers = [part for adapter in adapters for part in adapter.parts]
        self._grouped = [each for part in self._optimizers for each in _grouped(part)]
        self._parameters = list(parameters)
        self._places = [each._cdata for each in parameters]
        grouped = set(map(id, self._grouped))
        self._frozen = [each for each in parameters if id(each) not in self._trained]
        self._frozen_in_groups = [each for each in self._frozen if id(each) in grouped]

    def is_trained(self, parameter: torch.nn.Parameter) -> bool:
        """Return whether a parameter is trained, or has been."""
        return id(parameter) in self._trained

    def look_at_frozen(self) -> None:
        """Find, during an update, parameters that are frozen only between steps."""
        for parameter in self._frozen_in_groups:
            if parameter.requires_grad:
                self._trained[id(parameter)] = parameter
                self._is_stale = True

    def any(self) -> bool:
        """Return whether the model or an optimizer has changed."""
        return self._is_stale or not self._session.is_model_as(
            self._modules,
            self._children,
            self._optimizers,
            self._grouped,
            self._parameters,
            self._places,
            self._frozen,
        )

    def any_module(self) -> bool:
        """Return whether modules or their parameters were replaced."""
        return self._is_stale or not self._session.is_model_as(self._modules, self._children, [], [], [], [], [])


def _entries(module: Any, name: str) -> Iterable[tuple[Any, Any]]:
    values = vars(module).get(name)
    return values.items() if isinstance(values, dict) else ()


def _grouped(optimizer: Any) -> Iterable[Any]:
    groups = getattr(optimizer, "param_groups", None)
    for group in groups if isinstance(groups, list) else ():
        parameters = group.get("params") if isinstance(group, dict) else None
        if isinstance(parameters, list):
            yield from parameters


def changes_of(before: ModelIndex, after: ModelIndex) -> str:
    """Describe the changes between two indexes of a model.

    Parameters
    ----------
    before, after : ModelIndex

    Returns
    -------
    str
        The end of a sentence.
    """
    texts = []
    for kind, old, new in (
        (
            "modules",
            dict(zip(_names(before.module_rows), before.modules)),
            dict(zip(_names(after.module_rows), after.modules)),
        ),
        (
            "parameters",
            dict(zip(_names(before.parameter_rows), before.parameters)),
            dict(zip(_names(after.parameter_rows), after.parameters)),
        ),
    ):
        counts = (
            (len(new.keys() - old.keys()), "new"),
            (len(old.keys() - new.keys()), "gone"),
            (sum(new[name] is not old[name] for name in new.keys() & old.keys()), "replaced"),
        )
        texts += [f"{count} {kind} {word}" for count, word in counts if count]
    return (", ".join(texts) or "a different set of its parameters is trained") + "; rows follow from the next step on"


def _names(rows: Sequence[tuple[Any, ...]]) -> list[tuple[int, str]]:
    return [(row[0], row[1]) for row in rows]
