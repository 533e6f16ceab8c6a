"""The hooks on the cells and parameters of one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from stepwatch.hooks.stack_info import StackBook
from stepwatch.mindspore.cell_index import CellIndex
from stepwatch.mindspore.plain_hooks import cell_hook, parameter_hook
from stepwatch.mindspore.tensors import Call, Library, Tensor, tensors_in

if TYPE_CHECKING:
    from stepwatch import _core

# The core asks these of a module whose call counts.
_TRAINS = SimpleNamespace(training=True)
# Limit of calls of one cell whose gradients have not come, for programs that record calls without a backward pass.
_PENDING_MAX = 4096


class _CallNeverEnded(Exception):
    """Stands for the exception with which a cell has ended."""


@dataclass
class _Running:
    """A call of a cell between its two hooks."""

    cell: int
    counts: bool  # as part of the training
    records: bool  # MindSpore records it for a backward pass
    begun: bool  # the core has seen its begin
    call: Call | None  # receives gradients


class CellHooks:
    """Installs and removes the hooks of the plan in force. Use it from the training thread.

    The hooks of the backward pass are registered in the first recorded call of a cell, and not before: in a compiled
    function they would end the training.

    Parameters
    ----------
    session : _core.Session
    library : Library
        That of the session.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function, *arguments).

    Attributes
    ----------
    are_hung : bool
        Whether hooks of a plan are installed.
    features : dict of int to list of callable
        Called with a cell after its call, by the position of the cell.
    stacks : StackBook or None
        Keeps from where cells are called.
    """

    def __init__(self, session: _core.Session, library: Library, guard: Callable[..., None]) -> None:
        from mindspore import Tensor as MindSporeTensor

        self.are_hung = False
        self.features: dict[int, list[Callable[[Any], None]]] = {}
        self.stacks: StackBook | None = None
        self._session = session
        self._library = library
        self._guard = guard
        self._kind = MindSporeTensor
        self._index = CellIndex()
        self._handles: list[Any] = []
        self._backward_handles: dict[int, Any] = {}
        self._wanted: set[int] = set()
        self._taps: dict[int, tuple[Any, Any]] = {}  # the core's hooks before and after a call
        self._running: list[_Running] = []
        self._pending: dict[int, list[Call]] = {}

    def set_index(self, index: CellIndex) -> None:
        """Remove all hooks, and install later ones on another model."""
        self.remove()
        self._index = index

    def install(self, stack_names: dict[int, str]) -> None:
        """Install the hooks that the plan in force wants, in place of others.

        Parameters
        ----------
        stack_names : dict of int to str
            The names in the file of call stacks, by the position of the cell.
        """
        self.remove()
        self.are_hung = True
        self._wanted = set(self._session.wanted_modules)
        self._taps = {at: (self._session.before_forward(at), self._session.after_forward(at)) for at in self._wanted}
        cells = self._wanted | self.features.keys() | stack_names.keys()
        around = {outer for at in cells for outer in self._index.recomputed_in.get(at, ())}
        for at in sorted(cells | around):
            if at not in self._index.inside_compiled:
                self._guard("installing the hooks of a cell", self._hang_on_cell, at, stack_names.get(at))
        for number in self._session.wanted_gradients:
            self._guard("installing the hook of a parameter", self._hang_on_parameter, number)

    def _hang_on_cell(self, at: int, stack_name: str | None) -> None:
        cell = self._index.cells[at]

        def before(called: Any, args: Any = (), kwargs: Any = None) -> None:
            if called is cell:  # a copy of the model has the hooks of the original
                self._guard("watching a cell", self._before, at, args, kwargs or {})

        def after(called: Any, args: Any = (), kwargs: Any = None, output: Any = None) -> None:
            if called is cell:
                if stack_name is not None and self.stacks is not None:
                    self.stacks.keep(stack_name, 3)
                self._guard("watching a cell", self._after, at, args, kwargs or {}, output)

        self._handles.append(cell.register_forward_pre_hook(cell_hook(before), with_kwargs=True))
        # Called also if the cell raises: data of the call would otherwise be kept.
        self._handles.append(cell.register_forward_hook(cell_hook(after), with_kwargs=True, always_call=True))

    def _hang_on_parameter(self, number: int) -> None:
        weight = self._index.weights[number]
        incoming = self._session.incoming_hook(number)
        unreduced = self._session.unreduced_hook(number)

        def read(gradient: Any) -> None:
            if not isinstance(gradient, self._kind):
                return
            if self._session.reads_incoming(number):
                incoming(Tensor(gradient))
                return
            weight.grad = Tensor(gradient)
            try:
                unreduced(weight)
            finally:
                weight.grad = None

        def deliver(gradient: Any) -> None:
            self._guard("the hook of a parameter", read, gradient)

        self._handles.append(weight.held.register_hook(parameter_hook(deliver)))

    # --- forward ---

    def _before(self, at: int, args: Any, kwargs: dict[str, Any]) -> None:
        from mindspore.common.api import _pynative_executor

        cell, records = self._index.cells[at], bool(_pynative_executor.requires_grad())
        inside = {running.cell for running in self._running}
        # A recomputed cell runs the cells inside it again in the backward pass, when it is not running itself.
        recomputes = any(outer not in inside for outer in self._index.recomputed_in.get(at, ()))
        counts = records or bool(cell.training) or (bool(self._running) and self._running[-1].counts)
        # Without reentrance, the gradients of the first call come.
        repeats = recomputes and bool(self._pending.get(at))
        running = _Running(at, counts and not recomputes, records, False, None)
        self._running.append(running)
        if at not in self._taps or not counts or repeats:
            return
        wants_gradients = records and self._session.collecting and self._session.wants_gradients_of(at)
        if wants_gradients and at not in self._backward_handles:
            self._guard("installing the hook of a cell", self._hang_backward, at)
        self._library.records, self._library.recomputes = records, recomputes
        given, tensors = [], 0
        for value in args:
            tensor = tensors_in(value, self._kind)
            given.append(tensor)
            tensors += isinstance(tensor, Tensor)
        if wants_gradients:
            running.call = Call(tensors)
            places = iter(running.call.next_functions)
            for tensor in given:
                if isinstance(tensor, Tensor):
                    tensor.grad_fn, tensor.requires_grad = next(places)[0], True
        running.begun = True
        self._taps[at][0](_TRAINS, tuple(given), tensors_in(kwargs, self._kind))

    def _after(self, at: int, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        while self._running and self._running[-1].cell != at:
            self._discard(self._running.pop())
        if not self._running:
            return
        running = self._running.pop()
        if running.counts:
            for feature in self.features.get(at, ()):
                self._guard("computing a feature", feature, self._index.cells[at])
        if not running.begun:
            return
        seen = self._as_output(output, running.call)
        if running.call is not None and _has_gradient(output, self._kind):
            pending = self._pending.setdefault(at, [])
            pending.append(running.call)
            del pending[:-_PENDING_MAX]
        self._taps[at][1](_TRAINS, (), seen)

    def _as_output(self, output: Any, call: Call | None) -> Any:
        seen = tensors_in(output, self._kind)
        if call is None:
            return seen
        tops = [seen] if isinstance(seen, Tensor) else seen if isinstance(seen, (tuple, list)) else []
        for number, tensor in enumerate(each for each in tops if isinstance(each, Tensor)):
            tensor.grad_fn, tensor.output_nr, tensor.requires_grad = call, number, True
        return seen

    def _discard(self, running: _Running) -> None:
        if not running.begun:
            return
        try:
            raise _CallNeverEnded
        except _CallNeverEnded:
            self._taps[running.cell][1](_TRAINS, (), None)

    # --- backward ---

    def _hang_backward(self, at: int) -> None:
        cell = self._index.cells[at]

        def deliver(called: Any, inputs: Any = (), outputs: Any = ()) -> None:
            if called is cell:
                self._guard("the hook of a gradient", self._on_gradients, at, inputs, outputs)

        self._backward_handles[at] = cell.register_backward_hook(cell_hook(deliver))

    def _on_gradients(self, at: int, inputs: Any, outputs: Any) -> None:
        pending = self._pending.get(at)
        if pending:
            pending.pop().deliver(self._gradients(inputs), self._gradients(outputs))

    def _gradients(self, values: Any) -> tuple[Any, ...]:
        values = values if isinstance(values, (tuple, list)) else (values,)
        return tuple(Tensor(value) if isinstance(value, self._kind) else None for value in values)

    # --- steps ---

    def end_step(self) -> None:
        """Forget the calls of the step; gradients that still come belong to none."""
        while self._running:
            self._discard(self._running.pop())
        self._pending.clear()

    def remove(self) -> None:
        """Remove all hooks, in reverse order. Safe to call twice."""
        self.end_step()
        for handle in reversed([*self._handles, *self._backward_handles.values()]):
            self._guard("taking off a hook", handle.remove)
        self._handles.clear()
        self._backward_handles.clear()
        self._taps = {}
        self.are_hung = False


def _has_gradient(output: Any, kind: type) -> bool:
    """Return whether MindSpore passes on a gradient of an output: of tensors and of those in a tuple or list."""
    values = output if isinstance(output, (tuple, list)) else (output,)
    return any(isinstance(value, kind) and value._requires_grad for value in values)
