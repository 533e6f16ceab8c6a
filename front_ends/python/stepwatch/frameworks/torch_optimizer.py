"""Torch's own optimizers and what is made of them: they update parameters by `grad`, which others have reduced."""

from __future__ import annotations

from typing import Any

from stepwatch.frameworks import deepspeed_leader, megatron_leaders
from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter


class TorchOptimizer(OptimizerAdapter):
    """Reads an optimizer that takes gradients as they are when its step begins."""

    is_understood = True

    @property
    def unwrapped(self) -> Any:
        """The optimizer of Megatron that this one is inside of, where it updates copies and parts of parameters."""
        return megatron_leaders.leader_of(self.optimizer)

    @property
    def may_reduce_itself(self) -> bool:
        """Whether the step is not one of torch's own."""
        module = getattr(getattr(type(self.optimizer), "step", None), "__module__", None) or ""
        return not module.startswith("torch.")

    def remedy(self, kind: str) -> str:
        """Return what a user can do who gets no rows of a kind, as the end of a sentence."""
        leader = deepspeed_leader.leader_of(self.optimizer)
        if leader is not None:
            return (
                f"{type(leader).__name__} has taken the parameters out of it since: hand over the engine, or the "
                "optimizer, that deepspeed.initialize returned"
            )
        if kind == "exp_avg":
            return "leave these kinds out of the config, or hand over what leads it, if it updates copies of parameters"
        return "hand over what takes them elsewhere before its step, if that is another optimizer around it"
