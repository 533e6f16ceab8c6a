"""Torch's own optimizers and what is made of them: they update parameters by `grad`, which others have reduced."""

from __future__ import annotations

from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter


class TorchOptimizer(OptimizerAdapter):
    """Reads an optimizer that takes gradients as they are when its step begins."""

    is_understood = True
