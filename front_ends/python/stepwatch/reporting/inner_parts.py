"""The times of forward, backward and communication in collected steps."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.distributed.communication import CommunicationTap
from stepwatch.hooks.compiled_calls import CompiledCall, is_compiled
from stepwatch.reporting.backward_passes import BackwardPasses
from stepwatch.reporting.device_parts import DeviceParts
from stepwatch.reporting.step_parts import BACKWARD, COMMUNICATION, FORWARD

if TYPE_CHECKING:
    import torch
    from stepwatch import _core

_passes = BackwardPasses()


class InnerParts:
    """Measures these parts of the steps that a plan collects, on the training thread and the autograd threads.

    Hooks on the roots of the model and the wrapper of the autograd engine exist only during collected steps. Those of
    collectives exist from the first collected step to the end of the plan, because putting them on and off takes longer
    than their calls: in other steps they check a flag. A model in CPU memory is timed by the clock of the monitor. A
    model on one CUDA device is timed by events on its stream, which are read when they are over, in a later step. Parts
    of other models are absent, as is the part of a call that is not seen.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function).
    ranks : int
        A single rank has no communication.

    Attributes
    ----------
    device : DeviceParts
        Times of a CUDA device.
    """

    def __init__(
        self, session: _core.Session, guard: Callable[[str, Callable[[], None]], None], ranks: int = 1
    ) -> None:
        self.device = DeviceParts()
        self._session = session
        self._guard = guard
        self._ranks = ranks
        self._roots: list[torch.nn.Module] = []
        self._enter: Callable[[int], int] | None = None  # in a collected step
        self._chosen: Callable[[int], int] | None = None  # for this model
        self._thread = 0
        self._running: list[tuple[Any, int | None]] = []  # calls of roots, with the part before them
        self._handles: list[tuple[Any, list[Any]]] = []  # by root
        self._tap: CommunicationTap | None = None
        self._gone: weakref.finalize[Any, Any] | None = None  # removes the wrappers of an unclosed monitor

    def set_model(self, roots: Sequence[torch.nn.Module], parameters: Sequence[torch.Tensor]) -> None:
        """Measure another model, or the same one again under another plan.

        Parameters
        ----------
        roots : sequence of torch.nn.Module
            One for each chunk.
        parameters : sequence of torch.Tensor
            Their devices determine how times are measured.
        """
        self.remove()
        self._roots = list(roots)
        self._chosen = self._way_to_measure({each.device for each in parameters})

    def _way_to_measure(self, devices: set[torch.device]) -> Callable[[int], int] | None:
        import torch

        if len(devices) != 1:
            return None
        device = next(iter(devices))
        if device.type == "cuda":
            self.device.set_device(device)
            return self.device.enter
        # With CUDA in use the weights may be only kept in CPU memory (offloading), and the work may be on a device.
        return self._session.enter_part if device.type == "cpu" and not torch.cuda.is_initialized() else None

    def begin_step(self) -> None:
        """Install what the beginning step needs if it is collected, otherwise remove it."""
        if self._session.collecting:
            self._guard("measuring the parts of a step", self._install)
        elif self._enter is not None:
            self._guard("measuring the parts of a step", self._take_off)

    def end_step(self) -> None:
        """Close the running step, before the session ends it."""
        if self._enter is None:
            return
        self._running.clear()
        if self._enter == self.device.enter:
            self.device.end_step(self._session.step)

    def harvest(self) -> None:
        """Report times of the device that have become known. Does not wait."""
        for step, numbers in self.device.take():
            self._session.report_measured(numbers, step)

    def note_update(self) -> None:
        """Record an update. During a pass its time on the device would count as that of the pass."""
        if self._enter is not None and self._enter == self.device.enter and self.device.part == BACKWARD:
            self.device.spoil()

    def _install(self) -> None:
        if self._chosen is None:
            return
        self._thread = threading.get_ident()
        if self._enter is not None and all(map(_is_there, self._handles)):
            return
        self._take_off()
        self._enter = self._chosen
        for root in self._roots:
            self._guard("installing a hook on the root of the model", lambda: self._hang(root))  # noqa: B023
        _passes.add(self)
        if self._ranks > 1 and self._tap is None:
            self._wrap_operators()

    def _hang(self, root: torch.nn.Module) -> None:
        from stepwatch.hooks.eager_hooks import EagerHook  # needs torch

        own = weakref.ref(self)  # of a monitor that may be dropped without being closed

        # Other code may call a hook, with any arguments.
        def begin(module: Any = None, *_: Any) -> None:
            parts = own()
            if parts is not None:
                parts._begin_forward(module)

        def end(module: Any = None, *_: Any) -> None:
            parts = own()
            if parts is not None:
                parts._end_forward(module)

        handles: list[Any] = []
        self._handles.append((root, handles))
        before, after = EagerHook(begin), EagerHook(end)
        if is_compiled(root):
            handles.append(CompiledCall(root, before, after))
            return
        # Next to the forward: reading its tensors, and what other hooks do, is no part of it.
        with contextlib.suppress(RuntimeError):  # a scripted module accepts no hooks
            handles.append(root.register_forward_pre_hook(before))
            handles.append(root.register_forward_hook(after, prepend=True, always_call=True))

    def _begin_forward(self, module: Any) -> None:
        if self._enter is None or threading.get_ident() != self._thread:
            return
        # A checkpoint runs the forward again during the pass, of which that is a part.
        counts = getattr(module, "training", True) and not _is_in_pass()
        self._running.append((module, self._enter(FORWARD) if counts else None))

    def _end_forward(self, module: Any) -> None:
        if not self._running or self._running[-1][0] is not module or threading.get_ident() != self._thread:
            return
        _, before = self._running.pop()
        if before is not None and self._enter is not None:
            self._enter(before)

    def _wrap_operators(self) -> None:
        import torch

        # Under a plan with cc_distribution its wrappers measure as well.
        if CommunicationTap.installed > 0 or not torch.distributed.is_initialized():
            return
        own = weakref.ref(self)
        self._tap = CommunicationTap(
            None,
            lambda what, why: _warn(own(), f"{what}: {why}"),
            collecting=lambda: _is_measuring(own()),
            waiting=waiting_of(self),
        )
        self._tap.install()
        self._gone = weakref.finalize(self, self._tap.remove)
        self._gone.atexit = False

    def enter(self, part: int) -> int | None:
        """Begin a part on this thread if it is measured; return the argument for `leave`."""
        if self._enter is None:
            return None
        if threading.get_ident() != self._thread and (part != COMMUNICATION or not _is_in_pass()):
            return None
        return self._enter(part)

    def leave(self, before: int | None) -> None:
        """Restore the part before `enter`."""
        if before is not None and self._enter is not None:
            self._enter(before)

    def _take_off(self) -> None:
        self._enter = None
        self._running.clear()
        _passes.discard(self)
        for _, handles in reversed(self._handles):
            for handle in reversed(handles):
                self._guard("taking off a hook", lambda: handle.remove())  # noqa: B023
        self._handles.clear()

    def remove(self) -> None:
        """Remove everything. Safe to call twice."""
        self._take_off()
        if self._tap is not None:
            self._tap.remove()
            self._tap = None
        if self._gone is not None:
            self._gone.detach()
            self._gone = None


def waiting_of(parts: InnerParts) -> tuple[Callable[[], int | None], Callable[[int | None], None]]:
    """Return the functions that begin and end the part of communication, without keeping the monitor alive."""
    own = weakref.ref(parts)

    def begin() -> int | None:
        found = own()
        return None if found is None else found.enter(COMMUNICATION)

    def end(before: int | None) -> None:
        found = own()
        if found is not None:
            found.leave(before)

    return begin, end


def _is_there(hung: tuple[Any, list[Any]]) -> bool:
    root, handles = hung
    if len(handles) != 2:  # compiled, or it accepts no hooks
        return is_compiled(root) == bool(handles)
    return not is_compiled(root) and handles[0].id in root._forward_pre_hooks and handles[1].id in root._forward_hooks


def _is_in_pass() -> bool:
    import torch

    return torch._C._current_graph_task_id() != -1  # type: ignore[no-any-return]


def _warn(parts: InnerParts | None, text: str) -> None:
    if parts is not None:
        parts._session.warn(text)


def _is_measuring(parts: InnerParts | None) -> bool:
    return parts is not None and parts._enter is not None
