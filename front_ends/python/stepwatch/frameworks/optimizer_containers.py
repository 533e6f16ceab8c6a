"""Optimizers that hand their step on to several: torchtitan's containers, and torch's ZeroRedundancyOptimizer.

Of the latter each rank keeps the moments of the parameters that it updates: they have their rows there.
"""

from __future__ import annotations

from stepwatch.frameworks.torch_optimizer import TorchOptimizer


class OptimizerContainer(TorchOptimizer):
    """Reads an optimizer whose parts update parameters of the model by their `grad`."""
