"""Warnings about rows that a plan requests but that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.hooks.compiled_calls import inside_of_compiled
from stepwatch.hooks.model_index import ModelIndex, optimizer_of_parameters

if TYPE_CHECKING:
    from stepwatch import _core

_MOMENTS = {"exp_avg", "exp_avg_sq"}
_OF_MOMENTS = (*sorted(_MOMENTS), "other")  # the last is for mg_direction
_GRADIENTS = ("grad_unreduced", "grad_reduced")
_WEIGHTS = ("param_origin", "param_updated")
# An optimizer has no state before its first update.
_STEPS = 2
# Steps ended by the program without any optimizer update.
_STEPS_WITHOUT_UPDATE = 8


class MissingRows:
    """Compares the rows of each kind and parameter with the plan, once per plan, and logs what is missing.

    Parameters
    ----------
    session : _core.Session
    """

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._index = ModelIndex()
        self._adapters: list[OptimizerAdapter] = []
        self._optimizer_of: dict[int, int] = {}
        self._is_reduced = True
        self._steps = 0
        self._steps_without_update = 0
        self._warned: set[str] = set()

    def set_model(self, index: ModelIndex, adapters: Sequence[OptimizerAdapter], is_reduced: bool) -> None:
        """Replace the watched model and optimizers.

        Parameters
        ----------
        index : ModelIndex
        adapters : sequence of OptimizerAdapter
        is_reduced : bool
            Whether gradients are reduced when a step begins, for any optimizer.
        """
        self._index, self._adapters, self._is_reduced = index, list(adapters), is_reduced
        self._optimizer_of = optimizer_of_parameters([adapter.groups() for adapter in adapters])
        self.begin_plan()

    def begin_plan(self) -> None:
        """Start over for a new plan."""
        self._steps = 0

    def end_step(self, has_updated: bool, has_stepped: bool) -> None:
        """Check for missing rows at the end of the second collected step with an update.

        Parameters
        ----------
        has_updated : bool
            False: the step was skipped and cannot show which rows are missing.
        has_stepped : bool
            Whether an optimizer has stepped, in this training step or before.
        """
        if not self._session.collecting:
            return
        if not self._adapters:
            self._warn_no_update(
                "no optimizer is watched, and these rows are read around its update; pass one to "
                "watch(model, optimizer) or attach(model, optimizer)"
            )
        elif not has_stepped:
            self._steps_without_update += 1
            if self._steps_without_update == _STEPS_WITHOUT_UPDATE:
                self._warn_no_update(
                    f"they are read around a step of {_class_of(self._adapters[0])}, and none was seen"
                )
        if self._steps == _STEPS or not has_updated:
            return
        self._steps += 1
        if self._steps == _STEPS:
            self._look()

    def _warn_no_update(self, why: str) -> None:
        if "optimizer" in self._warned:
            return
        self._warned.add("optimizer")
        kinds = [kind for kind, *_ in self._session.yield_of_kinds() if kind != "grad_unreduced"]
        if kinds:
            self._session.warn(f"{', '.join(kinds)} have no rows: {why}")

    def _look(self) -> None:
        kinds = {kind: (seen, empty, silent) for kind, seen, empty, silent in self._session.yield_of_kinds()}
        with_gradient = self._with_gradient(kinds)
        for kind in _GRADIENTS:
            if kind in kinds:
                self._look_at_gradients(kind, kinds[kind], with_gradient)
        for kind in _WEIGHTS:
            if kind in kinds:
                self._look_at_weights(kind, kinds[kind])
        self._look_at_moments(kinds, with_gradient)
        self._look_at_halves(kinds)
        self._look_at_modules()

    def _with_gradient(self, kinds: dict[str, Any]) -> set[int]:
        """Return the parameters on this rank that are known to have had a gradient."""
        seen = {number for kind in _GRADIENTS for number in kinds.get(kind, ([],))[0]}
        asked = {number for lists in kinds.values() for numbers in lists for number in numbers}
        return {
            number
            for number in asked | seen | set(self._session.wanted_updates)
            if (number in seen or _has_gradient(self._index.parameters[number])) and self._has_part(number)
        }

    def _look_at_gradients(self, kind: str, lists: Any, with_gradient: set[int]) -> None:
        seen, empty, silent = lists
        is_missing = with_gradient.__contains__ if seen or empty else self._has_part
        missing = [number for number in silent if is_missing(number)]
        if kind == "grad_reduced" and missing and not self._is_known_reduced(missing[0]):
            why = "it is unknown whether its gradients are reduced when its step begins"
        else:
            why = "the gradients are not where torch keeps them"
        self._warn(kind, missing, seen, why)

    def _look_at_weights(self, kind: str, lists: Any) -> None:
        seen, empty, silent = lists
        # The optimizer of a frozen parameter may have stopped stepping.
        silent = [number for number in silent if self._index.parameters[number].requires_grad]
        self._warn(kind, silent, seen, "the weights are not in the parameters")
        if not seen and not silent and all(self._has_part(number) for number in empty):
            self._warn(kind, empty, seen, "the parameters have no element in this process")

    def _look_at_moments(self, kinds: dict[str, Any], with_gradient: set[int]) -> None:
        wanted = [kinds[kind] for kind in _OF_MOMENTS if kind in kinds]
        wanted.append(([], [], self._session.wanted_updates))
        if not any(lists[2] for lists in wanted):
            return
        seen = {number for lists in wanted for number in (*lists[0], *lists[1])}
        silent = {number for lists in wanted for number in lists[2]} - seen
        # A parameter without moments beside others with moments has just had its first update.
        missing = [
            number
            for number in sorted(silent if not seen and not with_gradient else silent & with_gradient)
            if self._has_part(number) and not _MOMENTS & set(self._state_of(number))
        ]
        adapter = self._adapter_of(missing[0]) if missing else None
        if adapter is None or "exp_avg" in self._warned:
            return
        self._warned.add("exp_avg")
        self._session.warn(
            f"{_class_of(adapter)} keeps no exp_avg and exp_avg_sq for {len(missing)} parameters (Adam and AdamW "
            "do): mv_distribution and mg_direction have no rows for them, ur_distribution has no images; "
            + adapter.remedy("exp_avg")
        )

    def _look_at_halves(self, kinds: dict[str, Any]) -> None:
        """Warn about optimizers that keep only one of the moments."""
        for kind, other in (("exp_avg", "exp_avg_sq"), ("exp_avg_sq", "exp_avg")):
            silent = kinds[kind][2] if kind in kinds else ()
            missing = [number for number in silent if _MOMENTS & set(self._state_of(number)) == {other}]
            if not missing or kind in self._warned:
                continue
            self._warned.add(kind)
            adapter = self._adapter_of(missing[0])
            self._session.warn(
                f"{_class_of(adapter)} keeps {other} and no {kind} for {len(missing)} parameters: the latter has no "
                "rows for them"
            )

    def _look_at_modules(self) -> None:
        called, uncalled = self._session.called_and_uncalled
        compiled = inside_of_compiled(self._index.modules) if uncalled else set()
        unseen = [number for number in uncalled if not called or id(self._index.modules[number]) in compiled]
        if called and not unseen:
            self._look_at_direct_calls(uncalled)
            return
        if not unseen or "actv" in self._warned:
            return
        self._warned.add("actv")
        if called:
            name = self._index.module_rows[unseen[0]][1]
            self._session.warn(
                f"xy_distribution has no rows for {len(unseen)} of {len(called) + len(uncalled)} selected modules "
                f"({name} is one): torch.compile runs them inside one graph; the compiled module has rows of its own "
                "inputs and outputs, and of its parameters"
            )
            return
        root = type(self._index.modules[0]).__name__
        self._session.warn(
            f"xy_distribution has no rows: none of {len(unseen)} selected modules of {root} was called by torch in "
            "training mode; pass the monitor the model that is trained; a model that is compiled or replayed as a "
            "whole has rows of its parameters only"
        )

    def _look_at_direct_calls(self, uncalled: Sequence[int]) -> None:
        """Warn about modules that take part in training but are never called through torch."""
        modules = self._index.modules
        seen = {id(modules[number]) for number in self._session.called_and_uncalled[0]}
        missing = [
            number
            for number in uncalled
            if _has_own_forward(modules[number])
            and (
                any(id(inside) in seen for inside in modules[number].modules())
                or any(_has_gradient(own) for own in modules[number].parameters(recurse=False))
            )
        ]
        if not missing or "forward" in self._warned:
            return
        self._warned.add("forward")
        name = self._index.module_rows[missing[0]][1] or type(modules[missing[0]]).__name__
        self._session.warn(
            f"xy_distribution has no rows for {len(missing)} modules that take part ({name} is one): torch never "
            "calls them, their forward or other methods are called directly; call the module itself"
        )

    def _warn(self, kind: str, missing: Sequence[int], seen: Sequence[int], why: str) -> None:
        if not missing or kind in self._warned:
            return
        self._warned.add(kind)
        adapter = self._adapter_of(missing[0])
        name = self._index.parameter_rows[missing[0]][1]
        self._session.warn(
            f"{kind} has no rows for {len(missing)} of {len(missing) + len(seen)} parameters ({name} is one) under "
            f"{_class_of(adapter)}: {why}; {adapter.remedy(kind)}"
        )

    def _is_known_reduced(self, number: int) -> bool:
        return self._is_reduced or self._adapter_of(number).is_understood

    def _adapter_of(self, number: int) -> OptimizerAdapter:
        return self._adapters[self._optimizer_of.get(id(self._index.parameters[number]), 0)]

    def _has_part(self, number: int) -> bool:
        return self._adapter_of(number).has_part(self._index.parameters[number])

    def _state_of(self, number: int) -> Any:
        state = self._adapter_of(number).moments()
        return state.get(self._index.parameters[number]) or {}


def _has_gradient(parameter: Any) -> bool:
    return parameter.grad is not None or getattr(parameter, "main_grad", None) is not None


def _class_of(adapter: OptimizerAdapter) -> str:
    return type(adapter.optimizer).__name__


def _has_own_forward(module: Any) -> bool:
    forward = getattr(type(module), "forward", None)
    return getattr(forward, "__name__", "") != "_forward_unimplemented"
