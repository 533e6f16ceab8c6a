"""One session and its hooks on a model of MindSpore and its optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.hooks.stack_info import StackBook
from stepwatch.mindspore.cell_hooks import CellHooks
from stepwatch.mindspore.cell_index import CellIndex, index_cells
from stepwatch.mindspore.lacking_rows import LackingRows
from stepwatch.mindspore.linear_features import LinearFeatures
from stepwatch.mindspore.optimizer_state import OptimizerState
from stepwatch.mindspore.plain_hooks import cell_hook
from stepwatch.mindspore.refusals import GRAPH_MODE, NO_STEP, check_model, check_optimizer, is_graph_mode
from stepwatch.mindspore.tensors import Library
from stepwatch.training_stop import STRUCTURE_EXIT, TrainingStopRequested

if TYPE_CHECKING:
    from stepwatch.reporting.reporter import Reporter

# Steps without collection after which hooks are removed until the next collected step.
_IDLE_STEPS = 2
# Steps between two looks for replaced cells and parameters.
_STEPS_BETWEEN_LOOKS = 16


class CellAttachment:
    """Drives one session during training: installs the hooks that it requests, passes tensors to it, ends steps.

    No function of MindSpore is replaced: optimizers are cells, and their hooks run around the update. Use it from the
    training thread. It raises no exception into the training loop except TrainingStopRequested.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    library : Library
        That of the session.
    reporter : Reporter
        Collects reported numbers at the end of a step.
    writes_reduced : callable, optional
        Given a parameter: False if another rank writes the row of its reduced gradient.
    clock : object, optional
        The optimizer whose update ends a step, or "end_step".

    Attributes
    ----------
    owner : object
        Kept alive as long as this object is attached to an optimizer.
    """

    device = None  # of CUDA

    def __init__(
        self,
        session: _core.Session,
        library: Library,
        reporter: Reporter,
        writes_reduced: Callable[[Any], bool] | None = None,
        clock: Any = None,
    ) -> None:
        self.session = session
        self.owner: Any = None
        self._reporter = reporter
        self._writes_reduced = writes_reduced
        self._clock = clock
        self._rule = _core.IterationRule()
        if clock == "end_step":
            self._rule.leave_to_program()
        self._chunks: list[Any] = []
        self._index = CellIndex()
        self._optimizers: list[OptimizerState] = []
        self._optimizer_handles: list[Any] = []
        self._hooks = CellHooks(session, library, self._guarded)
        self._features = LinearFeatures(session)
        self._lacking = LackingRows(session)
        self._swapped = False
        self._stacks_written = False
        self._has_begun_update = False  # in this step
        self._idle_steps = 0
        self._steps = 0
        self._warned_graph = False

    def attach(self, chunks: Sequence[Any], optimizers: Sequence[Any]) -> None:
        """Add a model and its optimizers; another call adds more of them to the same steps.

        Parameters
        ----------
        chunks : sequence of mindspore.nn.Cell
        optimizers : sequence of mindspore.nn.Optimizer
            A training step ends when each of them has updated.

        Raises
        ------
        TypeError, ValueError, OSError
            The config is refused or cannot be read (static mode only), or a model or optimizer is of another framework.
        """
        for chunk in chunks:
            check_model(chunk)
        for optimizer in optimizers:
            check_optimizer(optimizer)
        self._chunks += [chunk for chunk in chunks if all(chunk is not known for known in self._chunks)]
        for optimizer in optimizers:
            if all(optimizer is not known.optimizer for known in self._optimizers):
                self._follow(optimizer)
        self._attach_session()

    def _follow(self, optimizer: Any) -> None:
        number = self._rule.add()
        if optimizer is self._clock:
            self._rule.name_clock(number)
        self._optimizers.append(OptimizerState(optimizer))

        def before(called: Any, args: Any = (), kwargs: Any = None) -> None:
            if called is optimizer:
                self._guarded("reading before the update", self._before_update, number, args, kwargs or {})

        def after(called: Any, *_: Any) -> None:
            if called is optimizer:
                self._guarded("reading after the update", self._after_update, number)

        self._optimizer_handles.append(optimizer.register_forward_pre_hook(cell_hook(before), with_kwargs=True))
        self._optimizer_handles.append(optimizer.register_forward_hook(cell_hook(after), with_kwargs=True))

    def _attach_session(self) -> None:
        self._index = index = index_cells(self._chunks)
        self._hooks.set_index(index)
        weights = {id(weight.held): weight for weight in index.weights}
        optimizer_of: dict[int, int] = {}
        for number, state in enumerate(self._optimizers):
            state.set_weights(weights)
            for parameter in state.parameters:
                optimizer_of.setdefault(id(parameter), number)
        parameters = [
            (
                chunk,
                name,
                weight,
                bool(weight.held.requires_grad),
                self._writes_reduced is None or self._writes_reduced(weight.held),
                optimizer_of.get(id(weight.held), -1),
                None,
            )
            for (chunk, name), weight in zip(index.weight_rows, index.weights)
        ]
        self.session.attach(index.cell_rows, parameters, len(self._optimizers), [], self._on_swap)
        self._hang_hooks()

    def _on_swap(self) -> None:
        self._swapped = True

    def amend(self, ops: list[str] | None, xy_distribution: bool | None) -> None:
        """Change the plan in force, and install the hooks of the changed plan.

        Parameters
        ----------
        ops, xy_distribution
            As in `Watch.amend`.
        """

        def change() -> None:
            self.session.amend(ops, xy_distribution)
            self._hang_hooks()

        self._guarded("changing the plan in force", change)

    def _hang_hooks(self) -> None:
        self._idle_steps = 0 if self.session.collecting else self._idle_steps + 1
        if is_graph_mode():
            self._refuse_graph_mode()
            return
        hang = self._idle_steps < _IDLE_STEPS
        if not self._swapped and hang == self._hooks.are_hung:
            return
        if self._swapped:
            self._swapped = False
            self._guarded("preparing features", self._begin_plan)
        if hang:
            self._hooks.install(self._names_of_stacks())
        else:
            self._hooks.remove()

    def _begin_plan(self) -> None:
        self._lacking.begin_plan(self._index)
        self._hooks.features = self._features.of_plan(self._index.cells)
        wants_stacks = self.session.requests["stacks"] and not self._stacks_written
        self._hooks.stacks = StackBook() if wants_stacks else None

    def _names_of_stacks(self) -> dict[int, str]:
        if self._hooks.stacks is None:
            return {}
        names = zip(self._index.cell_rows, self.session.requests["module_names"])
        return {at: f"{row[0]}:{name}" for at, (row, name) in enumerate(names) if name is not None}

    def _refuse_graph_mode(self) -> None:
        self._hooks.remove()
        if not self._warned_graph:
            self._warned_graph = True
            self.session.warn(GRAPH_MODE)

    def _guarded(self, where: str, work: Callable[..., Any], *args: Any) -> None:
        """Run `work` and keep its exceptions from the training loop; they are logged once, and rows are missing."""
        try:
            work(*args)
        except TrainingStopRequested:
            raise
        except Exception as error:
            self.session.caught(where, f"{type(error).__name__}: {error}")

    # --- around the update ---

    def _before_update(self, number: int, args: Any, kwargs: dict[str, Any]) -> None:
        state = self._optimizers[number]
        if state.is_updating:  # the update before has raised
            self.session.abandon_update(number)
        state.is_updating = True
        if not self._has_begun_update:
            self._has_begun_update = True
            self._end_after_structure()
        if not self.session.collecting:
            return
        given = (*args, *kwargs.values())
        gradients = given[0] if given else ()
        self.session.before_update(number, state.moments(), state.gradients(gradients))

    def _after_update(self, number: int) -> None:
        state = self._optimizers[number]
        if not state.is_updating:
            return
        state.is_updating = False
        self.session.after_update(number)
        if self._rule.updated(number):
            self._end_step()
        for left_out in self._rule.take_left_out():
            self.session.warn(
                f"optimizer {left_out + 1} of {len(self._optimizers)}, "
                f"{type(self._optimizers[left_out].optimizer).__name__}, does not update while others do: training "
                "steps end without it until it updates again"
            )

    def _end_after_structure(self) -> None:
        handed_over = self.session.publish_structure()
        requests = self.session.requests
        ends = handed_over or not requests["structure"]
        if ends and requests["exit_after_structure"] and self.session.collecting:
            raise TrainingStopRequested(STRUCTURE_EXIT)

    # --- steps ---

    def end_step(self) -> None:
        """End the training step; from the first call on, optimizers do not end it."""
        if self._rule.end_by_hand():
            self._guarded("ending a step", self._end_step)

    def _end_step(self) -> None:
        self._guarded("ending a step", self._end_parts)
        self._has_begun_update = False
        self.session.end_step()
        self._reporter.harvest()
        self._steps += 1
        if self._swapped or self._steps % _STEPS_BETWEEN_LOOKS == 0:
            self._guarded("looking for changes of the model", self._follow_changes)
        self._guarded("preparing a step", self._hang_hooks)

    def _end_parts(self) -> None:
        self._hooks.end_step()
        if not self.session.collecting:
            return
        self._features.end_step()
        self._lacking.end_step(self._has_begun_update)
        if self._hooks.stacks is not None and self._hooks.stacks.rows():
            self.session.publish_stacks(self._hooks.stacks.rows())
            self._hooks.stacks = None
            self._stacks_written = True

    def _follow_changes(self) -> None:
        before, now = self._index.identity(), index_cells(self._chunks).identity()
        if before == now:
            return
        swapped = self._swapped
        self._attach_session()
        self._swapped = self._swapped or swapped
        _core.print_line(1, -1, "the model has changed; rows follow from the next step on")

    # --- as other parts of a monitor use it ---

    def learning_rate(self) -> float | None:
        """Return None: reading the rate of an optimizer would wait for MindSpore."""
        return None

    def follows(self, optimizer: Any) -> bool:
        """Return whether this attachment follows the updates of an optimizer."""
        return any(optimizer is known.optimizer for known in self._optimizers)

    def watches(self, chunks: Sequence[Any]) -> bool:
        """Return whether these are the watched chunks."""
        return bool(self._chunks) and [id(chunk) for chunk in self._chunks] == [id(chunk) for chunk in chunks]

    def close(self) -> None:
        """Remove all hooks in reverse order. Safe to call twice."""
        if self._optimizers and self._steps == 0 and self.session.collecting:
            self.session.warn(NO_STEP)
        self._hooks.set_index(CellIndex())
        for handle in reversed(self._optimizer_handles):
            self._guarded("taking off a hook", handle.remove)
        self._optimizer_handles.clear()
        self._chunks.clear()
        self._optimizers.clear()
        self._index = CellIndex()
