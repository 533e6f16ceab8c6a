"""Objects that stand for an optimizer and call its step when they see fit: those of accelerate and Lightning."""

from __future__ import annotations

from typing import Any

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter


class OptimizerProxy(OptimizerAdapter):
    """Names the optimizer behind the proxy.

    accelerate calls `step` of its own object in every micro-batch, and that of torch's once a step; with DeepSpeed the
    step is taken inside of `accelerator.backward`. Lightning may toggle and skip.
    """

    @property
    def unwrapped(self) -> Any:
        """The optimizer that is stepped."""
        return getattr(self.optimizer, "optimizer", None)
