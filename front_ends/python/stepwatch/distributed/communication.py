"""Tensors of communication, from temporary wrappers around the operators of torch.distributed."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.distributed.pending_works import PendingWorks
from stepwatch.distributed.point_to_point import take_wrapped
from stepwatch.frameworks.deepspeed_communication import kept_operators
from stepwatch.hooks.call_sites import CallSites
from stepwatch.hooks.patches import Patches

if TYPE_CHECKING:
    import torch

# The operators of msProbe, then the names that torch 2.13 uses for two of them and that its FSDP calls.
OPERATORS = (
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "broadcast",
    "all_reduce",
    "reduce",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor",
    "all_gather",
    "gather",
    "_all_gather_base",
    "all_gather_into_tensor",
    "all_gather_single",
    "reduce_scatter_single",
)
_POINT_TO_POINT = ("isend", "irecv")
_RANKS_SHOWN = 16  # of a group, in a log line


def watchable_operators() -> list[str]:
    """Return the operators that this torch has, in a fixed order; empty if built without torch.distributed."""
    import torch

    if not torch.distributed.is_available():
        return []
    return [name for name in OPERATORS if callable(vars(torch.distributed).get(name))]


class CommunicationTap:
    """Passes the tensors of every call of an operator to an observer, from `install` to `remove`.

    It sees calls by the name in torch.distributed or in torch.distributed.distributed_c10d (except isend and irecv,
    which torch compares with its own there), and calls of the functions that DeepSpeed keeps. It does not see

    - functions that other code imported by name before;
    - DDP's reducer and functional collectives, which call none of these functions, and code compiled by torch.compile;
    - an operator called by another one, or by an object collective such as all_gather_object, whose tensors are pickled
      bytes, not training state.

    The output of an asynchronous call is observed when `wait` of its Work has returned, on the thread that waited, but
    not after a wait for a future. Outputs of coalesced calls are observed after their common wait.

    Errors of the tap never reach the caller of an operator.

    Parameters
    ----------
    observe : callable or None
        None: no tensor is observed, only `waiting` is called. Called with the operator (its index in `operators`),
        whether the operator has run, the position of the tensor in the call, and the tensor. Positions count the
        tensors among positional, then keyword arguments, those in lists and in P2POps one by one.
    caught : callable
        Called after an error, as (what, why).
    collecting : callable
        Called first; while it returns False, no call is observed. It must not raise.
    before : bool
        Observe the tensors also before the operator runs.
    codelines : sequence of str
        Observe only calls from lines that match one of these regular expressions, as in `CallSites`.
    log_only : bool
        Observe no tensor; keep the stacks of the calls.
    waiting : tuple of callable
        Called before and after each operator, and each wait for one, the second with the result of the first. They must
        not raise.
    """

    installed = 0  # in this process

    def __init__(
        self,
        observe: Callable[[int, bool, int, torch.Tensor], None] | None,
        caught: Callable[[str, str], None],
        *,
        collecting: Callable[[], bool],
        before: bool = False,
        codelines: Sequence[str] = (),
        log_only: bool = False,
        waiting: tuple[Callable[[], Any], Callable[[Any], None]] = (lambda: None, lambda _: None),
    ) -> None:
        self.operators = watchable_operators()
        self._observe = observe
        self._caught = caught
        self._collecting = collecting
        self._before = before
        self._sites = CallSites(codelines, log_only, caught)
        self._patches = Patches()
        self._active = False
        self._thread = _Thread()
        self._begin_wait, self._end_wait = waiting
        self._pending = PendingWorks(self._observe_late, waiting)

    def install(self) -> None:
        """Install the wrappers, all or none. Safe to call twice."""
        if self._active or not self.operators:
            return
        try:
            self._put_on()
        except Exception as error:
            self.remove()
            self._caught("wrapping the operators of torch.distributed", f"{type(error).__name__}: {error}")

    def _put_on(self) -> None:
        from torch.distributed import distributed_c10d

        import torch

        _let_torch_keep_its_own(torch)
        self._torch, self._c10d = torch, distributed_c10d
        if not self._active:
            CommunicationTap.installed += 1
        self._no_work = getattr(distributed_c10d, "_IllegalWork", ())  # returned by coalesced calls
        self._active = True
        self._replace("_coalescing_manager", self._wrap_manager, (torch.distributed, distributed_c10d))
        point_to_point = []
        for index, name in enumerate(self.operators):
            wrap = functools.partial(self._wrap, index)
            if name in _POINT_TO_POINT:
                point_to_point += self._replace(name, wrap, (torch.distributed,))
            else:
                self._replace(name, wrap, (torch.distributed, distributed_c10d))
        take_wrapped(distributed_c10d.P2POp, point_to_point)
        for backend, attribute, name in kept_operators():
            if name in self.operators:
                self._replace(attribute, functools.partial(self._wrap, self.operators.index(name)), (backend,))

    def _replace(self, name: str, wrap: Callable[[Any], Any], places: Sequence[Any]) -> list[Any]:
        wrappers: dict[int, Any] = {}  # one per function, so that both places hold the same wrapper
        for place in places:
            original = vars(place).get(name)
            if original is not None:
                if id(original) not in wrappers:
                    wrappers[id(original)] = wrap(original)
                self._patches.put(place, name, wrappers[id(original)])
        return list(wrappers.values())

    def remove(self) -> None:
        """Remove the wrappers; references to them that remain elsewhere become inactive. Safe to call twice."""
        if self._active:
            CommunicationTap.installed -= 1
        self._active = False
        self._pending.clear()
        self._patches.remove()

    def stacks(self) -> dict[str, list[list[str]]]:
        """Return the distinct call stacks of each operator (with `log_only`), as lists of frames.

        The last entry of a list is the dtype of the tensors and the ranks of the group.
        """
        return self._sites.stacks()

    # --- wrappers ---

    def _wrap(self, index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        from stepwatch.hooks.eager_hooks import is_compiling  # needs torch

        inner = vars(self._c10d)

        @functools.wraps(original)
        def operator(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self._active or not self._collecting() or sys._getframe(1).f_globals is inner:
                return original(*args, **kwargs)
            return self._run(index, original, args, kwargs)

        return operator

    def _run(self, index: int, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        thread = self._thread
        if thread.inside:
            return original(*args, **kwargs)
        is_observed = self._observe is not None
        tensors = self._safely(self._before_call, index, (*args, *kwargs.values())) if is_observed else None
        thread.inside = True
        entered = self._begin_wait()
        try:
            result = original(*args, **kwargs)
        finally:
            self._end_wait(entered)
            thread.inside = False
        if tensors:
            self._safely(self._after_call, index, tensors, result)
        elif result is not None:
            self._safely(self._follow_waits, result)
        return result

    def _follow_waits(self, result: Any) -> None:
        for work in self._works_of(result):
            self._pending.watch(type(work))

    def _works_of(self, result: Any) -> list[Any]:
        results = result if isinstance(result, list) else [result]
        return [work for work in results if isinstance(work, self._c10d.Work) and not isinstance(work, self._no_work)]

    def _wrap_manager(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def coalescing_manager(*args: Any, **kwargs: Any) -> Iterator[Any]:
            thread = self._thread
            if not self._active or thread.inside or thread.coalesced is not None:
                with original(*args, **kwargs) as manager:
                    yield manager
                return
            coalesced: list[_Observation] = []
            thread.coalesced = coalesced
            try:
                with original(*args, **kwargs) as manager:
                    yield manager
            finally:
                thread.coalesced = None
            if coalesced:
                self._safely(self._observe_after, coalesced, list(getattr(manager, "works", ())))

        return functools.wraps(original)(coalescing_manager)

    def _safely(self, action: Callable[..., Any], *args: Any) -> Any:
        try:
            return action(*args)
        except Exception as error:
            self._caught("watching communication", f"{type(error).__name__}: {error}")
            return None

    # --- observations ---

    def _before_call(self, index: int, values: tuple[Any, ...]) -> list[torch.Tensor]:
        outside = self._c10d.GroupMember.NON_GROUP_MEMBER
        if any(value is outside for value in values):
            return []
        if not self._sites.wants(self.operators[index], lambda: self._description(values)):
            return []
        tensors = list(self._tensors(values))
        if self._before:
            for position, tensor in enumerate(tensors):
                self._observe(index, False, position, tensor)
        return tensors

    def _description(self, values: tuple[Any, ...]) -> str:
        dtypes = dict.fromkeys(str(tensor.dtype) for tensor in self._tensors(values))
        ranks = self._c10d.get_process_group_ranks(self._group_of(values))
        shown = ", ".join(map(str, ranks[:_RANKS_SHOWN])) + (", ..." if len(ranks) > _RANKS_SHOWN else "")
        return f"dtype {', '.join(dtypes) or 'none'}; group of {len(ranks)} ranks: {shown}"

    def _group_of(self, values: tuple[Any, ...]) -> Any:
        for value in values:
            for item in value if isinstance(value, (list, tuple)) else (value,):
                group = item.group if isinstance(item, self._c10d.P2POp) else item
                if isinstance(group, self._c10d.ProcessGroup):
                    return group
        return self._c10d.GroupMember.WORLD

    def _tensors(self, values: tuple[Any, ...]) -> Iterator[torch.Tensor]:
        for value in values:
            for item in value if isinstance(value, (list, tuple)) else (value,):
                tensor = item.tensor if isinstance(item, self._c10d.P2POp) else item
                if isinstance(tensor, self._torch.Tensor):
                    yield tensor

    def _after_call(self, index: int, tensors: list[torch.Tensor], result: Any) -> None:
        observations = [(index, position, tensor) for position, tensor in enumerate(tensors)]
        works = self._works_of(result)
        if works or not self._c10d._world.pg_coalesce_state:
            self._observe_after(observations, works)
        elif self._thread.coalesced is not None:
            self._thread.coalesced += observations
        # Otherwise the manager was imported by name before, and the completion of the tensors cannot be observed.

    def _observe_after(self, observations: list[_Observation], works: list[Any]) -> None:
        if works:
            self._pending.add(works, observations)
        else:
            self._observe_now(observations)

    def _observe_late(self, observations: list[_Observation]) -> None:
        if self._active and self._collecting():
            self._safely(self._observe_now, observations)

    def _observe_now(self, observations: list[_Observation]) -> None:
        for index, position, tensor in observations:
            self._observe(index, True, position, tensor)


def _let_torch_keep_its_own(torch: Any) -> None:
    """Load the modules that torch loads lazily and that keep the operators by name to recognise them.

    Otherwise the first use of torch.compile would load them with our wrappers and never recognise torch's operators.
    """
    with contextlib.suppress(Exception):
        importlib.import_module("torch.distributed._functional_collectives")
        torch.overrides.get_testing_overrides()


_Observation = tuple[int, int, Any]  # operator, position, tensor


class _Thread(threading.local):
    """State of a thread: inside an operator, or inside a coalescing manager that collects observations."""

    inside = False
    coalesced: list[_Observation] | None = None
