"""One session and its hooks on a model and its optimizers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.auxiliary_capture import AuxiliaryCapture
from stepwatch.distributed.communication import watchable_operators
from stepwatch.frameworks.fsdp1_flat import FlatParts
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter, Sharing
from stepwatch.frameworks.table import reduces_in_backward
from stepwatch.hooks.hook_set import HookSet
from stepwatch.hooks.missing_rows import MissingRows
from stepwatch.hooks.model_changes import ModelChanges, changes_of
from stepwatch.hooks.model_index import ModelIndex, index_model, optimizer_of_parameters
from stepwatch.hooks.scripting import Scripting
from stepwatch.optimizers.added_groups import AddedGroups
from stepwatch.optimizers.followed_step import Reading
from stepwatch.optimizers.optimizer_reading import OptimizerReading
from stepwatch.optimizers.step_clock import StepClock, StepEvents
from stepwatch.reporting.allocator_numbers import AllocatorNumbers, cuda_device_of
from stepwatch.reporting.inner_parts import InnerParts
from stepwatch.reporting.reporter import Reporter
from stepwatch.training_stop import TrainingStopRequested

if TYPE_CHECKING:
    import torch

_INFO = 1  # a log level
# Steps without collection between two checks of the model; parts removed from it stay alive until the check.
_QUIET_STEPS_BETWEEN_LOOKS = 16
# Consecutive step boundaries at which a change of the model is followed.
_CHANGES_IN_A_ROW_MAX = 8


class Attachment:
    """Drives one session during training: installs the hooks that it requests, passes tensors to it, ends steps.

    Use it from the training thread. It raises no exception into the training loop except TrainingStopRequested.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    reporter : Reporter
        Collects the numbers of devices at the end of a step.
    writes_reduced : callable, optional
        Given a parameter and the ranks with its reduced gradient: False if another rank writes the row.
    rank, ranks : int
        The rank of this process, and the number of ranks.
    clock : object, optional
        As in `StepClock`.

    Attributes
    ----------
    owner : object
        Kept alive as long as this object is attached to an optimizer.
    """

    def __init__(
        self,
        session: _core.Session,
        reporter: Reporter,
        writes_reduced: Callable[[Any, Sharing], bool] | None = None,
        rank: int = 0,
        ranks: int = 1,
        clock: Any = None,
    ) -> None:
        self.session = session
        self._reporter = reporter
        self._late_reports = reporter.late.under_way
        self._allocator = AllocatorNumbers(session.report)
        self.owner: Any = None
        self._writes_reduced = writes_reduced
        self._rank, self._ranks = rank, ranks
        self._logged_shares: set[str] = set()
        self._chunks: list[torch.nn.Module] = []
        self._index = ModelIndex()
        self._flat_parts = FlatParts()
        self._adapters: list[OptimizerAdapter] = []
        self._hooks = HookSet(session, self._guarded)
        self._parts = InnerParts(session, self._guarded, ranks)
        self._late_parts = self._parts.device.under_way
        self._capture = AuxiliaryCapture(session, self._guarded, rank, self._parts)
        self._clock = StepClock(
            StepEvents(
                before_update=lambda *step: self._guarded("reading before the update", self._before_update, *step),
                after_update=lambda number: self._guarded("reading after the update", self._after_update, number),
                abandoned_update=session.abandon_update,
                end_step=lambda updated: self._guarded("ending a step", self._end_step, updated),
                is_quiet=lambda: not self._hooks.is_hung and not session.collecting,
                end_quiet_step=self._end_quiet_step,
                repeats_closure=session.repeat_closure,
                left_out=self._warn_left_out,
                caught=self._caught_in_step,
                enter_part=session.enter_part,
            ),
            clock,
        )
        self._has_begun_update = False  # in this step
        self._added_groups = AddedGroups(self._follow_group)
        self._scripting = Scripting()
        self._changes = ModelChanges(session)
        self._followed_changes = 0  # consecutive, at each step boundary
        self._quiet_steps = 0
        self._swapped = False
        self._readings: list[OptimizerReading] = []
        self._missing = MissingRows(session)
        self._versions: list[int] = []  # of the weights, when watching began

    def attach(self, chunks: Sequence[torch.nn.Module], optimizers: Sequence[Any]) -> None:
        """Add a model and its optimizers; another call adds more of them to the same steps.

        Parameters
        ----------
        chunks : sequence of torch.nn.Module
            The model, or the chunks of a virtual pipeline.
        optimizers : sequence of object
            A training step ends when each of them has stepped.

        Raises
        ------
        TypeError, ValueError, OSError
            The config is refused or cannot be read (static mode only).
        """
        self._chunks += [chunk for chunk in chunks if all(chunk is not known for known in self._chunks)]
        parameters = _ids(self._chunks)
        for optimizer in optimizers:
            self._clock.add(optimizer, parameters)
        self._attach_session()
        self._added_groups.watch()
        self._scripting.watch()
        self._guarded("looking at weights", self._remember_versions)

    def _is_reduced(self) -> bool:
        return self._ranks == 1 or reduces_in_backward(self._chunks)

    def _attach_session(self) -> None:
        self._capture.remove()
        self._index = index_model(self._chunks, self._clock.adapters, self._flat_parts)
        self._adapters = adapters = [self._flat_parts.adapted(adapter) for adapter in self._clock.adapters]
        self._allocator.device = cuda_device_of(self._index.parameters)
        self._hooks.set_model(self._index)
        self._changes.set_model(self._chunks, self._index.parameters, adapters)
        is_reduced = self._is_reduced()
        self._readings = [
            OptimizerReading(self.session, number, adapter, is_reduced) for number, adapter in enumerate(adapters)
        ]
        self._missing.set_model(self._index, adapters, is_reduced)
        optimizer_of = optimizer_of_parameters([adapter.groups() for adapter in adapters])
        parameters = [
            (
                chunk,
                name,
                parameter,
                self._changes.is_trained(parameter),
                self._writes(number, optimizer_of.get(id(parameter), 0)),
                optimizer_of.get(id(parameter), -1),
                as_written,
            )
            for number, ((chunk, name, as_written), parameter) in enumerate(
                zip(self._index.parameter_rows, self._index.parameters)
            )
        ]
        # Weak: the garbage collector cannot see a cycle through the native session.
        on_swap = weakref.WeakMethod(self._on_swap)
        self.session.attach(
            self._index.module_rows,
            parameters,
            len(adapters),
            watchable_operators(),
            lambda: (on_swap() or (lambda: None))(),
        )
        self._log_shares()
        self._hang_hooks()

    def _writes(self, number: int, optimizer: int) -> bool:
        if self._writes_reduced is None:
            return True
        parameter = self._index.parameters[number]
        adapters = self._clock.adapters
        sharing = adapters[optimizer].sharing(parameter) if adapters else Sharing()
        if number in self._index.holdings:
            sharing = sharing._replace(data_parallel=True, holders=self._index.holdings[number].ranks)
        return self._writes_reduced(parameter, sharing)

    def _log_shares(self) -> None:
        for text in self._shares():
            if text and self._rank == 0 and text not in self._logged_shares:
                _core.print_line(_INFO, self._rank, text)
            self._logged_shares.add(text)

    def _shares(self) -> list[str]:
        whole = {number for number, holding in self._index.holdings.items() if holding.is_whole}
        reductions = dict.fromkeys(kind for number, kind in self._index.sharded.items() if number not in whole)
        texts = [*(adapter.shares() for adapter in self._adapters), *(kind.shares for kind in reductions)]
        if not any(texts) and any(hasattr(parameter, "_local_tensor") for parameter in self._index.parameters):
            texts.append("rows of weights, gradients and moments that are DTensors cover this rank's part")
        return texts

    def amend(self, ops: list[str] | None, xy_distribution: bool | None) -> None:
        """Change the plan in force, and install the hooks of the changed plan.

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

    def _on_swap(self) -> None:
        self._hooks.take_wishes()
        self._missing.begin_plan()
        self._swapped = True
        self._followed_changes = 0

    def _hang_hooks(self) -> None:
        if self._swapped:
            self._guarded("installing hooks", self._capture.swap, self._index)
            self._guarded(
                "preparing the parts of steps", self._parts.set_model, self._index.roots(), self._index.parameters
            )
            self._swapped = False
        self._hooks.begin_step()
        self._parts.begin_step()

    def _guarded(self, where: str, work: Callable[..., Any], *args: Any) -> None:
        """Run `work` and keep its exceptions from the training loop; they are logged once, and rows are missing."""
        try:
            work(*args)
        except TrainingStopRequested:
            raise
        except Exception as error:
            self.session.caught(where, _text_of(error))

    def _caught_in_step(self, error: Exception) -> None:
        if isinstance(error, TrainingStopRequested):
            raise error
        self.session.caught("following the steps of an optimizer", _text_of(error))

    # --- around the optimizer's step ---

    def _before_update(self, number: int, reading: Reading) -> None:
        self._parts.note_update()
        self._changes.look_at_frozen()
        self._readings[number].before_update(reading, self._gone() if self._changes.any_module() else set())
        if reading is Reading.IN_DOUBT:
            return
        self._capture.read_state(self._adapters[number])
        if not self._has_begun_update:
            self._has_begun_update = True
            self._capture.before_update()

    def _gone(self) -> set[int]:
        there = {id(parameter) for chunk in self._chunks for _, parameter in self._flat_parts.named_parameters(chunk)}
        return {id(parameter) for parameter in self._index.parameters} - there

    def _after_update(self, number: int) -> None:
        self._readings[number].after_update()

    def end_step(self) -> None:
        """End the training step; from the first call on, optimizers do not end it."""
        self._clock.end_by_hand()

    def _warn_left_out(self, number: int) -> None:
        adapter = self._clock.adapters[number]
        self.session.warn(
            f"optimizer {number + 1} of {len(self._clock.adapters)}, {type(adapter.optimizer).__name__}, does not step "
            "while others do: training steps end without it until it steps again"
        )

    def _end_step(self, has_updated: bool) -> None:
        has_stepped = self._has_begun_update or self._clock.has_stepped
        self._has_begun_update = False
        self._guarded("ending a step", self._capture.end_step)
        self._guarded("looking for missing rows", self._missing.end_step, has_updated, has_stepped)
        if self._allocator.device is not None:
            self._allocator.look()
        self._parts.end_step()
        self.session.end_step()
        if self._late_parts:
            self._guarded("reading the times of a device", self._parts.harvest)
        if self._late_reports:
            self._reporter.harvest()
        self._begin_step()

    def _end_quiet_step(self) -> None:
        # A step without hooks and without collection must cost almost nothing: only a few calls.
        if self._late_reports:
            self._reporter.harvest()
        if self._late_parts:
            self._guarded("reading the times of a device", self._parts.harvest)
        if self._allocator.device is not None:
            self._allocator.look()
        self._quiet_steps += 1
        try:
            if self.session.pass_step() and self._quiet_steps % _QUIET_STEPS_BETWEEN_LOOKS != 0:
                return
        except Exception as error:
            self.session.caught("ending a step", _text_of(error))
        self._guarded("preparing a step", self._begin_step)

    def _begin_step(self) -> None:
        is_followed = self._followed_changes < _CHANGES_IN_A_ROW_MAX
        if is_followed and self._changes.any():
            self._follow_changes()
            return
        if is_followed:
            self._followed_changes = 0
        self._hang_hooks()

    def _follow_group(self, optimizer: Any) -> None:
        # Only between two steps; otherwise a step would have rows of two plans.
        is_followed = self._followed_changes < _CHANGES_IN_A_ROW_MAX
        if is_followed and not self._has_begun_update and self.follows(optimizer):
            self._guarded("following a group of parameters", self._follow_changes)

    def _follow_changes(self) -> None:
        before, count = self._index, self._followed_changes + 1
        self._attach_session()
        self._followed_changes = count
        if self._followed_changes == _CHANGES_IN_A_ROW_MAX:
            self.session.warn(
                f"the model has changed at each of {_CHANGES_IN_A_ROW_MAX} steps in a row; further changes are ignored "
                "until the next change of the config, and rows may be missing until then"
            )
        elif self._rank == 0:
            _core.print_line(_INFO, self._rank, f"the model has changed: {changes_of(before, self._index)}")

    def learning_rate(self) -> float | None:
        """Return the first group's learning rate, or None if it is not a host number."""
        for adapter in self._clock.adapters[:1]:
            for group in adapter.groups()[:1]:
                rate = group.get("lr")
                return float(rate) if isinstance(rate, (int, float)) else None
        return None

    @property
    def device(self) -> Any:
        """The CUDA device of the model; None if it is not on one."""
        return self._allocator.device

    def follows(self, optimizer: Any) -> bool:
        """Return whether this attachment follows the steps of an optimizer, or of one inside it."""
        inside = (optimizer, getattr(optimizer, "optimizer", None), getattr(optimizer, "_optimizer", None))
        known = [part for adapter in self._clock.adapters for part in (adapter.optimizer, *adapter.parts)]
        return any(part is other for part in inside if part is not None for other in known)

    def watches(self, chunks: Sequence[torch.nn.Module]) -> bool:
        """Return whether these are the watched chunks, or wrappers with the same parameters."""
        own = _ids(self._chunks)
        return own == _ids(chunks) if own else bool(self._chunks) and self._chunks == list(chunks)

    def _remember_versions(self) -> None:
        self._versions = _versions_of(self._index.parameters)

    def _warn_unseen_steps(self) -> None:
        if self._clock.has_stepped or not self._clock.adapters:
            return
        if self._versions and self._versions != _versions_of(self._index.parameters):
            name = type(self._clock.adapters[0].optimizer).__name__
            self.session.warn(
                f"no step of {name} was seen, though weights have changed: no data was collected; if its step was "
                "replaced by a function that does not call it, attach the monitor after that, or pass it the object "
                "whose step is called"
            )

    def close(self) -> None:
        """Remove all hooks in reverse order. Safe to call twice."""
        self._guarded("looking for steps", self._warn_unseen_steps)
        self._capture.remove()
        self._guarded("reading the times of a device", self._parts.harvest)
        self._guarded("taking off hooks", self._parts.set_model, [], [])
        self._hooks.set_model(ModelIndex())
        self._scripting.remove()
        self._added_groups.remove()
        self._clock.remove()
        self._chunks.clear()
        self._index, self._flat_parts, self._adapters = ModelIndex(), FlatParts(), []


def _versions_of(parameters: Sequence[Any]) -> list[int]:
    """Return the count of in-place changes of each tensor, which torch keeps for autograd."""
    return [parameter._version for parameter in parameters]


def _ids(chunks: Sequence[torch.nn.Module]) -> set[int]:
    return {id(parameter) for chunk in chunks for parameter in chunk.parameters()}


def _text_of(error: Exception) -> str:
    """Describe an exception of any class, in text that can be encoded as UTF-8."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type(error).__name__} (its text cannot be printed)"
    return text.encode("utf-8", "backslashreplace").decode()
