"""What the monitor hangs on a model and its optimizers, and takes off again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.communication import watchable_operators
from stepwatch.extras import Extras, TrainingStopRequested
from stepwatch.grad_scaler import ScalerSteps
from stepwatch.model_index import ModelIndex, index_model, optimizer_of_parameters, param_groups_of
from stepwatch.optimizer_step import OptimizerStep, updates_without_moments, with_state
from stepwatch.sharded_gradients import ShardedGradients

if TYPE_CHECKING:
    import torch
    from stepwatch import _core

# Steps without collecting after which hooks come off until the next collected step: putting them on and off costs about
# as much as leaving them on for two steps.
_IDLE_STEPS = 2
# Collected steps in a row after which gradients get the hook that costs less a call, and leaves something behind in
# torch when it is taken off.
_BUSY_STEPS = 8


class Attachment:
    """Hooks on modules and parameters while a plan wants them, and wrappers around optimizers, for one session.

    Used from the training thread. Nothing here raises into the training loop but TrainingStopRequested.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    writes_reduced : callable, optional
        Given a parameter: False if the row of its reduced gradient is another rank's to write.
    rank : int
        Of this process.

    Attributes
    ----------
    owner : object
        Kept alive as long as this hangs on an optimizer.
    """

    def __init__(
        self, session: _core.Session, writes_reduced: Callable[[Any], bool] | None = None, rank: int = 0
    ) -> None:
        self.session = session
        self.owner: Any = None
        self._extras = Extras(session, self._guarded, rank)
        self._writes_reduced = writes_reduced
        self._chunks: list[torch.nn.Module] = []
        self._optimizers: list[OptimizerStep] = []
        self._index = ModelIndex()
        self._groups: tuple[int, ...] = ()
        self._module_hooks: dict[int, list[Any]] = {}
        self._gradient_hooks: dict[int, Any] = {}
        self._wanted_modules: set[int] = set()
        self._wanted_gradients: set[int] = set()
        self._swapped = False
        self._hung = False
        self._idle_steps = 0
        self._busy_steps = 0
        self._scaler: ScalerSteps | None = None
        self._scaled_calls: dict[int, int] = {}
        self._steps_without_moments: dict[int, int] = {}
        self._sharded = ShardedGradients(self._before_reduction, self._guarded)
        self._sharded_wanted: dict[int, int] = {}  # id of a parameter -> its index
        self._said_unseen = False
        self._said_unhookable = False

    def attach(self, chunks: Sequence[torch.nn.Module], optimizer: Any) -> None:
        """Add a model and its optimizer; called again it adds more of them to the same steps.

        Parameters
        ----------
        chunks : sequence of torch.nn.Module
            The model, or the chunks of a virtual pipeline.
        optimizer : object
            Its `step` ends the training step; of several optimizers the first one's does.

        Raises
        ------
        TypeError, ValueError, OSError
            The config is refused or cannot be read (static mode only).
        """
        self._chunks += [chunk for chunk in chunks if all(chunk is not known for known in self._chunks)]
        if all(optimizer is not known.optimizer for known in self._optimizers):
            number = len(self._optimizers)
            self._optimizers.append(
                OptimizerStep(
                    optimizer,
                    lambda: self._guarded("reading before the update", lambda: self._before_update(number)),
                    lambda: self._guarded("reading after the update", lambda: self._after_update(number)),
                    self._is_quiet,
                    self._after_quiet_step if number == 0 else lambda: None,
                )
            )
        if self._scaler is None:
            self._scaler = ScalerSteps(
                lambda scaled: self._guarded("a gradient scaler's step", lambda: self._before_scaler(scaled)),
                lambda scaled: self._guarded("a gradient scaler's step", lambda: self._after_scaler(scaled)),
            )
        self._attach_session()

    def _attach_session(self) -> None:
        self._extras.remove()
        self._remove_hooks()
        self._index = index_model(self._chunks)
        self._groups = self._group_sizes()
        optimizer_of = optimizer_of_parameters([with_state(step.optimizer) for step in self._optimizers])
        parameters = [
            (
                chunk,
                name,
                parameter,
                parameter.requires_grad,
                self._writes_reduced is None or self._writes_reduced(parameter),
                optimizer_of.get(id(parameter), -1),
            )
            for (chunk, name), parameter in zip(self._index.parameter_rows, self._index.parameters)
        ]
        on_swap = weakref.WeakMethod(self._on_swap)  # the session is ours: a circle that nobody could see
        self.session.attach(
            self._index.module_rows,
            parameters,
            len(self._optimizers),
            watchable_operators(),
            lambda: (on_swap() or (lambda: None))(),
        )
        self._hang_hooks()

    def _group_sizes(self) -> tuple[int, ...]:
        return tuple(
            len(group["params"]) for step in self._optimizers for group in param_groups_of(with_state(step.optimizer))
        )

    def amend(self, ops: list[str] | None, xy_distribution: bool | None) -> None:
        """Change the plan in force, and hang the hooks that it wants now.

        Parameters
        ----------
        ops, xy_distribution
            As in `Watch.amend`.
        """

        def change() -> None:
            self.session.amend(ops, xy_distribution)
            if self._swapped:
                self._hang_hooks()

        self._guarded("changing the plan in force", change)

    # --- hooks ---

    def _on_swap(self) -> None:
        self._wanted_modules = set(self.session.wanted_modules)
        self._wanted_gradients = set(self.session.wanted_gradients)
        self._swapped = True

    def _hang_hooks(self) -> None:
        """Bring the hooks in line with what the step that begins now wants."""
        if self._swapped:
            self._guarded("installing hooks", lambda: self._extras.swap(self._index))
        self._count_steps()
        hang = self._idle_steps < _IDLE_STEPS
        if hang == self._hung and not self._swapped:
            return
        self._hung, self._swapped = hang, False
        if hang:
            self._install(self._wanted_modules, self._wanted_gradients)
        else:
            self._install(set(), set())

    def _count_steps(self) -> None:
        if not self.session.collecting:
            self._idle_steps, self._busy_steps = self._idle_steps + 1, 0
            return
        self._idle_steps, self._busy_steps = 0, self._busy_steps + 1
        if self._busy_steps == _BUSY_STEPS:
            for index in list(self._gradient_hooks):
                self._take_off_gradient_hook(index)
            self._swapped = True

    def _install(self, modules: set[int], gradients: set[int]) -> None:
        for index in [index for index in self._module_hooks if index not in modules]:
            self._take_off(self._module_hooks.pop(index))
        for index in [index for index in self._gradient_hooks if index not in gradients]:
            self._take_off_gradient_hook(index)
        for index in sorted(modules - self._module_hooks.keys()):
            self._guarded("installing the hooks of a module", lambda: self._hang_on_module(index))  # noqa: B023
        self._watch_sharded(gradients & self._index.sharded)
        for index in sorted(gradients - self._gradient_hooks.keys() - self._index.sharded):
            parameter = self._index.parameters[index]
            self._guarded(
                "installing the hook of a parameter",
                lambda: self._hang_on_gradient(index, parameter),  # noqa: B023
            )

    def _take_off(self, handles: Sequence[Any]) -> None:
        for handle in reversed(handles):
            self._guarded("taking off a hook", lambda: handle.remove())  # noqa: B023

    def _hang_on_module(self, index: int) -> None:
        from stepwatch.eager_hooks import EagerHook  # which needs torch

        module = self._index.modules[index]
        handles = self._module_hooks[index] = []
        before, after = EagerHook(self.session.before_forward(index)), EagerHook(self.session.after_forward(index))
        try:
            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            # Called where the module raises as well: what is kept of the call would keep its graph alive.
            handles.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))
        except RuntimeError as error:  # a scripted module
            if not self._said_unhookable:
                chunk, name, kind, _ = self._index.module_rows[index]
                self.session.warn(
                    f"the module {chunk}:{name} ({kind}) takes no hooks ({error}): it, and others like it, give no "
                    "rows of activations; those of the modules around it, and of its parameters, are there"
                )
            self._said_unhookable = True

    def _hang_on_gradient(self, index: int, parameter: torch.nn.Parameter) -> None:
        if hasattr(parameter, "materialize"):  # of a lazy module: it takes hooks after its first call
            self._swapped = True
        elif parameter.requires_grad and parameter.is_leaf:
            self._gradient_hooks[index] = self._gradient_handle(index, parameter)

    def _gradient_handle(self, index: int, parameter: torch.nn.Parameter) -> Any:
        if self._busy_steps < _BUSY_STEPS and self.session.reads_incoming(index):
            return parameter.register_hook(self.session.incoming_hook(index))
        return parameter.register_post_accumulate_grad_hook(self.session.unreduced_hook(index))

    def _take_off_gradient_hook(self, index: int) -> None:
        self._gradient_hooks.pop(index).remove()
        self.session.take_off_late_hook(index)
        parameter = self._index.parameters[index]
        if parameter._backward_hooks is not None and not parameter._backward_hooks:
            # Otherwise torch would call into Python for it in every backward pass, for nothing.
            parameter._backward_hooks = None

    def _watch_sharded(self, wanted: set[int]) -> None:
        self._sharded_wanted = {id(self._index.parameters[index]): index for index in wanted}
        if not wanted:
            self._sharded.remove()
        elif not self._sharded.watch() and not self._said_unseen:
            self._said_unseen = True
            self.session.warn(
                f"this torch has another FSDP than is known: the gradients of {len(wanted)} sharded parameters cannot "
                "be seen before they are reduced; wg_distribution gives no rows of grad_unreduced for them, "
                "grad_reduced has this rank's shards"
            )

    def _before_reduction(self, parameter_id: int, gradient: Any) -> None:
        index = self._sharded_wanted.get(parameter_id)
        if index is not None:
            self.session.before_reduction(index, gradient)

    def _remove_hooks(self) -> None:
        self._watch_sharded(set())
        self._take_off([handle for handles in self._module_hooks.values() for handle in handles])
        self._module_hooks.clear()
        for index in reversed(list(self._gradient_hooks)):
            self._take_off_gradient_hook(index)

    # --- around the optimizer's step ---

    def _guarded(self, where: str, work: Callable[[], None]) -> None:
        """Keep what goes wrong here from the training loop: it is told once, and rows are missing."""
        try:
            work()
        except TrainingStopRequested:
            raise
        except Exception as error:
            self.session.caught(where, _text_of(error))

    def _before_update(self, number: int) -> None:
        optimizer = with_state(self._optimizers[number].optimizer)
        missing = self.session.before_update(number, getattr(optimizer, "state", {}))
        missing = max(missing, self._extras.read_state(optimizer))
        if missing:
            self._say_if_no_moments(number, optimizer, missing)
        if number == 0:
            self._extras.before_update()

    def _say_if_no_moments(self, number: int, optimizer: Any, missing: int) -> None:
        # Before its first update an optimizer has no state yet.
        seen = self._steps_without_moments.get(number, 0) + 1
        self._steps_without_moments[number] = seen
        if seen == 2 and updates_without_moments(optimizer):
            self.session.warn(
                f"{type(optimizer).__name__} keeps no exp_avg and exp_avg_sq for {missing} parameters (Adam and AdamW "
                "do): mv_distribution and mg_direction give no rows for them, ur_distribution no images"
            )

    def _after_update(self, number: int) -> None:
        self.session.after_update(number)
        if number == 0:
            self._end_step()

    # A step in which nothing hangs and nothing is collected must cost next to nothing: a few calls, no more.

    def _is_quiet(self) -> bool:
        return not self._hung and not self.session.collecting

    def _after_quiet_step(self) -> None:
        try:
            if self.session.pass_step():
                return
        except Exception as error:
            self.session.caught("ending a step", _text_of(error))
        self._guarded("preparing a step", self._begin_step)

    def _end_step(self) -> None:
        self._guarded("ending a step", self._extras.end_step)
        self.session.end_step()
        self._begin_step()

    def _begin_step(self) -> None:
        self._hang_hooks()
        if self._group_sizes() != self._groups:  # a parameter group was added
            self._attach_session()

    def _before_scaler(self, optimizer: Any) -> None:
        for step in self._optimizers:
            if step.optimizer is optimizer:
                self._scaled_calls[id(optimizer)] = step.calls

    def _after_scaler(self, optimizer: Any) -> None:
        for number, step in enumerate(self._optimizers):
            if step.optimizer is optimizer and self._scaled_calls.pop(id(optimizer), -1) == step.calls and number == 0:
                self._end_step()

    def close(self) -> None:
        """Take off everything in reverse order. Safe to call twice."""
        self._extras.remove()
        self._remove_hooks()
        if self._scaler is not None:
            self._scaler.remove()
            self._scaler = None
        for step in reversed(self._optimizers):
            step.remove()
        self._optimizers.clear()
        self._chunks.clear()
        self._index = ModelIndex()


def _text_of(error: Exception) -> str:
    """Describe an exception of anybody's class, in text that can be written as UTF-8."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type(error).__name__}, which cannot be shown"
    return text.encode("utf-8", "backslashreplace").decode()
