"""Hooks that compute the L2 features of the modules named by a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepwatch.devices.device_numbers import numbers_of
from stepwatch.hooks.own_hook import OwnHook

if TYPE_CHECKING:
    import torch
    from stepwatch import _core

# Limit of features of one step; further ones are skipped, for programs whose steps never end.
_PENDING_MAX = 100_000

# (kind, module, micro-step, call) of a feature, and its columns as a tensor on the module's device.
_Pending = tuple[str, int, int, int, "torch.Tensor"]


class FeatureHooks:
    """Computes features when modules are called, and passes the numbers on at the end of the step.

    The results stay on their device until then, so that a step waits only once per device for any number of features. A
    feature of a weight is computed at the module's first call in the step.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function).
    """

    def __init__(self, session: _core.Session, guard: Callable[[str, Callable[[], None]], None]) -> None:
        self._session = session
        self._guard = guard
        self._hung: list[tuple[Any, _FeatureHook, Any]] = []  # module, hook and handle
        self._pending: list[_Pending] = []

    def install(self, modules: Sequence[torch.nn.Module], wanted: Sequence[tuple[str, int]], batch_first: bool) -> None:
        """Replace the hooks.

        Parameters
        ----------
        modules : sequence of torch.nn.Module
        wanted : sequence of (str, int)
            Kind of feature ("attention_hook", ...) and position in `modules`.
        batch_first : bool
            The layout of attention's inputs.
        """
        self.remove()
        if not wanted:
            return
        compute = _computations(batch_first)
        for kind, number in wanted:
            self._hang(modules[number], _FeatureHook(self, kind, number, compute[kind]))

    def _hang(self, module: torch.nn.Module, hook: _FeatureHook) -> None:
        self._guard(
            f"watching the feature {hook.kind}",
            lambda: self._hung.append((module, hook, module.register_forward_hook(hook))),
        )

    def observe(self, hook: _FeatureHook, module: Any, args: Any, output: Any) -> None:
        """Compute the feature of a hook, and keep exceptions from the training loop.

        Parameters
        ----------
        hook : _FeatureHook
        module, args, output
            The arguments of a forward hook of torch.
        """
        self._guard(
            f"computing the feature {hook.kind}",
            lambda: self._compute(hook.kind, hook.number, hook.compute, module, args, output),
        )

    def _compute(
        self, kind: str, number: int, compute: Callable[..., Any], module: Any, args: Any, output: Any
    ) -> None:
        if not module.training or len(self._pending) >= _PENDING_MAX:
            return
        position = self._session.next_feature_call(kind, number)
        if position is None:
            return
        columns = compute(module, args, output, position == (0, 0))
        if columns is not None:
            self._pending.append((kind, number, *position, columns))

    def end_step(self) -> None:
        """Pass on the results of the step. Waits for the devices."""
        pending, self._pending = self._pending, []
        for lost in [each for each in self._hung if each[2].id not in each[0]._forward_hooks]:
            self._hung.remove(lost)
            self._hang(*lost[:2])
        if not pending or not self._session.collecting:
            return
        for (kind, number, micro_step, call, _), values in zip(pending, numbers_of([entry[-1] for entry in pending])):
            self._session.observe_feature(kind, number, micro_step, call, values)

    def remove(self) -> None:
        """Remove the hooks and discard pending results."""
        for _, _, handle in reversed(self._hung):
            self._guard("taking off a hook", lambda: handle.remove())  # noqa: B023
        self._hung.clear()
        self._pending.clear()


class _FeatureHook(OwnHook):
    """The hook of one feature of one module."""

    def __init__(self, features: FeatureHooks, kind: str, number: int, compute: Callable[..., Any]) -> None:
        self.kind = kind
        self.number = number
        self.compute = compute
        self._features = features
        from stepwatch.hooks.eager_hooks import is_traced, is_transformed  # need torch

        self._is_traced, self._is_transformed = is_traced, is_transformed

    def __call__(self, *given: Any, **_: Any) -> None:
        # Called as hook(module, args, output), or with keyword arguments in between if other code registered it again.
        if len(given) in (3, 4) and not self._is_traced() and not self._is_transformed():
            self._features.observe(self, given[0], given[1], given[-1])


def _computations(batch_first: bool) -> dict[str, Callable[..., Any]]:
    from stepwatch.features import l2_features

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
