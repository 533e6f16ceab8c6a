"""What the monitor hangs on a model and its optimizers, and takes off again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.grad_scaler import ScalerSteps
from stepwatch.model_index import ModelIndex, index_model, optimizer_of_parameters
from stepwatch.optimizer_step import OptimizerStep

if TYPE_CHECKING:
    import torch
    from stepwatch import _core

# Steps without collecting after which hooks come off until the next collected step: putting them on and off costs about
# as much as leaving them on for two steps.
_IDLE_STEPS = 2

STRUCTURE_EXIT = "exit after first monitor step when print model struct"


class StructureWritten(Exception):
    """Ends the run after print_struct, as users of msProbe expect; the class is theirs to catch as Exception."""


class Attachment:
    """Hooks on modules and parameters while a plan wants them, and wrappers around optimizers, for one session.

    Used from the training thread. Nothing here raises into the training loop but the exit after print_struct.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    writes_reduced : callable, optional
        Given a parameter: False if the row of its reduced gradient is another rank's to write.
    """

    def __init__(self, session: _core.Session, writes_reduced: Callable[[Any], bool] | None = None) -> None:
        self.session = session
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
        self._scaler: ScalerSteps | None = None
        self._scaled_calls: dict[int, int] = {}
        self._steps_without_moments: dict[int, int] = {}

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
                OptimizerStep(optimizer, lambda: self._before_update(number), lambda: self._after_update(number))
            )
        if self._scaler is None:
            self._scaler = ScalerSteps(self._before_scaler, self._after_scaler)
        self._attach_session()

    def _attach_session(self) -> None:
        self._remove_hooks()
        self._index = index_model(self._chunks)
        self._groups = self._group_sizes()
        optimizer_of = optimizer_of_parameters([step.optimizer for step in self._optimizers])
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
        self.session.attach(self._index.module_rows, parameters, len(self._optimizers), self._on_swap)
        self._hang_hooks()

    def _group_sizes(self) -> tuple[int, ...]:
        return tuple(
            len(group["params"]) for step in self._optimizers for group in getattr(step.optimizer, "param_groups", [])
        )

    # --- hooks ---

    def _on_swap(self) -> None:
        self._wanted_modules = set(self.session.wanted_modules)
        self._wanted_gradients = set(self.session.wanted_gradients)
        self._swapped = True

    def _hang_hooks(self) -> None:
        """Bring the hooks in line with what the step that begins now wants."""
        self._idle_steps = 0 if self.session.collecting else self._idle_steps + 1
        hang = self._idle_steps < _IDLE_STEPS
        if hang == self._hung and not self._swapped:
            return
        self._hung, self._swapped = hang, False
        if hang:
            self._install(self._wanted_modules, self._wanted_gradients)
        else:
            self._install(set(), set())

    def _install(self, modules: set[int], gradients: set[int]) -> None:
        for index in [index for index in self._module_hooks if index not in modules]:
            for handle in self._module_hooks.pop(index):
                handle.remove()
        for index in [index for index in self._gradient_hooks if index not in gradients]:
            self._gradient_hooks.pop(index).remove()
        for index in sorted(modules - self._module_hooks.keys()):
            module = self._index.modules[index]
            self._module_hooks[index] = [
                module.register_forward_pre_hook(self.session.before_forward(index), with_kwargs=True),
                module.register_forward_hook(self.session.after_forward(index), with_kwargs=True),
            ]
        for index in sorted(gradients - self._gradient_hooks.keys()):
            parameter = self._index.parameters[index]
            if parameter.requires_grad and parameter.is_leaf:
                hook = self.session.unreduced_hook(index)
                self._gradient_hooks[index] = parameter.register_post_accumulate_grad_hook(hook)

    def _remove_hooks(self) -> None:
        for handle in reversed([handle for handles in self._module_hooks.values() for handle in handles]):
            handle.remove()
        for handle in reversed(list(self._gradient_hooks.values())):
            handle.remove()
        self._module_hooks.clear()
        self._gradient_hooks.clear()

    # --- around the optimizer's step ---

    def _before_update(self, number: int) -> None:
        optimizer = self._optimizers[number].optimizer
        missing = self.session.before_update(number, getattr(optimizer, "state", {}))
        if missing:
            self._say_if_no_moments(number, optimizer, missing)
        if number == 0 and self.session.publish_structure():
            raise StructureWritten(STRUCTURE_EXIT)

    def _say_if_no_moments(self, number: int, optimizer: Any, missing: int) -> None:
        # Before its first update an optimizer has no state yet.
        seen = self._steps_without_moments.get(number, 0) + 1
        self._steps_without_moments[number] = seen
        if seen == 2:
            self.session.warn(
                f"{type(optimizer).__name__} keeps no exp_avg and exp_avg_sq for {missing} parameters (Adam and AdamW "
                "do): mv_distribution and mg_direction give no rows for them"
            )

    def _after_update(self, number: int) -> None:
        self.session.after_update(number)
        if number == 0:
            self._end_step()

    def _end_step(self) -> None:
        self.session.end_step()
        self._hang_hooks()
        if self._group_sizes() != self._groups:  # a parameter group was added
            try:
                self._attach_session()
            except Exception as error:
                self.session.caught("looking at the model again", str(error))

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
        self._remove_hooks()
        if self._scaler is not None:
            self._scaler.remove()
            self._scaler = None
        for step in reversed(self._optimizers):
            step.remove()
        self._optimizers.clear()
        self._chunks.clear()
        self._index = ModelIndex()
