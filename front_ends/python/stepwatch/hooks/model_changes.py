"""Sees whether a model or its optimizers have changed since they were indexed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.hooks.model_index import ModelIndex

if TYPE_CHECKING:
    import torch
    from stepwatch import _core


class ModelChanges:
    """Compares a model with what it was at the last `set_model`: modules, parameters, groups, and what is frozen.

    A parameter counts as trained from the moment at which it was seen to be: one that is frozen for a while, as a
    discriminator is while the generator learns, keeps its rows.

    Parameters
    ----------
    session : _core.Session
        Walks through the model, which takes some 20 ns for each of its parts.
    """

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._trained: dict[int, Any] = {}  # by id, which holds as long as the parameter
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
        """Begin anew with a model as it is now.

        Parameters
        ----------
        chunks : sequence of torch.nn.Module
        parameters : sequence of torch.nn.Parameter
            Those that are watched.
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
        """Tell whether a parameter is trained, or has been."""
        return id(parameter) in self._trained

    def look_at_frozen(self) -> None:
        """Look, while an optimizer updates, for parameters that are frozen between steps alone."""
        for parameter in self._frozen_in_groups:
            if parameter.requires_grad:
                self._trained[id(parameter)] = parameter
                self._is_stale = True

    def any(self) -> bool:
        """Tell whether anything has changed."""
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
        """Tell whether modules or their parameters are others."""
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
    """Describe what has changed between two looks at a model.

    Parameters
    ----------
    before, after : ModelIndex

    Returns
    -------
    str
        Half a sentence.
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
    return (", ".join(texts) or "others of its parameters are trained") + "; rows follow it from the next step on"


def _names(rows: Sequence[tuple[Any, ...]]) -> list[tuple[int, str]]:
    return [(row[0], row[1]) for row in rows]
