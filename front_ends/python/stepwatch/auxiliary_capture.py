"""Features, operators, call stacks and heat maps: the parts of a plan that native hooks do not read."""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.distributed.communication import CommunicationTap
from stepwatch.features.feature_hooks import FeatureHooks
from stepwatch.hooks.stack_info import StackBook
from stepwatch.optimizers.update_ratios import UpdateRatios
from stepwatch.reporting.inner_parts import InnerParts, waiting_of
from stepwatch.training_stop import COMMUNICATION_EXIT, STRUCTURE_EXIT, TrainingStopRequested

if TYPE_CHECKING:
    import torch
    from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter
    from stepwatch.hooks.model_index import ModelIndex

_INFO = 1


class AuxiliaryCapture:
    """Installs and removes these parts of the plan in force, for one session. Use it from the training thread.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function).
    rank : int
        The rank of this process: only rank 0 prints the stacks of operators.
    parts : InnerParts
        Measures the time of operators.
    """

    def __init__(
        self,
        session: _core.Session,
        guard: Callable[[str, Callable[[], None]], None],
        rank: int,
        parts: InnerParts,
    ) -> None:
        self._session = session
        self._guard = guard
        self._rank = rank
        self._parts = parts
        self._requests: dict[str, Any] = {}
        self._features = FeatureHooks(session, guard)
        self._updates = UpdateRatios(session)
        self._communication: CommunicationTap | None = None
        self._gone: weakref.finalize[Any, Any] | None = None  # removes the wrappers of an unclosed monitor
        self._stacks: StackBook | None = None
        self._stack_handles: list[Any] = []
        self._stacks_written = False

    def swap(self, index: ModelIndex) -> None:
        """Apply the plan that has come into force, or remove everything if there is no plan.

        Parameters
        ----------
        index : ModelIndex
            Contains the modules of the session's sites.
        """
        self.remove()
        self._requests = self._session.requests
        self._features.install(index.modules, self._session.wanted_features, self._requests["batch_first_attention"])
        self._updates.install((number, index.parameters[number]) for number in self._session.wanted_updates)
        if self._requests["communication"]:
            self._wrap_operators()
        if self._requests["stacks"] and not self._stacks_written:
            self._stacks = StackBook()
            names = self._requests["module_names"]
            for (chunk, *_), name, module in zip(index.module_rows, names, index.modules):
                if name is None:
                    continue
                hook = self._stacks.hook(f"{chunk}:{name}")
                self._guard("watching from where a module is called", functools.partial(self._hang, module, hook))

    def _hang(self, module: torch.nn.Module, hook: Callable[..., None]) -> None:
        self._stack_handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def _wrap_operators(self) -> None:
        # The wrappers belong to torch itself, and stay below wrappers that others install later. A strong reference to
        # the session would keep an unclosed monitor alive.
        owner = weakref.ref(self)

        def of_session(use: Callable[[_core.Session], Any]) -> Any:
            capture = owner()
            return None if capture is None else use(capture._session)

        self._communication = CommunicationTap(
            lambda *args: of_session(lambda session: session.observe_communication(*args)),
            lambda what, why: of_session(lambda session: session.warn(f"{what}: {why}")),
            collecting=lambda: bool(of_session(lambda session: session.collecting)),
            before=self._session.watches_before_operators,
            codelines=self._requests["communication_codeline"],
            log_only=self._requests["communication_log_only"],
            waiting=waiting_of(self._parts),
        )
        self._communication.install()
        self._gone = weakref.finalize(self, self._communication.remove)
        self._gone.atexit = False

    def read_state(self, optimizer: OptimizerAdapter) -> None:
        """Read the state of an optimizer before its update.

        Parameters
        ----------
        optimizer : OptimizerAdapter
        """
        self._guard("counting updates and ratios", lambda: self._updates.read(optimizer))

    def before_update(self) -> None:
        """Run the work that is due when the first update of a step begins.

        Raises
        ------
        TrainingStopRequested
            If the plan ends the run here.
        """
        self._end_after_structure()
        if self._communication is None or not self._requests["communication_log_only"] or self._session.step <= 0:
            return
        if self._rank == 0:
            _core.print_line(_INFO, self._rank, json.dumps(self._communication.stacks()))
        raise TrainingStopRequested(COMMUNICATION_EXIT)

    def _end_after_structure(self) -> None:
        # A rank without collection ends with the others, which would otherwise wait for it indefinitely.
        handed_over = self._session.publish_structure()
        ends = handed_over or not self._requests.get("structure", False)
        if ends and self._requests.get("exit_after_structure", False) and self._session.collecting:
            raise TrainingStopRequested(STRUCTURE_EXIT)

    def end_step(self) -> None:
        """Pass on the results of the step before it is closed."""
        self._features.end_step()
        self._updates.end_step()
        if self._stacks is None or not self._session.collecting:
            return
        rows = self._stacks.rows()
        if rows:
            self._session.publish_stacks(rows)
            self._stacks_written = True
            self._drop_stacks()

    def _drop_stacks(self) -> None:
        for handle in reversed(self._stack_handles):
            self._guard("taking off a hook", lambda: handle.remove())  # noqa: B023
        self._stack_handles.clear()
        self._stacks = None

    def remove(self) -> None:
        """Remove everything in reverse order. Safe to call twice."""
        self._drop_stacks()
        if self._communication is not None:
            self._communication.remove()
            self._communication = None
        if self._gone is not None:
            self._gone.detach()
            self._gone = None
        self._updates.remove()
        self._features.remove()
