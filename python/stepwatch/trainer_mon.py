"""The drop-in for msProbe's TrainerMon: the same constructor, methods and files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepwatch import _core
from stepwatch.ranks import rank_and_world_size
from stepwatch.watch import Watch

if TYPE_CHECKING:
    import torch

_WARNING = 2
_TAGS = {
    "actv": "actv",
    "actv_grad": "actv_grad",
    "grad_reduced": "post_grad",
    "grad_unreduced": "acc_grad",
}


class TrainerMon:
    """A training monitor that is steered by a config file.

    Parameters
    ----------
    config_file_path : str or os.PathLike
        Path of the JSON file. It is checked at once.
    process_group : torch.distributed.ProcessGroup, optional
        Accepted for compatibility.
    params_have_main_grad : bool
        Read gradients from `parameter.main_grad` where a parameter has one; others are read from `parameter.grad`,
        so that plain torch needs no False.
    opt_ty : str, optional
        Accepted for compatibility.

    Raises
    ------
    TypeError
        The config is refused.
    ValueError
        It is refused for `ndigits`, a `step_count_per_record` out of range or the length of `append_output`, or it is
        no JSON.
    OSError
        The file cannot be read.

    Notes
    -----
    In dynamic mode (DYNAMIC_MONITOR=true) a file that is refused or missing at the start is told as a warning, and the
    monitor waits for a good one.
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
        self.rank, self._world_size = rank_and_world_size()
        self.micro_batch_number = 1
        self._watch: Watch | None = None
        self._wrapped_optimizer: Any = None
        if not self.dynamic_enable:
            _core.check_config(self.config_file_path)

    def set_monitor(
        self,
        model: torch.nn.Module | list[torch.nn.Module],
        optimizer: Any,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Begin to watch a model.

        Parameters
        ----------
        model : torch.nn.Module or list of them
            A list: the chunks of a virtual pipeline.
        optimizer : object
            Its `step` ends the training step. (model, grad_acc_steps, optimizer, dp_group, tp_group), the order of the
            manuals, is recognised as well.
        grad_acc_steps : int
            Micro-batches of a step; anything but an integer of at least 1 is taken as 1, with a warning.
        tp_group, dp_group : torch.distributed.ProcessGroup, optional
            A reduced gradient that ranks of these groups share is written by one of them.
        start_iteration : int
            Number of the first step; anything but an integer of at least 0 is taken as 0, with a warning.
        """
        if isinstance(optimizer, int) and hasattr(grad_acc_steps, "step"):
            optimizer, grad_acc_steps = grad_acc_steps, optimizer
            tp_group, dp_group = dp_group, tp_group
        if self._watch is not None:
            self._watch.attach(model, optimizer)
            return
        self.micro_batch_number = self._at_least("grad_acc_steps", grad_acc_steps, 1)
        monitor = Watch(
            self.config_file_path,
            dynamic=self.dynamic_enable,
            grad_acc_steps=self.micro_batch_number,
            start_iteration=self._at_least("start_iteration", start_iteration, 0),
            main_grad=self.params_have_main_grad,
            tp_group=tp_group,
            dp_group=dp_group,
            keep_latest=True,
        )
        try:
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
        """Keep an optimizer for `monitor_gnorm_with_ad`. Deprecated: hand it to `set_monitor`."""
        self._wrapped_optimizer = optimizer

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
            As in `set_monitor`; without an optimizer that of `set_wrapped_optimizer` is used.
        """
        if optimizer is None:
            optimizer = self._wrapped_optimizer
        if optimizer is None:
            self._warn(
                "monitor_gnorm_with_ad: no optimizer was given, here or by set_wrapped_optimizer; nothing is watched"
            )
            return
        self.set_monitor(model, optimizer, grad_acc_steps, tp_group, dp_group, start_iteration)

    def generate_wgrad_metrics(self, post_grad_dict: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the statistics of the gradients seen last.

        Parameters
        ----------
        post_grad_dict
            Accepted for compatibility and not read.

        Returns
        -------
        tuple of dict
            (reduced, unreduced): tag -> {statistic: value}. Values are float, int, or 0-d torch tensors' equivalents;
            `shape` is a list, `dtype` a text.
        """
        return self._latest("grad_reduced"), self._latest("grad_unreduced")

    def generate_xy_metrics(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the statistics of the activations and their gradients seen last.

        Returns
        -------
        tuple of dict
            (activations, gradients): tag -> {statistic: value}.
        """
        return self._latest("actv"), self._latest("actv_grad")

    def _latest(self, kind: str) -> dict[str, Any]:
        if self._watch is None:
            return {}
        with_micro_step = kind.startswith("actv")
        rows = {}
        for chunk, name, micro_step, values in self._watch.latest(kind):
            tag = f"{chunk}:{name}:{micro_step}" if with_micro_step else f"{chunk}:{name}"
            rows[f"{tag}/rank{self.rank}/{_TAGS[kind]}"] = values
        return rows

    def refresh(self, timeout: float = 5.0) -> str:
        """Look at the config file now.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        str
            "armed" (holds from the next step), "stopping", "refused", "unchanged", "missing" or "timed_out".
        """
        return "unchanged" if self._watch is None else self._watch.refresh(timeout)

    @property
    def monitoring(self) -> bool:
        """Whether a plan is in force."""
        return self._watch is not None and self._watch.status()["plan_id"] != 0

    @property
    def tensorboard_dir(self) -> str:
        """The directory of this run and rank; empty until the first collection."""
        return "" if self._watch is None else self._watch.status()["output_dir"]

    @property
    def summary_writer(self) -> TrainerMon:
        """Something with `close()`, for scripts that close the writer at their end."""
        return self

    def close(self) -> None:
        """Take all hooks off, write what has been collected, stop."""
        if self._watch is not None:
            self._watch.close()
