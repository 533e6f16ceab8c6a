"""Reading of the parameters of one optimizer around its update."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.optimizers.followed_step import Reading

if TYPE_CHECKING:
    from stepwatch import _core

_NOTHING: dict[Any, Any] = {}


class OptimizerReading:
    """Makes the native monitor read gradients, weights and moments at the places named by an adapter.

    Parameters
    ----------
    session : _core.Session
    number : int
        Number of the optimizer in the session.
    adapter : OptimizerAdapter
    is_reduced : bool
        Whether gradients are reduced when a step begins, for any optimizer: by the backward pass, or because there is
        only one rank.
    """

    def __init__(self, session: _core.Session, number: int, adapter: OptimizerAdapter, is_reduced: bool) -> None:
        self._session = session
        self._number = number
        self._adapter = adapter
        self._is_reduced = is_reduced or adapter.is_understood
        # Until one step is known to leave gradients unchanged, they are read after the step.
        self._is_in_doubt = not is_reduced and adapter.is_understood and adapter.may_reduce_itself
        self._before: dict[int, Any] = {}
        self._at_begin: dict[int, Any] | None = None  # the same, if only the weights have been read so far
        self._gone: set[int] = set()

    def before_update(self, reading: Reading, gone: set[int]) -> None:
        """Read the tensors before the update, at the latest at the end of the step.

        Parameters
        ----------
        reading : Reading
        gone : set of int
            The ids of parameters that are no longer in the model and are not read.
        """
        adapter, self._gone = self._adapter, gone
        reduced, weights = adapter.reduced(), adapter.weights()
        if gone:
            reduced = _Without(gone, _gradient_of if reduced is None else reduced.get)
            weights = _Without(gone, _itself if weights is None else weights.get)
        if reading is Reading.IN_DOUBT:
            self._at_begin = _gradients_of(adapter.groups())
            self._session.before_update(self._number, _NOTHING, reduced, weights, is_reduced=False)
            return
        at_begin, self._at_begin = self._at_begin, None
        continues = at_begin is not None and reading is not Reading.AT_BEGIN
        is_reduced = self._is_reduced
        if not is_reduced and reading is Reading.AT_UPDATE:
            # The inner optimizer updates by the gradients that it receives, and no later reduction changes them.
            is_reduced, reduced = True, _GradientsOf(adapter.groups())
        moments = adapter.moments()
        gradients = _gradients_of(adapter.groups()) if self._is_in_doubt or continues else {}
        if reading is Reading.AT_END:  # the state before the update is lost, except for unchanged gradients
            moments = weights = _NOTHING
            is_reduced = is_reduced and gradients == at_begin
            gradients = at_begin or gradients
        if continues:
            weights = _NOTHING
        if self._is_in_doubt:
            is_reduced, self._before = False, gradients
        self._session.before_update(self._number, moments, reduced, weights, is_reduced, continues)

    def after_update(self) -> None:
        """Read the tensors after the update."""
        if self._is_in_doubt and self._before:
            self._resolve_doubt()
        weights = self._adapter.updated_weights()
        if self._gone:
            weights = _Without(self._gone, _itself if weights is None else weights.get)
        self._session.after_update(self._number, weights)

    def _resolve_doubt(self) -> None:
        self._is_in_doubt = False
        if _gradients_of(self._adapter.groups()) != self._before:
            self._is_reduced = self._adapter.is_understood = False
        else:
            reduced = self._adapter.reduced()
            self._session.before_update(self._number, _NOTHING, reduced, _NOTHING, is_reduced=True, continues=True)
        self._before = {}


class _Without:
    """A mapping, or a function for all parameters, without the values of some parameters."""

    def __init__(self, gone: set[int], get: Callable[..., Any]) -> None:
        self._gone, self._get = gone, get

    def get(self, parameter: Any, default: Any = None) -> Any:
        return default if id(parameter) in self._gone else self._get(parameter)


def _gradient_of(parameter: Any) -> Any:
    main = getattr(parameter, "main_grad", None)
    return parameter.grad if main is None else main


def _itself(parameter: Any) -> Any:
    return parameter


class _GradientsOf:
    """The gradients of only the parameters of some groups."""

    def __init__(self, groups: list[Any]) -> None:
        self._ids = {id(parameter) for group in groups for parameter in group["params"]}

    def get(self, parameter: Any, default: Any = None) -> Any:
        return parameter.grad if id(parameter) in self._ids else default


def _gradients_of(groups: list[Any]) -> dict[int, Any]:
    """Return a state of each parameter's gradient that differs after a change or replacement of the gradient."""
    parameters = (parameter for group in groups for parameter in group["params"])
    return {
        id(each): (id(each.grad), each.grad._version, each.grad.data_ptr())
        for each in parameters
        if each.grad is not None and type(each.grad).__name__ == "Tensor"
    }
