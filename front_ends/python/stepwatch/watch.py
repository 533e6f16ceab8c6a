"""The native way in: one call, a context manager, everything restored at its end."""

from __future__ import annotations

import atexit
import copy
import itertools
import multiprocessing.util
import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.attachment import Attachment
from stepwatch.distributed.job_store import find_job_store
from stepwatch.distributed.ranks import rank_and_world_size, writes_reduced_gradient
from stepwatch.frameworks.optimizer_adapter import Sharing
from stepwatch.hooks.step_clock import BY_HAND
from stepwatch.kept_in_models import ClosedSession, KeptInModels
from stepwatch.reporting.exceptions import ExceptionHooks, tell_end
from stepwatch.reporting.reporter import Reporter
from stepwatch.reporting.trainer_logs import TrainerLogs

if TYPE_CHECKING:
    import torch

_open: weakref.WeakSet[Watch] = weakref.WeakSet()
_WARNING = 2  # a level of lines
_numbers = itertools.count()  # by which monitors were opened


class Watch(KeptInModels):
    """A monitor of this process.

    Made by `watch`. A training step ends when each optimizer has stepped; the config file says which tensors are
    collected in it, and where the rows go. All methods are for the training thread. In a forked child (a DataLoader
    worker) every method does nothing.

    It may be kept in the module that is trained: the methods of a copy (`copy.deepcopy`, `AveragedModel`) do nothing,
    and a pickle (`torch.save`) holds in its place a `types.SimpleNamespace` whose methods do nothing, which loads where
    Stepwatch is not installed.

    Parameters
    ----------
    config : str or os.PathLike
        Path of config.json.
    dynamic : bool, optional
        Whether edits of the file start, change and stop the collection; None: DYNAMIC_MONITOR in the environment
        decides.
    output_dir : str or os.PathLike, optional
        Base of all output; None: MONITOR_OUTPUT_DIR, else ./monitor_output.
    grad_acc_steps : int
        Micro-batches of one step.
    start_iteration : int
        Number of the first step.
    main_grad : bool
        Read gradients from `parameter.main_grad` where there is one.
    tp_group, dp_group : torch.distributed.ProcessGroup, optional
        A reduced gradient that ranks of these groups share is written by one of them.
    keep_latest : bool
        Keep the last values of every site from the first step on for `latest`, otherwise from its first call on.
    pp_stage : int
        Pipeline stage of this rank, for alarms.
    group_mates : sequence of int
        Ranks of this rank's pipeline group, for alarms; empty: all ranks of the job.
    beside : bool
        Whether another monitor of this class that watches the same model goes on. Otherwise it is closed when this one
        is attached, as where a notebook's cell runs again.
    clock : object, optional
        The optimizer, of several, whose `step` alone ends the training step; "end_step": the method of this name alone
        does. None: a training step ends when each optimizer has stepped, in whatever order.

    Raises
    ------
    TypeError, ValueError
        The config is refused (static mode).
    OSError
        The config file cannot be read (static mode).
    """

    def __init__(
        self,
        config: str | os.PathLike[str],
        *,
        dynamic: bool | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        grad_acc_steps: int = 1,
        start_iteration: int = 0,
        main_grad: bool = True,
        tp_group: Any = None,
        dp_group: Any = None,
        keep_latest: bool = False,
        pp_stage: int = 0,
        group_mates: Sequence[int] = (),
        beside: bool = False,
        clock: Any = None,
    ) -> None:
        import torch

        if clock is not None and clock != BY_HAND and not callable(getattr(clock, "step", None)):
            raise TypeError(f'clock should be an optimizer or "{BY_HAND}", found {clock!r}')
        self.rank, self.world_size = rank_and_world_size()
        self._store = find_job_store()
        self._session = _core.make_session(
            torch,
            # Absolute, since the program may change its directory in mid-run.
            config_path=os.fsencode(os.path.abspath(config)),
            dynamic=dynamic,
            output_dir=os.fsencode(
                os.path.abspath(output_dir or os.environ.get("MONITOR_OUTPUT_DIR") or "monitor_output")
            ),
            rank=self.rank,
            world_size=self.world_size,
            grad_acc_steps=grad_acc_steps,
            start_iteration=start_iteration,
            main_grad=main_grad,
            keep_latest=keep_latest,
            pp_stage=pp_stage,
            group_mates=list(group_mates),
            store=None if self._store is None else self._store.queue,
            store_prefix="" if self._store is None else self._store.prefix,
        )
        writes_reduced = None
        if tp_group is not None or dp_group is not None:

            def writes_reduced(parameter: Any, sharing: Sharing) -> bool:
                return writes_reduced_gradient(
                    parameter,
                    tp_group if sharing.tensor_parallel else None,
                    dp_group if sharing.data_parallel else None,
                    sharing.holders,
                )

        own = weakref.ref(self)  # nothing that the monitor holds keeps it alive
        self.reporter = Reporter(self._session, lambda: _learning_rate_of(own()))
        self._attachment = Attachment(self._session, self.reporter, writes_reduced, self.rank, self.world_size, clock)
        # The wrapper on the optimizer keeps the monitor alive, as long as the model: whoever attaches it need not.
        self._attachment.owner = self
        if self._store is not None:
            weakref.finalize(self, self._store.close).atexit = False  # its thread has to be gone before the interpreter
        self._beside = beside
        self._number = next(_numbers)
        _open.add(self)
        _exceptions.install()
        _close_when_a_forked_process_ends()

    def _of_copies(self) -> dict[str, Any]:
        closed = ClosedSession()
        return {"_session": closed, "_attachment": closed, "_store": None, "reporter": copy.copy(self.reporter)}

    def attach(self, model: torch.nn.Module | Sequence[torch.nn.Module], optimizer: Any = None) -> None:
        """Add a model and its optimizers.

        Parameters
        ----------
        model : torch.nn.Module or sequence of them
            A sequence: the chunks of a virtual pipeline.
        optimizer : object or sequence of them, optional
            Each with a method `step`, in any order. Without one `end_step` has to be called.
        """
        if isinstance(self._session, ClosedSession):
            text = "a copy of a monitor watches nothing: make another one by stepwatch.watch"
            _core.print_line(_WARNING, self.rank, text)
            return
        chunks = list(model) if isinstance(model, (list, tuple)) else [model]
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        if not self._beside:
            self._take_place_of_others(chunks)
        self._attachment.attach(chunks, [each for each in optimizers if each is not None])
        _trainer_logs.look()

    def _take_place_of_others(self, chunks: list[torch.nn.Module]) -> None:
        for other in open_monitors():
            if other is self or type(other) is not type(self) or not other._attachment.watches(chunks):
                continue
            _core.print_line(
                _WARNING,
                self.rank,
                "another monitor watches this model already: it is closed, and this one takes its place; "
                "beside=True keeps both",
            )
            other.close()

    def report(self, *, step: int | None = None, **numbers: Any) -> None:
        """Report numbers of a step to this monitor; see `stepwatch.report`.

        Parameters
        ----------
        step : int, optional
            None: the step in progress.
        **numbers : int, float or 0-d tensor
        """
        self.reporter.report(numbers, step)

    def begin_micro_batch(self) -> None:
        """Say that a micro-batch begins, where the model's root module is not entered once for each."""
        self._session.begin_micro_batch()

    def end_step(self) -> None:
        """End the training step here; from the first call on, no optimizer does.

        Called after the updates of an iteration. If an optimizer has ended the iteration before the first call, that
        call ends no other one.
        """
        self._attachment.end_step()

    def refresh(self, timeout: float = 5.0) -> str:
        """Look at the config file now.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        str
            "armed" (holds from the next step), "stopping", "refused", "unchanged", "missing",
            "timed_out" or "failed" (the look failed; it is repeated, and ``status()["fault"]`` says why).
        """
        return self._session.refresh(timeout)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the rows of all steps that are over are in their files.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        bool
            False if they were not by then.
        """
        return self._session.flush(timeout)

    def amend(self, ops: Sequence[str] | None = None, xy_distribution: bool | None = None) -> None:
        """Change what is collected without an edit of the file, until the next edit.

        The window goes on, from the step about to begin; called in the middle of a step, from the next. Without a plan
        in force or armed nothing happens, but before the first `attach` in static mode, where it holds for the plan to
        come.

        Parameters
        ----------
        ops : sequence of str, optional
            Statistics. Unknown ones are left out with a warning; `norm` stands in for none.
        xy_distribution : bool, optional
            Whether activations are collected; without `targets` those of all modules.
        """
        self._attachment.amend(None if ops is None else list(ops), xy_distribution)

    def latest(self, kind: str, timeout: float = 5.0) -> list[tuple[int, str, int, dict[str, Any]]]:
        """Return the last values of every site of a kind.

        Parameters
        ----------
        kind : str
            The prefix of its CSV files: "actv", "grad_reduced", ...; of communication operators "communication".
        timeout : float
            Seconds to wait for what is still on its way.

        Returns
        -------
        list of tuple
            (chunk, name, micro-step, {statistic: value}), all of the newest step in which the site was seen.
        """
        return [row[1:] for row in self._session.latest(kind, timeout)]

    def tagged(self, kind: str, timeout: float = 5.0) -> list[tuple[str, dict[str, Any]]]:
        """Return the same by tags, such as "0:fc.input:0/rank0/actv".

        Parameters
        ----------
        kind, timeout
            As in `latest`.

        Returns
        -------
        list of tuple
            (tag, {statistic: value}).
        """
        return [(row[0], row[-1]) for row in self._session.latest(kind, timeout)]

    def status(self) -> dict[str, Any]:
        """Return what the monitor is doing.

        Returns
        -------
        dict
            state, plan_id, step, collected, collecting_step, output_dir, ops (those of the plan in force).
        """
        return self._session.status()

    def close(self, timeout: float = 5.0) -> bool:
        """Take all hooks off, write what has been collected, stop.

        Parameters
        ----------
        timeout : float
            Seconds; rows that are not written by then are dropped and counted.

        Returns
        -------
        bool
            False if something hung and was left behind.
        """
        self.reporter.harvest()
        self._attachment.close()
        _open.discard(self)
        if not _open:
            _exceptions.remove()
            _trainer_logs.remove()
        closed = self._session.close(timeout)
        if self._store is not None:
            self._store.close()
        return closed

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # `sys.excepthook` comes later, if at all, and finds this monitor closed.
        if kind is not None:
            tell_end(lambda: [self.reporter], kind, value, trace)
        self.close()


def watch(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    optimizer: Any = None,
    config: str | os.PathLike[str] = "config.json",
    **options: Any,
) -> Watch:
    """Watch a training job.

    Parameters
    ----------
    model : torch.nn.Module or sequence of them
        A sequence: the chunks of a virtual pipeline.
    optimizer : object or sequence of them, optional
        A training step ends when each of them has stepped, in whatever order; without one `Watch.end_step` ends it.
    config : str or os.PathLike
        Path of config.json.
    **options
        As in `Watch`.

    Returns
    -------
    Watch
        Close it at the end, or use it as a context manager. What is still open when the interpreter ends is closed
        then.

    Examples
    --------
    >>> with stepwatch.watch(model, [muon, adamw], config="config.json"):  # doctest: +SKIP
    ...     train()
    """
    monitor = Watch(config, **options)
    try:
        monitor.attach(model, optimizer)
    except Exception:
        monitor.close()
        raise
    return monitor


def _learning_rate_of(monitor: Watch | None) -> float | None:
    return None if monitor is None else monitor._attachment.learning_rate()


def open_monitors() -> list[Watch]:
    """Return the open monitors of this process, those opened first first."""
    return sorted(_open, key=lambda monitor: monitor._number)


def reporter_in_use() -> Reporter | None:
    """Return the reporter of the first monitor that is still open."""
    monitors = open_monitors()
    if not monitors:
        return None
    if len(monitors) > 1:
        monitors[0].reporter.tell_once(
            "several",
            f"this process has {len(monitors)} monitors; what stepwatch.report and stepwatch.phase say goes to the one "
            "opened first. Watch.report names one",
        )
    return monitors[0].reporter


def _reporter_of(optimizer: Any) -> Reporter | None:
    monitors = open_monitors()
    if optimizer is None:
        return monitors[0].reporter if len(monitors) == 1 else None
    return next((monitor.reporter for monitor in monitors if monitor._attachment.follows(optimizer)), None)


_exceptions = ExceptionHooks(lambda: [monitor.reporter for monitor in open_monitors()])
_trainer_logs = TrainerLogs(_reporter_of)


def flush_all(timeout: float = 5.0) -> bool:
    """Flush every open monitor of this process, for tools that read what it has written; False: not all in time."""
    return all([monitor.flush(timeout) for monitor in list(_open)])


def _close_when_a_forked_process_ends() -> None:
    # A process that multiprocessing has forked ends without atexit.
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _close_all, exitpriority=0)


@atexit.register
def _close_all() -> None:
    for monitor in list(_open):
        monitor.close()
