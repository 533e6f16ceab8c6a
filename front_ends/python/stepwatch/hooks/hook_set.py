"""The hooks on the modules and parameters of one model."""

from __future__ import annotations

import functools
import operator
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.frameworks.pipelining import Pipelining
from stepwatch.frameworks.reduction import Reduction
from stepwatch.hooks.compiled_calls import CompiledCall, is_compiled
from stepwatch.hooks.gradient_hook import GradientHook
from stepwatch.hooks.model_index import ModelIndex
from stepwatch.hooks.patches import Patches

if TYPE_CHECKING:
    import torch
    from stepwatch import _core

# Steps without collection after which hooks are removed until the next collected step: removing and installing them
# costs about as much as keeping them for two steps.
_IDLE_STEPS = 2
# Consecutive collected steps after which the set looks for newly compiled modules.
_COMPILED_STEPS = 2

_BEFORE, _AFTER = operator.attrgetter("_forward_pre_hooks"), operator.attrgetter("_forward_hooks")


class HookSet:
    """Installs and removes the hooks of the plan in force. Use it from the training thread.

    Parameters
    ----------
    session : _core.Session
        The native monitor. It creates the hooks and selects those to install.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function).

    Attributes
    ----------
    is_hung : bool
        Whether the hooks of the plan are installed.
    """

    def __init__(self, session: _core.Session, guard: Callable[[str, Callable[[], None]], None]) -> None:
        self.is_hung = False
        self._session = session
        self._guard = guard
        self._index = ModelIndex()
        self._module_hooks: dict[int, list[Any]] = {}
        self._hooked: tuple[list[Any], list[int], list[int]] = ([], [], [])  # modules, keys of their two hooks
        self._gradient_hooks: dict[int, GradientHook] = {}
        self._wanted_modules: set[int] = set()
        self._wanted_gradients: set[int] = set()
        self._is_stale = False
        self._idle_steps = 0
        self._busy_steps = 0
        self._reductions: dict[type[Reduction], Reduction] = {}
        self._swaps = Patches()
        weakref.finalize(self, self._swaps.remove).atexit = False
        self._pipelining = Pipelining(session.pause, self._accumulated, guard)
        self._sharded_wanted: dict[int, int] = {}  # id of a parameter -> its index
        self._gradients_by_id: dict[int, int] = {}  # likewise
        self._warned_unseen: set[str] = set()
        self._warned_unhookable = False

    def set_model(self, index: ModelIndex) -> None:
        """Remove all hooks, and install later ones on another model.

        Parameters
        ----------
        index : ModelIndex
            Contains the modules and parameters of the session's sites.
        """
        self.remove()
        self._index = index

    def take_wishes(self) -> None:
        """Read from the session which hooks it requests; `begin_step` installs them."""
        self._wanted_modules = set(self._session.wanted_modules)
        self._wanted_gradients = set(self._session.wanted_gradients)
        self._is_stale = True

    def begin_step(self) -> None:
        """Install and remove hooks as the beginning step requires."""
        self._count_step()
        for reduction in self._reductions.values():
            reduction.begin_step()
        hang = self._idle_steps < _IDLE_STEPS
        if hang == self.is_hung and not self._is_stale:
            return
        self.is_hung, self._is_stale = hang, False
        if hang:
            self._install(self._wanted_modules, self._wanted_gradients)
        else:
            self._install(set(), set())

    def _count_step(self) -> None:
        if not self._session.collecting:
            self._idle_steps, self._busy_steps = self._idle_steps + 1, 0
            return
        self._idle_steps, self._busy_steps = 0, self._busy_steps + 1
        if self._busy_steps == _COMPILED_STEPS:
            self._find_compiled()
        for index, hook in list(self._gradient_hooks.items()):
            if not hook.keep_place():
                self._take_off_gradient_hook(index)
                self._is_stale = True
        modules, before, after = self._hooked
        if not _hang(_BEFORE, modules, before) or not _hang(_AFTER, modules, after):
            self._find_lost()

    def _find_lost(self) -> None:
        # Other code has cleared the hooks of a module or replaced the module.
        for index, handles in list(self._module_hooks.items()):
            module = [self._index.modules[index]]
            hang = zip((_BEFORE, _AFTER), handles)
            if _has_both(handles) and not all(_hang(hooks, module, [handle.id]) for hooks, handle in hang):
                self._take_off(self._module_hooks.pop(index))
                self._is_stale = True

    def _find_compiled(self) -> None:
        # Compiled after the hooks were installed: they were traced at the first call and have no effect.
        for index, handles in list(self._module_hooks.items()):
            if is_compiled(self._index.modules[index]) and not any(isinstance(each, CompiledCall) for each in handles):
                self._take_off(self._module_hooks.pop(index))
                self._is_stale = True

    def _install(self, modules: set[int], gradients: set[int]) -> None:
        for index in [index for index in self._module_hooks if index not in modules]:
            self._take_off(self._module_hooks.pop(index))
        for index in [index for index in self._gradient_hooks if index not in gradients]:
            self._take_off_gradient_hook(index)
        for index in sorted(modules - self._module_hooks.keys()):
            self._guard("installing the hooks of a module", lambda: self._hang_on_module(index))  # noqa: B023
        hooked = [(self._index.modules[index], each) for index, each in self._module_hooks.items() if _has_both(each)]
        self._hooked = (
            [module for module, _ in hooked],
            [handles[0].id for _, handles in hooked],
            [handles[1].id for _, handles in hooked],
        )
        if modules or gradients:
            self._pipelining.watch()
        else:
            self._pipelining.remove()
        self._watch_swaps(bool(gradients))
        self._gradients_by_id = {id(self._index.parameters[index]): index for index in gradients}
        self._watch_sharded(gradients & self._index.sharded.keys())
        for index in sorted(gradients - self._gradient_hooks.keys() - self._index.sharded.keys()):
            parameter = self._index.parameters[index]
            self._guard(
                "installing the hook of a parameter",
                lambda: self._hang_on_gradient(index, parameter),  # noqa: B023
            )

    def _take_off(self, handles: Sequence[Any]) -> None:
        for handle in reversed(handles):
            self._guard("taking off a hook", lambda: handle.remove())  # noqa: B023

    def _hang_on_module(self, index: int) -> None:
        from stepwatch.hooks.eager_hooks import EagerHook  # needs torch

        module = self._index.modules[index]
        handles = self._module_hooks[index] = []
        before, after = EagerHook(self._session.before_forward(index)), EagerHook(self._session.after_forward(index))
        if is_compiled(module):
            handles.append(CompiledCall(module, before, after))
            return
        try:
            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            # Called also if the module raises: data of the call would otherwise keep its graph alive.
            handles.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))
        except RuntimeError as error:  # a scripted module
            if not self._warned_unhookable:
                chunk, name, kind, _, _ = self._index.module_rows[index]
                self._session.warn(
                    f"the module {chunk}:{name} ({kind}) does not accept hooks ({error}): it and modules like it have "
                    "no rows of activations; the modules around it and its parameters have their rows"
                )
            self._warned_unhookable = True

    def _hang_on_gradient(self, index: int, parameter: torch.nn.Parameter, is_swapped: bool = False) -> None:
        if hasattr(parameter, "materialize"):  # of a lazy module: accepts hooks only after its first call
            self._is_stale = True
        elif parameter.is_leaf:
            is_incoming = self._session.reads_incoming(index)
            hook = self._session.incoming_hook(index) if is_incoming else self._session.unreduced_hook(index)
            self._gradient_hooks[index] = GradientHook(parameter, hook, is_incoming, is_swapped)

    def _watch_swaps(self, wanted: bool) -> None:
        """Observe tensors that torch swaps in place, which lose their hooks."""
        self._swaps.remove()
        utils = sys.modules.get("torch.utils")
        original = vars(utils).get("swap_tensors") if utils is not None and wanted else None
        if original is None:
            return
        owner = weakref.ref(self)

        @functools.wraps(original)
        def swap_tensors(left: Any, right: Any) -> Any:
            result = original(left, right)
            hooks = owner()
            if hooks is not None:
                hooks._guard("following a parameter", lambda: hooks._hang_again(left, right))
            return result

        self._swaps.put(utils, "swap_tensors", swap_tensors)

    def _hang_again(self, *tensors: Any) -> None:
        for index in (self._gradients_by_id.get(id(tensor)) for tensor in tensors):
            if index is not None and index in self._gradient_hooks:
                self._take_off_gradient_hook(index)
                self._hang_on_gradient(index, self._index.parameters[index], is_swapped=True)

    def _take_off_gradient_hook(self, index: int) -> None:
        self._gradient_hooks.pop(index).remove()
        self._session.take_off_late_hook(index)

    def _watch_sharded(self, wanted: set[int]) -> None:
        self._sharded_wanted = {id(self._index.parameters[index]): index for index in wanted}
        for reduction in self._reductions.values():
            reduction.remove()
        for kind in dict.fromkeys(self._index.sharded[index] for index in sorted(wanted)):
            if kind not in self._reductions:
                self._reductions[kind] = kind(self._before_reduction, self._guard)
            own = [self._index.parameters[index] for index in sorted(wanted) if self._index.sharded[index] is kind]
            if not self._reductions[kind].watch(own):
                self._warn_unseen(kind.framework, len(own))

    def _warn_unseen(self, framework: str, count: int) -> None:
        if framework in self._warned_unseen:
            return
        self._warned_unseen.add(framework)
        self._session.warn(
            f"unsupported version of {framework}: the gradients of {count} sharded parameters cannot be read before "
            "their reduction; wg_distribution has no rows of grad_unreduced for them; grad_reduced has this rank's "
            "shards"
        )

    def _accumulated(self, parameter_id: int) -> None:
        index = self._gradients_by_id.get(parameter_id)
        if index is not None and index not in self._index.sharded:
            self._session.accumulated(index)

    def _before_reduction(self, parameter_id: int, gradient: Any, is_last: bool = False) -> None:
        index = self._sharded_wanted.get(parameter_id)
        if index is not None:
            self._session.before_reduction(index, gradient, is_last)

    def remove(self) -> None:
        """Remove all hooks, in reverse order. Safe to call twice."""
        self._watch_sharded(set())
        self._pipelining.remove()
        self._swaps.remove()
        self._gradients_by_id.clear()
        self._take_off([handle for handles in self._module_hooks.values() for handle in handles])
        self._module_hooks.clear()
        self._hooked = ([], [], [])
        for index in reversed(list(self._gradient_hooks)):
            self._take_off_gradient_hook(index)


def _has_both(handles: Sequence[Any]) -> bool:
    return len(handles) == 2  # a compiled module has one, and one that accepts no hooks has none


def _hang(hooks_of: Callable[[Any], Any], modules: Sequence[Any], keys: Sequence[int]) -> bool:
    """Return whether each module still has the hook of its key; called each step, so it avoids Python loops."""
    return all(map(operator.contains, map(hooks_of, modules), keys))
