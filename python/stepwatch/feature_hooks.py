"""Hooks that compute the L2 features of the modules a plan names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.device_numbers import numbers_of

if TYPE_CHECKING:
    import torch
    from stepwatch import _core

# (kind, module, micro-step, call) of a feature, and its columns as a tensor on the module's device.
_Pending = tuple[str, int, int, int, "torch.Tensor"]


class FeatureHooks:
    """Computes features where modules are called, and hands the numbers over at the end of the step.

    What is computed stays on its device until then, so that a step waits for a device once, however many features it
    has. A feature of a weight is computed at the module's first call in the step.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    guard : callable
        Runs a function and keeps what it raises from the training loop: guard(what, function).
    """

    def __init__(self, session: _core.Session, guard: Callable[[str, Callable[[], None]], None]) -> None:
        self._session = session
        self._guard = guard
        self._handles: list[Any] = []
        self._pending: list[_Pending] = []

    def install(self, modules: Sequence[torch.nn.Module], wanted: Sequence[tuple[str, int]], batch_first: bool) -> None:
        """Replace the hooks.

        Parameters
        ----------
        modules : sequence of torch.nn.Module
        wanted : sequence of (str, int)
            Kind of feature ("attention_hook", ...) and position in `modules`.
        batch_first : bool
            How attention's inputs lie.
        """
        self.remove()
        if not wanted:
            return
        compute = _computations(batch_first)
        for kind, number in wanted:
            self._handles.append(modules[number].register_forward_hook(self._hook(kind, number, compute[kind])))

    def _hook(self, kind: str, number: int, compute: Callable[..., Any]) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self._guard(
                f"computing the feature {kind}", lambda: self._compute(kind, number, compute, module, args, output)
            )

        return hook

    def _compute(
        self, kind: str, number: int, compute: Callable[..., Any], module: Any, args: Any, output: Any
    ) -> None:
        if not module.training:
            return
        position = self._session.next_feature_call(kind, number)
        if position is None:
            return
        columns = compute(module, args, output, position == (0, 0))
        if columns is not None:
            self._pending.append((kind, number, *position, columns))

    def end_step(self) -> None:
        """Hand over what the step has computed. Waits for the devices."""
        pending, self._pending = self._pending, []
        if not pending or not self._session.collecting:
            return
        for (kind, number, micro_step, call, _), values in zip(pending, numbers_of([entry[-1] for entry in pending])):
            self._session.observe_feature(kind, number, micro_step, call, values)

    def remove(self) -> None:
        """Take the hooks off; what is under way is forgotten."""
        for handle in reversed(self._handles):
            handle.remove()
        self._handles.clear()
        self._pending.clear()


def _computations(batch_first: bool) -> dict[str, Callable[..., Any]]:
    from stepwatch import l2_features

    def of_weight(feature: Callable[[Any], Any]) -> Callable[..., Any]:
        def compute(module: Any, args: Any, output: Any, is_first: bool) -> Any:
            weight = l2_features.linear_weight(module) if is_first else None
            return None if weight is None else feature(weight)

        return compute

    return {
        "attention_hook": lambda module, args, output, is_first: l2_features.attention(args, batch_first),
        "linear_hook": of_weight(l2_features.linear),
        "moe_router_weight_hook": of_weight(l2_features.router_weight),
        "moe_router_logit_hook": lambda module, args, output, is_first: l2_features.router_logit(output),
    }
