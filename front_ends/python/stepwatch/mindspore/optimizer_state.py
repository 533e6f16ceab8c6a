"""The parameters, gradients and moments of one optimizer of MindSpore."""

from __future__ import annotations

from typing import Any

from stepwatch.mindspore.tensors import Tensor, Weight

# The prefixes of both moments in the names of an optimizer's own parameters.
_MOMENTS = (("moment1", "moment2"), ("adam_m", "adam_v"), ("lamb_m", "lamb_v"), ("exp_avg", "exp_avg_sq"))
# Its second moment is a norm of another kind.
_WITHOUT_SECOND = ("AdaMax", "Adamax")


class OptimizerState:
    """Reads one optimizer.

    Parameters
    ----------
    optimizer : mindspore.nn.Optimizer

    Attributes
    ----------
    is_updating : bool
        Between the begin of an update and its end.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.is_updating = False
        self._weights: list[Weight | None] = []
        self._moments: dict[Weight, dict[str, Tensor]] = {}

    @property
    def parameters(self) -> list[Any]:
        """The parameters in the order of the gradients."""
        return list(self.optimizer.parameters)

    def set_weights(self, weights: dict[int, Weight]) -> None:
        """Find the optimizer's parameters in a model.

        Parameters
        ----------
        weights : dict
            Those of the model, by the parameter's id.
        """
        parameters = self.parameters
        self._weights = [weights.get(id(parameter)) for parameter in parameters]
        own = {parameter.name: parameter for parameter in self.optimizer.get_parameters()}
        has_second = type(self.optimizer).__name__ not in _WITHOUT_SECOND
        self._moments = {}
        for parameter, weight in zip(parameters, self._weights):
            if weight is None:
                continue
            # A name may be prefixed with that of the optimizer once it is inside a cell.
            for first, second in _MOMENTS:
                found = {
                    name: Weight(own[f"{prefix}.{parameter.name}"])
                    for name, prefix in (("exp_avg", first), ("exp_avg_sq", second))
                    if f"{prefix}.{parameter.name}" in own and (has_second or name == "exp_avg")
                }
                if found:
                    self._moments[weight] = found
                    break

    def moments(self) -> dict[Weight, dict[str, Tensor]]:
        """Return the moments of each weight that has any, as {"exp_avg": ..., "exp_avg_sq": ...}."""
        return self._moments

    def gradients(self, given: Any) -> dict[Weight, Tensor]:
        """Return the gradients with which the optimizer is called.

        Parameters
        ----------
        given : sequence of mindspore.Tensor
            In the order of `parameters`; others, such as sparse gradients, are left out.
        """
        from mindspore import Tensor as MindSporeTensor

        given = given if isinstance(given, (tuple, list)) else (given,)
        return {
            weight: Tensor(gradient)
            for weight, gradient in zip(self._weights, given)
            if weight is not None and isinstance(gradient, MindSporeTensor)
        }
