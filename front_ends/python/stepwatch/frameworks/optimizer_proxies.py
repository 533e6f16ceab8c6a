"""Proxies of optimizers that decide when to call `step`: those of accelerate and Lightning."""

from __future__ import annotations

from typing import Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter


class OptimizerProxy(OptimizerAdapter):
    """Names the optimizer behind the proxy.

    accelerate calls `step` of its own object in every micro-batch, and that of torch's optimizer once per step; with
    DeepSpeed, `accelerator.backward` performs the step. Lightning may toggle and skip.
    """

    @property
    def unwrapped(self) -> Any:
        """The optimizer that is stepped."""
        return getattr(self.optimizer, "optimizer", None)
