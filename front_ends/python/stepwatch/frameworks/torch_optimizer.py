"""Torch's optimizers and their subclasses, which update parameters by `grad`, reduced before the step."""

from __future__ import annotations

from typing import Any

from stepwatch.frameworks import deepspeed_leader, megatron_leaders
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter


class TorchOptimizer(OptimizerAdapter):
    """Reads an optimizer that uses gradients as they are when its step begins."""

    is_understood = True

    @property
    def unwrapped(self) -> Any:
        """The optimizer of Megatron around this one, if it updates copies and parts of parameters."""
        return megatron_leaders.leader_of(self.optimizer)

    @property
    def may_reduce_itself(self) -> bool:
        """Whether the step is not defined by torch."""
        module = getattr(getattr(type(self.optimizer), "step", None), "__module__", None) or ""
        return not module.startswith("torch.")

    def remedy(self, kind: str) -> str:
        """Return advice for a user who misses rows of a kind, as the end of a sentence."""
        leader = deepspeed_leader.leader_of(self.optimizer)
        if leader is not None:
            return (
                f"{type(leader).__name__} has removed the parameters from it: pass the engine or the optimizer that "
                "deepspeed.initialize returned"
            )
        if kind == "exp_avg":
            return (
                "remove these kinds from the config, or pass the optimizer around it if that one updates copies of "
                "parameters"
            )
        return "if another optimizer around it moves them before its step, pass that optimizer"
