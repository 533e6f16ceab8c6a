"""What is read of the parameters of one optimizer around its update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
from stepwatch.hooks.followed_step import Reading

if TYPE_CHECKING:
    from stepwatch import _core

_NOTHING: dict[Any, Any] = {}


class OptimizerReading:
    """Has the native monitor read gradients, weights and moments where an adapter says that they are.

    Parameters
    ----------
    session : _core.Session
    number : int
        Of the optimizer in the session.
    adapter : OptimizerAdapter
    is_reduced : bool
        Whether gradients are reduced when a step begins, whatever the optimizer is: by the backward pass, or because
        there is one rank.
    """

    def __init__(self, session: _core.Session, number: int, adapter: OptimizerAdapter, is_reduced: bool) -> None:
        self._session = session
        self._number = number
        self._adapter = adapter
        self._is_reduced = is_reduced or adapter.is_understood
        # Until a step has been seen to leave gradients as they were: they are read behind it.
        self._is_in_doubt = not is_reduced and adapter.is_understood and adapter.may_reduce_itself
        self._before: dict[int, Any] = {}

    def before_update(self, reading: Reading) -> None:
        """Read what is there before the update, and at the latest when the step is over."""
        adapter = self._adapter
        reduced, weights = adapter.reduced(), adapter.weights()
        is_reduced = self._is_reduced
        if not is_reduced and reading is Reading.AT_UPDATE:
            # What the optimizer inside is given is what it updates by, and nothing reduces that any more.
            is_reduced, reduced = True, _GradientsOf(adapter.groups())
        if self._is_in_doubt:
            is_reduced, self._before = False, _gradients_of(adapter.groups())
        if reading is Reading.AT_END:  # what was there before the update is gone
            self._session.before_update(self._number, _NOTHING, reduced, _NOTHING, is_reduced=False)
            return
        self._session.before_update(self._number, adapter.moments(), reduced, weights, is_reduced)

    def after_update(self) -> None:
        """Read what is there after it."""
        if self._is_in_doubt and self._before:
            self._resolve_doubt()
        self._session.after_update(self._number, self._adapter.updated_weights())

    def _resolve_doubt(self) -> None:
        self._is_in_doubt = False
        if _gradients_of(self._adapter.groups()) != self._before:
            self._is_reduced = self._adapter.is_understood = False
        else:
            self._session.before_update(self._number, _NOTHING, self._adapter.reduced(), _NOTHING, is_reduced=True)
        self._before = {}


class _GradientsOf:
    """The gradients of the parameters of some groups, and of no others."""

    def __init__(self, groups: list[Any]) -> None:
        self._ids = {id(parameter) for group in groups for parameter in group["params"]}

    def get(self, parameter: Any, default: Any = None) -> Any:
        return parameter.grad if id(parameter) in self._ids else default


def _gradients_of(groups: list[Any]) -> dict[int, Any]:
    """Return what tells by parameter whether anybody has changed its gradient, or put another one there."""
    parameters = (parameter for group in groups for parameter in group["params"])
    return {
        id(each): (id(each.grad), each.grad._version, each.grad.data_ptr())
        for each in parameters
        if each.grad is not None and type(each.grad).__name__ == "Tensor"
    }
