"""Optimizers that step several others: torchtitan's containers, and torch's ZeroRedundancyOptimizer."""

from __future__ import annotations

from typing import Any

from stepwatch.frameworks.parameter_sources import Lookup, no_moments
from stepwatch.frameworks.torch_optimizer import TorchOptimizer


class OptimizerContainer(TorchOptimizer):
    """Reads an optimizer whose parts update parameters of the model by their `grad`."""


class ZeroRedundancy(TorchOptimizer):
    """Reads torch's ZeroRedundancyOptimizer: each rank keeps the moments of the parameters that it updates."""

    def moments(self) -> Any:
        """Return the moments of this rank's parameters."""
        state = super().moments()
        ranks = getattr(self.optimizer, "_param_to_rank", None) or {}
        own = getattr(self.optimizer, "rank", None)
        others = {id(parameter) for parameter, rank in ranks.items() if rank != own}
        return Lookup(lambda parameter: no_moments() if id(parameter) in others else state.get(parameter))

    def shares(self) -> str:
        """Return the text that names the rows of this rank's parameters."""
        return "under ZeroRedundancyOptimizer, each rank has rows of moments for the parameters that it updates"
