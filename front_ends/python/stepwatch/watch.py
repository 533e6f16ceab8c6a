"""The native API: one call that returns a context manager, which restores everything at its end."""

from __future__ import annotations

import atexit
import copy
import itertools
import multiprocessing.util
import os
import sys
import weakref
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.distributed.job_store import JobStore, find_job_store
from stepwatch.distributed.ranks import rank_and_world_size, writes_reduced_gradient
from stepwatch.frameworks.optimizer_adapter import Sharing
from stepwatch.kept_in_models import ClosedSession, KeptInModels
from stepwatch.optimizers.step_clock import BY_HAND
from stepwatch.reporting.data_loading import DataLoading
from stepwatch.reporting.exceptions import ExceptionHooks, report_end
from stepwatch.reporting.peak_rate import PeakRate
from stepwatch.reporting.reporter import Reporter
from stepwatch.reporting.trainer_logs import TrainerLogs

if TYPE_CHECKING:
    import torch

_open: weakref.WeakSet[Watch] = weakref.WeakSet()
_WARNING = 2  # a log level
_numbers = itertools.count()  # in the order in which monitors were opened


class Watch(KeptInModels):
    """A monitor of this process.

    `watch` creates it. A training step ends when each optimizer has stepped; the config file selects the tensors that
    are collected and where the rows are written. Call all methods from the training thread. In a forked child (a
    DataLoader worker) every method does nothing.

    The trained module may contain the monitor. The methods of a copy (`copy.deepcopy`, `AveragedModel`) do nothing. A
    pickle (`torch.save`) contains a `types.SimpleNamespace` instead, whose methods do nothing and which loads where
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
        One rank of these groups writes a reduced gradient that they share.
    keep_latest : bool
        Keep the last values of every site for `latest` from the first step on; False: from its first call on.
    pp_stage : int
        Pipeline stage of this rank, for alarms.
    group_mates : sequence of int
        Ranks of this rank's pipeline group, for alarms; empty: all ranks of the job.
    beside : bool
        Whether another monitor of this class that watches the same model continues. Otherwise it is closed when this
        one is attached, for example when a notebook cell runs again.
    clock : object, optional
        The one optimizer whose `step` ends the training step; "end_step": only the method of this name ends it. None: a
        training step ends when each optimizer has stepped, in any order.
    peak_flops : float, optional
        Peak FLOP/s of this rank's device, reported beside FLOPs; None: of dense products in 16 bits, by the name of the
        device; not reported for an unknown device.

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
        peak_flops: float | None = None,
    ) -> None:
        if clock is not None and clock != BY_HAND and not self._may_be_clock(clock):
            raise TypeError(f'clock should be an optimizer or "{BY_HAND}", found {clock!r}')
        self.rank, self.world_size = self._place_in_job()
        self._store = self._find_job_store()
        self._session = _core.make_session(
            self._tensor_library(),
            # Absolute, since the program may change its directory during the run.
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
        own = weakref.ref(self)  # weak: the monitor's parts must not keep it alive
        peak = PeakRate(peak_flops, lambda: _device_of(own()))
        self.reporter = Reporter(self._session, lambda: _learning_rate_of(own()), peak)
        self._attachment = self._make_attachment(tp_group, dp_group, clock)
        # The wrapper on the optimizer keeps the monitor alive as long as the model, so the caller need not.
        self._attachment.owner = self
        if self._store is not None:
            weakref.finalize(self, self._store.close).atexit = False  # its thread must end before the interpreter
        self._beside = beside
        self._number = next(_numbers)
        _open.add(self)
        _exceptions.install()
        _close_when_a_forked_process_ends()

    # --- the parts that depend on the framework, for a derived class ---

    @staticmethod
    def _may_be_clock(optimizer: Any) -> bool:
        return callable(getattr(optimizer, "step", None))

    @staticmethod
    def _place_in_job() -> tuple[int, int]:
        return rank_and_world_size()

    @staticmethod
    def _find_job_store() -> JobStore | None:
        return find_job_store()

    def _tensor_library(self) -> ModuleType:
        import torch

        return torch

    def _make_attachment(self, tp_group: Any, dp_group: Any, clock: Any) -> Any:
        from stepwatch.attachment import Attachment  # needs torch

        writes_reduced = None
        if tp_group is not None or dp_group is not None:

            def writes_reduced(parameter: Any, sharing: Sharing) -> bool:
                return writes_reduced_gradient(
                    parameter,
                    tp_group if sharing.tensor_parallel else None,
                    dp_group if sharing.data_parallel else None,
                    sharing.holders,
                )

        return Attachment(self._session, self.reporter, writes_reduced, self.rank, self.world_size, clock)

    def _of_copies(self) -> dict[str, Any]:
        closed = ClosedSession()
        return {"_session": closed, "_attachment": closed, "_store": None, "reporter": copy.copy(self.reporter)}

    def attach(self, model: torch.nn.Module | Sequence[torch.nn.Module], optimizer: Any = None) -> None:
        """Add a model and its optimizers.

        Parameters
        ----------
        model : torch.nn.Module or sequence of them
            A sequence contains the chunks of a virtual pipeline.
        optimizer : object or sequence of them, optional
            Each with a method `step`, in any order. Without an optimizer, call `end_step`.
        """
        if isinstance(self._session, ClosedSession):
            text = "a copy of a monitor does not watch a model: create a new monitor with stepwatch.watch"
            _core.print_line(_WARNING, self.rank, text)
            return
        chunks = list(model) if isinstance(model, (list, tuple)) else [model]
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        if not self._beside:
            self._take_place_of_others(chunks)
        self._attachment.attach(chunks, [each for each in optimizers if each is not None])
        _trainer_logs.look()
        _data_loading.watch()

    def _take_place_of_others(self, chunks: list[torch.nn.Module]) -> None:
        for other in open_monitors():
            if other is self or type(other) is not type(self) or not other._attachment.watches(chunks):
                continue
            _core.print_line(
                _WARNING,
                self.rank,
                "another monitor watches this model already: it is closed, and this one replaces it; "
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
        """Mark the begin of a micro-batch, for models whose root module is not called once for each."""
        self._session.begin_micro_batch()

    def end_step(self) -> None:
        """End the training step here; from the first call on, optimizers do not end it.

        Call it after the updates of an iteration. If an optimizer has ended the iteration before the first call, that
        call does not end another one.
        """
        self._attachment.end_step()

    def refresh(self, timeout: float = 5.0) -> str:
        """Read the config file now.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        str
            "armed" (holds from the next step), "stopping", "refused", "unchanged", "missing",
            "timed_out" or "failed" (reading failed and is repeated; ``status()["fault"]`` has the reason).
        """
        return self._session.refresh(timeout)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the rows of all finished steps are in their files.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        bool
            False if the timeout passed first.
        """
        return self._session.flush(timeout)

    def amend(self, ops: Sequence[str] | None = None, xy_distribution: bool | None = None) -> None:
        """Change what is collected without an edit of the file, until the next edit.

        The change takes effect in the step about to begin, or in the next step if called in the middle of one; the
        window continues. Without a plan in force or armed, the call has no effect, except before the first `attach` in
        static mode: it then changes the plan to come.

        Parameters
        ----------
        ops : sequence of str, optional
            Statistics. Unknown ones are left out with a warning; an empty list becomes `norm`.
        xy_distribution : bool, optional
            Whether activations are collected; without `targets`, those of all modules.
        """
        self._attachment.amend(None if ops is None else list(ops), xy_distribution)

    def latest(self, kind: str, timeout: float = 5.0) -> list[tuple[int, str, int, dict[str, Any]]]:
        """Return the last values of every site of a kind.

        Parameters
        ----------
        kind : str
            The prefix of its CSV files: "actv", "grad_reduced", ...; "communication" for communication operators.
        timeout : float
            Seconds to wait for values that are still being copied.

        Returns
        -------
        list of tuple
            (chunk, name, micro-step, {statistic: value}), from the newest step in which the site was seen.
        """
        return [row[1:] for row in self._session.latest(kind, timeout)]

    def tagged(self, kind: str, timeout: float = 5.0) -> list[tuple[str, dict[str, Any]]]:
        """Return the last values by tag, such as "0:fc.input:0/rank0/actv".

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
        """Return the state of the monitor.

        Returns
        -------
        dict
            state, plan_id, step, collected, collecting_step, output_dir, ops (those of the plan in force).
        """
        return self._session.status()

    def close(self, timeout: float = 5.0) -> bool:
        """Remove all hooks, write the collected rows, and stop.

        Parameters
        ----------
        timeout : float
            Seconds; rows that are not written in time are dropped and counted.

        Returns
        -------
        bool
            False if a part of the monitor hung and was abandoned.
        """
        self.reporter.harvest()
        self._attachment.close()
        _open.discard(self)
        if not _open:
            _exceptions.remove()
            _trainer_logs.remove()
            _data_loading.remove()
        closed = self._session.close(timeout)
        if self._store is not None:
            self._store.close()
        return closed

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # `sys.excepthook` runs later, if at all, after this monitor is closed.
        if kind is not None:
            report_end(lambda: [self.reporter], kind, value, trace)
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
        A sequence contains the chunks of a virtual pipeline.
    optimizer : object or sequence of them, optional
        A training step ends when each of them has stepped, in any order; without an optimizer, `Watch.end_step` ends
        it.
    config : str or os.PathLike
        Path of config.json.
    **options
        As in `Watch`.

    Returns
    -------
    Watch
        Close it at the end, or use it as a context manager. A monitor that is still open when the interpreter exits is
        closed then.

    Examples
    --------
    >>> with stepwatch.watch(model, [muon, adamw], config="config.json"):  # doctest: +SKIP
    ...     train()
    """
    monitor = _class_for(model)(config, **options)
    try:
        monitor.attach(model, optimizer)
    except Exception:
        monitor.close()
        raise
    return monitor


