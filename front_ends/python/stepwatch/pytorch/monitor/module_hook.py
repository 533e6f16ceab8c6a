"""TrainerMon under the name of its module in msProbe, with the other names of that module.

The context classes contain no data of the monitor, which keeps its values in native code. They exist for programs that
create their own instances, and for type hints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from stepwatch import _core
from stepwatch.distributed.ranks import is_data_parallel_duplicate, is_not_tensor_parallel_duplicate
from stepwatch.trainer_mon import TrainerMon

__all__ = [
    "FORMAT_MAPPING",
    "CommunicationContext",
    "FeatureHookContext",
    "GradContext",
    "ModuleHookContext",
    "OptimizerContext",
    "TrainerMon",
    "param_is_data_parallel_duplicate",
    "param_is_not_tensor_parallel_duplicate",
    "start_step",
]

# Values of `format`, and the destination of their rows.
FORMAT_MAPPING = dict(_core.OUTPUT_FORMATS)
# Kept for imports only: each monitor gets its own value by set_monitor(start_iteration=...).
start_step = 0

param_is_not_tensor_parallel_duplicate = is_not_tensor_parallel_duplicate
param_is_data_parallel_duplicate = is_data_parallel_duplicate


class _Resettable:
    def reset(self) -> None:
        """Clear all values."""
        for value in vars(self).values():
            if isinstance(value, (dict, list)):
                value.clear()


@dataclass
class ModuleHookContext(_Resettable):
    """Holds the activations of one module and their gradients."""

    module_name: str
    micro_step: int = 0
    actv: dict[str, Any] = field(default_factory=dict)
    actvgrad: list[Any] = field(default_factory=list)
    struct: dict[str, Any] = field(default_factory=dict)
    stack: str = ""


@dataclass
class FeatureHookContext(_Resettable):
    """Holds the L2 features of one module."""

    module_name: str
    step: int = 0
    micro_step: int = 0
    attention_feature: dict[str, Any] = field(default_factory=dict)
    linear_feature: dict[str, Any] = field(default_factory=dict)
    moe_router_weight_feature: dict[str, Any] = field(default_factory=dict)
    moe_router_logit_feature: dict[str, Any] = field(default_factory=dict)


@dataclass
class OptimizerContext(_Resettable):
    """Holds the values around one optimizer's step."""

    step: int = 0
    param_mg_direction: dict[str, Any] = field(default_factory=dict)
    param_adam_update: dict[str, Any] = field(default_factory=dict)
    param_adam_ratio: dict[str, Any] = field(default_factory=dict)
    param_weight_grad: dict[str, Any] = field(default_factory=dict)
    param_exp_avg: dict[str, Any] = field(default_factory=dict)
    exp_avg_metric: dict[str, Any] = field(default_factory=dict)
    param_exp_avg_sq: dict[str, Any] = field(default_factory=dict)
    exp_avg_sq_metric: dict[str, Any] = field(default_factory=dict)
    metric_dict: dict[str, Any] = field(default_factory=dict)
    param_metric: dict[str, Any] = field(default_factory=dict)


@dataclass
class GradContext(_Resettable):
    """Holds gradients before and after their reduction, and gradients of activations."""

    pre: dict[str, Any] = field(default_factory=dict)
    post: dict[str, Any] = field(default_factory=dict)
    actv: dict[str, Any] = field(default_factory=dict)


# Functions that reduce the values of several calls to one.
_JOINED = {
    "min": min,
    "max": max,
    "norm": lambda values: math.sqrt(math.fsum(value * value for value in map(float, values))),
    "nans": sum,
    "mean": lambda values: sum(values) / len(values),
    "zeros": lambda values: sum(values) / len(values),
}


@dataclass
class CommunicationContext(_Resettable):
    """Holds values of communication operators: tag -> statistic -> values of the calls."""

    data: dict[str, Any] = field(default_factory=dict)

    def aggregate(self) -> None:
        """Replace the values of the calls by one: extremes, sum of nans, root of the sum of squares, means."""
        self.data = {
            tag: {op: _JOINED[op](values) if op in _JOINED and values else math.nan for op, values in ops.items()}
            for tag, ops in self.data.items()
        }
