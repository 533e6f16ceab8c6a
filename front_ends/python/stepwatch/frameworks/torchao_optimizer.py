"""torchao's optimizers, which keep moments in 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwatch.frameworks.torch_optimizer import TorchOptimizer

_MOMENTS = ("exp_avg", "exp_avg_sq")


class QuantisedMoments(TorchOptimizer):
    """Reads quantised moments: their rows have the numbers that the optimizer computes with."""

    def moments(self) -> Any:
        """Return the state with moments in full precision."""
        return _Dequantised(super().moments())


class _Dequantised:
    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, parameter: Any, default: Any = None) -> Any:
        own: Mapping[str, Any] | None = self._state.get(parameter)
        if not own:
            return default
        return {**own, **{name: _plain(own[name]) for name in _MOMENTS if name in own}}


def _plain(moment: Any) -> Any:
    local = getattr(moment, "_local_tensor", moment)  # of a DTensor
    # Every tensor has `dequantize`, but only tensors with codes need it.
    return local.dequantize() if hasattr(local, "codes") else moment