def _class_for(model: Any) -> type[Watch]:
    """Return the class of monitors for a model of torch or of MindSpore."""
    first = model[0] if isinstance(model, (list, tuple)) and model else model
    cell = getattr(getattr(sys.modules.get("mindspore"), "nn", None), "Cell", None)
    if cell is None or not isinstance(first, cell):
        return Watch
    from stepwatch.mindspore.cell_watch import CellWatch

    return CellWatch


def _learning_rate_of(monitor: Watch | None) -> float | None:
    return None if monitor is None else monitor._attachment.learning_rate()


def _device_of(monitor: Watch | None) -> Any:
    return None if monitor is None else monitor._attachment.device


def open_monitors() -> list[Watch]:
    """Return the open monitors of this process in the order in which they were opened."""
    return sorted(_open, key=lambda monitor: monitor._number)


def reporter_in_use() -> Reporter | None:
    """Return the reporter of the open monitor that was opened first."""
    monitors = open_monitors()
    if not monitors:
        return None
    if len(monitors) > 1:
        monitors[0].reporter.warn_once(
            "several",
            f"this process has {len(monitors)} monitors; stepwatch.report and stepwatch.phase report to the one opened "
            "first; call Watch.report of another monitor to report to that one",
        )
    return monitors[0].reporter


def _reporter_of(optimizer: Any) -> Reporter | None:
    monitors = open_monitors()
    if optimizer is None:
        return monitors[0].reporter if len(monitors) == 1 else None
    return next((monitor.reporter for monitor in monitors if monitor._attachment.follows(optimizer)), None)


_exceptions = ExceptionHooks(lambda: [monitor.reporter for monitor in open_monitors()])
_trainer_logs = TrainerLogs(_reporter_of)
_data_loading = DataLoading(lambda: [monitor.reporter for monitor in _open])


def flush_all(timeout: float = 5.0) -> bool:
    """Flush every open monitor of this process, for tools that read its files; False: not all in time."""
    return all([monitor.flush(timeout) for monitor in list(_open)])


def _close_when_a_forked_process_ends() -> None:
    # A process that multiprocessing has forked exits without atexit.
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _close_all, exitpriority=0)


@atexit.register
def _close_all() -> None:
    for monitor in list(_open):
        monitor.close()
