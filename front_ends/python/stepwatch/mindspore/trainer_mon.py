"""The drop-in for msProbe's TrainerMon of MindSpore: the same constructor, methods and files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stepwatch.mindspore import metrics, ranks
from stepwatch.mindspore.cell_watch import CellWatch
from stepwatch.mindspore.refusals import require_mindspore
from stepwatch.trainer_mon import TrainerMon as TorchTrainerMon


class _TrainerMonWatch(CellWatch):
    """The monitor of a TrainerMon: it runs beside a monitor of `watch` and replaces another TrainerMon's."""


class TrainerMon(TorchTrainerMon):
    """A training monitor for MindSpore in PyNative mode that a config file controls.

    Parameters
    ----------
    config_file_path : str or os.PathLike
        Path of the JSON file. It is checked at once.
    process_group : str, optional
        Name of the pipeline group; alarms contain its members and the position of this rank.
    params_have_main_grad : bool
        Accepted for compatibility: a parameter of MindSpore has no attribute with its gradient.
    opt_ty : str, optional
        Accepted for compatibility.

    Raises
    ------
    ImportError
        MindSpore is not installed.
    TypeError, ValueError, OSError
        As for `stepwatch.TrainerMon`. `set_monitor` raises TypeError for a model that is no `mindspore.nn.Cell`.
    """

    def __init__(
        self,
        config_file_path: str | os.PathLike[str],
        process_group: Any = None,
        params_have_main_grad: bool = True,
        opt_ty: str | None = None,
    ) -> None:
        require_mindspore()
        super().__init__(config_file_path, process_group, params_have_main_grad, opt_ty)

    @staticmethod
    def _place_in_job() -> tuple[int, int]:
        return ranks.rank_and_world_size()

    @staticmethod
    def _stage_and_mates(process_group: Any) -> tuple[int, list[int]]:
        return ranks.stage_and_mates(process_group)

    @staticmethod
    def _new_watch(config: str, **options: Any) -> CellWatch:
        return _TrainerMonWatch(config, **options)

    @staticmethod
    def _metrics_of(values: dict[str, Any], statistics: Sequence[str]) -> dict[str, Any]:
        return metrics.metrics_of(values, statistics)

    @staticmethod
    def _statistics_of(tensor: Any, names: tuple[str, ...]) -> dict[str, Any]:
        return metrics.statistics_of(tensor, names)

    @staticmethod
    def generate_cc_metrics(cc_name: str, cc_tensor: Any) -> dict[str, dict[str, Any]]:
        """Raise NotImplementedError: communication operators of MindSpore are not watched."""
        raise NotImplementedError("cc_distribution is not supported for MindSpore: its operators are not watched")

    @staticmethod
    def get_linear_hook_target(module: Any) -> str:
        """Return the name of the weight that `linear_hook` reads, or an empty string."""
        from stepwatch.mindspore.linear_features import matrix_name

        return matrix_name(module)
