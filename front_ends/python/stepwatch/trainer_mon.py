"""The drop-in for msProbe's TrainerMon: the same constructor, methods and files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.distributed.ranks import rank_and_world_size, stage_and_mates
from stepwatch.kept_in_models import KeptInModels
from stepwatch.metrics import metrics_of, statistics_of
from stepwatch.watch import Watch

if TYPE_CHECKING:
    import torch

_WARNING = 2


class _TrainerMonWatch(Watch):
    """The monitor of a TrainerMon: it runs beside a monitor of `watch` and replaces another TrainerMon's."""


class TrainerMon(KeptInModels):
    """A training monitor that a config file controls.

    Parameters
    ----------
    config_file_path : str or os.PathLike
        Path of the JSON file. It is checked at once.
    process_group : torch.distributed.ProcessGroup, optional
        The pipeline group; alarms contain its members and the position of this rank.
    params_have_main_grad : bool
        Read gradients from `parameter.main_grad` where a parameter has one, otherwise from `parameter.grad`. Plain
        torch works with True as well.
    opt_ty : str, optional
        Accepted for compatibility.

    Raises
    ------
    TypeError
        The config is refused.
    ValueError
        The config is not JSON, or it is refused for `ndigits`, a `step_count_per_record` out of range or the length of
        `append_output`.
    OSError
        The file cannot be read.

    Notes
    -----
    In dynamic mode (DYNAMIC_MONITOR=true) a file that is refused or missing at the start causes a warning, and the
    monitor waits for a valid file.

    The trained module may contain the monitor. A copy (`copy.deepcopy`, `AveragedModel`) is inactive until its own
    `set_monitor` is called. A pickle (`torch.save`) contains a `types.SimpleNamespace` instead, whose methods do
    nothing and which loads where Stepwatch is not installed.
    """

    def __init__(
        self,
        config_file_path: str | os.PathLike[str],
        process_group: Any = None,
        params_have_main_grad: bool = True,
        opt_ty: str | None = None,
    ) -> None:
        self.config_file_path = os.fspath(config_file_path)
        self.process_group = process_group
        self.params_have_main_grad = params_have_main_grad
        self.dynamic_enable = os.environ.get("DYNAMIC_MONITOR", "false").lower() == "true"
        self.rank, self._world_size = self._place_in_job()
        self.pp_stage, self.group_mates = self._stage_and_mates(process_group)
        self.output_base_dir = os.environ.get("MONITOR_OUTPUT_DIR", "./monitor_output")
        self.micro_batch_number = 1
        self.optimizer_trans: Any = None
        self.adhoc_metrics: dict[str, dict[str, Any]] = {}
        self._config_path = os.path.abspath(self.config_file_path)  # the program may change its directory
        self._watch: Watch | None = None
        self._ops: list[str] | None = None
        if not self.dynamic_enable:
            _core.check_config(os.fsencode(self.config_file_path))

    # --- the parts that depend on the framework, for a derived class ---

    @staticmethod
    def _place_in_job() -> tuple[int, int]:
        return rank_and_world_size()

    @staticmethod
    def _stage_and_mates(process_group: Any) -> tuple[int, list[int]]:
        return stage_and_mates(process_group)

    @staticmethod
    def _new_watch(config: str, **options: Any) -> Watch:
        return _TrainerMonWatch(config, **options)

    @staticmethod
    def _metrics_of(values: dict[str, Any], statistics: Sequence[str]) -> dict[str, Any]:
        return metrics_of(values, statistics)

    @staticmethod
    def _statistics_of(tensor: Any, names: tuple[str, ...]) -> dict[str, Any]:
        return statistics_of(tensor, names)

    def _of_copies(self) -> dict[str, Any]:
        return {"_watch": None, "optimizer_trans": None, "process_group": self.process_group}

    def set_monitor(
        self,
        model: torch.nn.Module | list[torch.nn.Module],
        optimizer: Any,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Start to watch a model.

        Parameters
        ----------
        model : torch.nn.Module or list of them
            A list contains the chunks of a virtual pipeline.
        optimizer : object or sequence of them
            A training step ends when each has stepped, in any order. The argument order of msProbe's manuals, (model,
            grad_acc_steps, optimizer, dp_group, tp_group), is accepted as well.
        grad_acc_steps : int
            Micro-batches of a step; any value but an integer of at least 1 is replaced by 1, with a warning.
        tp_group, dp_group : torch.distributed.ProcessGroup, optional
            One rank of these groups writes a reduced gradient that they share.
        start_iteration : int
            Number of the first step; any value but an integer of at least 0 is replaced by 0, with a warning.
        """
        if isinstance(optimizer, int) and not isinstance(grad_acc_steps, int):
            optimizer, grad_acc_steps = grad_acc_steps, optimizer
            tp_group, dp_group = dp_group, tp_group
        if self._watch is not None:
            self._watch.attach(model, optimizer)
            return
        self.micro_batch_number = self._at_least("grad_acc_steps", grad_acc_steps, 1)
        monitor = self._new_watch(
            self._config_path,
            dynamic=self.dynamic_enable,
            grad_acc_steps=self.micro_batch_number,
            start_iteration=self._at_least("start_iteration", start_iteration, 0),
            main_grad=self.params_have_main_grad,
            tp_group=tp_group,
            dp_group=dp_group,
            keep_latest=True,
            pp_stage=self.pp_stage,
            group_mates=self.group_mates,
        )
        try:
            if self._ops is not None:
                monitor.amend(ops=self._ops)
            monitor.attach(model, optimizer)
        except Exception:
            monitor.close()
            raise
        self.rank = monitor.rank
        self._watch = monitor

    def _at_least(self, name: str, value: Any, least: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self._warn(f"{name} {value!r} is not usable; accepted: an integer of at least {least}; {least} is used")
        return least

    def _warn(self, text: str) -> None:
        _core.print_line(_WARNING, self.rank if self._world_size > 1 else -1, text)

    def set_wrapped_optimizer(self, optimizer: Any) -> None:
        """Keep an optimizer for `monitor_gnorm_with_ad`. Deprecated: pass it to `set_monitor`."""
        self.optimizer_trans = optimizer

    def monitor_gnorm_with_ad(
        self,
        model: torch.nn.Module | list[torch.nn.Module],
        optimizer: Any = None,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Do what `set_monitor` does. Deprecated.

        Parameters
        ----------
        model, optimizer, grad_acc_steps, tp_group, dp_group, start_iteration
            As in `set_monitor`; without an optimizer, the one passed to `set_wrapped_optimizer` is used.
        """
        if optimizer is None:
            optimizer = self.optimizer_trans
        if optimizer is None:
            self._warn(
                "monitor_gnorm_with_ad: no optimizer was passed, here or to set_wrapped_optimizer; "
                "the model is not watched"
            )
            return
        self.set_monitor(model, optimizer, grad_acc_steps, tp_group, dp_group, start_iteration)

    # --- statistics ---

    @property
    def ops(self) -> list[str]:
        """The statistics of the plan in force; without a plan, the statistics assigned to this property.

        An assignment replaces the statistics of the plan in force from the step about to begin, until the next edit of
        the config file. Unknown statistics are left out with a warning; an empty list becomes `norm`; `shape` and
        `dtype` come last.
        """
        in_force = [] if self._watch is None else self._watch.status()["ops"]
        return in_force or list(self._ops or [])

    @ops.setter
    def ops(self, value: Sequence[str]) -> None:
        if not isinstance(value, list):
            raise TypeError(f"ops should be a list of statistics, found {value!r}")
        self._ops = [str(op) for op in value]
        if self._watch is not None:
            self._watch.amend(ops=self._ops)

    def reload_xy(self, xy_distribution: bool = False) -> None:
        """Switch activations on or off from the step about to begin. Deprecated: edit the config file.

        Parameters
        ----------
        xy_distribution : bool
            Holds until the next edit of the config file.
        """
        self._warn("reload_xy is deprecated; edit xy_distribution in the config file of a job in dynamic mode")
        if self._watch is not None:
            self._watch.amend(xy_distribution=bool(xy_distribution))

    def generate_wgrad_metrics(self, post_grad_dict: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the statistics of the latest gradients.

        Parameters
        ----------
        post_grad_dict
            Accepted for compatibility and ignored.

        Returns
        -------
        tuple of dict
            (reduced, unreduced): tag -> {statistic: 0-d tensor}, as from `stepwatch.metrics.metrics_of`.
        """
        return self._latest("grad_reduced"), self._latest("grad_unreduced")

    def generate_xy_metrics(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the statistics of the latest activations and their gradients.

        Returns
        -------
        tuple of dict
            (activations, gradients): tag -> {statistic: 0-d tensor}, of every micro-batch.
        """
        return self._latest("actv"), self._latest("actv_grad")

    def _latest(self, kind: str) -> dict[str, dict[str, Any]]:
        if self._watch is None:
            return {}
        found = self._watch.tagged(kind)
        statistics = next((list(values) for _, values in found if values), self.ops)
        return {tag: self._metrics_of(values, statistics) for tag, values in found}

    def adhoc_check(
        self, target_tensor: Any, module_name: str, tensor_name: str, rank_list: Sequence[int], ops_list: Sequence[str]
    ) -> None:
        """Measure one tensor now, and keep the values in `adhoc_metrics`: tag -> {statistic: 0-d tensor}.

        Parameters
        ----------
        target_tensor : torch.Tensor
        module_name, tensor_name : str
            The tag is "{module_name}/rank{R}/{tensor_name}"; a job of one process has no rank in it.
        rank_list : sequence of int
            Ranks that measure; empty: all.
        ops_list : sequence of str
            Any of norm, mean, min and max.
        """
        if rank_list and self.rank not in rank_list:
            return
        rank = f"/rank{self.rank}" if self._world_size > 1 else ""
        self.adhoc_metrics[f"{module_name}{rank}/{tensor_name}"] = self._statistics_of(target_tensor, tuple(ops_list))

    @staticmethod
    def generate_cc_metrics(cc_name: str, cc_tensor: Any) -> dict[str, dict[str, Any]]:
        """Return the values of a `CommunicationContext` by full tags, and clear it.

        Parameters
        ----------
        cc_name : str
            The operator.
        cc_tensor : CommunicationContext
            With `data`: statistic -> tag -> value.

        Returns
        -------
        dict
            Statistic -> {"{cc_name}/rank{R}/{tag}": value}; no rank outside of torch.distributed.
        """
        import torch

        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = f"/rank{torch.distributed.get_rank()}" if distributed else ""
        metrics: dict[str, dict[str, Any]] = defaultdict(dict)
        for statistic, values in cc_tensor.data.items():
            metrics[statistic].update({f"{cc_name}{rank}/{tag}": value for tag, value in values.items()})
        cc_tensor.reset()
        return metrics

    @staticmethod
    def has_register_backward_hook(module_name: str, module: Any) -> bool:
        """Return whether a module has a backward hook of the deprecated kind (not a full one)."""
        del module_name
        return bool(getattr(module, "_backward_hooks", None)) and module._is_full_backward_hook is False

    @staticmethod
    def get_linear_hook_target(module: Any) -> str:
        """Return the name of the weight that `linear_hook` reads: the first of "weight" and "wg" with two dimensions.

        Empty for embeddings and for modules without such a weight.
        """
        from stepwatch.features.l2_features import weight_name

        return weight_name(module)

    # --- state ---

    def refresh(self, timeout: float = 5.0) -> str:
        """Read the config file now; `Watch.refresh` describes the result."""
        return "unchanged" if self._watch is None else self._watch.refresh(timeout)

    @property
    def monitoring(self) -> bool:
        """True while a plan is in force."""
        return self._watch is not None and self._watch.status()["plan_id"] != 0

    @property
    def tensorboard_dir(self) -> str:
        """The directory of this run and rank; empty until the first collection."""
        return "" if self._watch is None else self._watch.status()["output_dir"]

    @property
    def unique_id(self) -> str:
        """The id that the directories of all ranks of one run share; empty until the first collection."""
        return self.tensorboard_dir.rpartition("-")[2]

    @property
    def has_collect_times(self) -> int:
        """Number of steps that the plan in force has collected."""
        return 0 if self._watch is None else self._watch.status()["collected"]

    @property
    def summary_writer(self) -> TrainerMon:
        """An object with `close()`, for scripts that close the writer at their end."""
        return self

    def close(self) -> None:
        """Remove all hooks, write the collected rows, and stop."""
        if self._watch is not None:
            self._watch.close()
