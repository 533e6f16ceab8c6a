"""torch.distributed.pipelining: stages that run on memory without data, and gradients that bypass hooks."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.patches import Patches

_STAGE = "torch.distributed.pipelining.stage"
# Each runs a stage once to infer shapes; the last one exists in torch before 2.12.
_INFERENCES = ("_forward_metadata_inference", "_backward_metadata_inference", "_shape_inference")


class Pipelining:
    """Observes the work of pipeline stages that bypasses hooks or does not belong to training.

    Parameters
    ----------
    pause : callable
        Called with True before a stage runs on memory without data, and with False after it.
    accumulated : callable
        Called with the id of a parameter whose gradient a zero-bubble schedule has accumulated itself.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function).
    """

    def __init__(
        self,
        pause: Callable[[bool], None],
        accumulated: Callable[[int], None],
        guard: Callable[[str, Callable[[], None]], None],
    ) -> None:
        self._pause = pause
        self._accumulated = accumulated
        self._guard = guard
        self._patches = Patches()
        weakref.finalize(self, self._patches.remove).atexit = False

    def watch(self) -> None:
        """Start observing, if the job uses pipelines."""
        self.remove()
        stage = sys.modules.get(_STAGE)
        if stage is None:
            return
        for kind in (kind for kind in vars(stage).values() if isinstance(kind, type) and kind.__module__ == _STAGE):
            for name in _INFERENCES:
                if callable(vars(kind).get(name)):
                    self._patches.put(kind, name, self._pausing(vars(kind)[name]))
        if callable(vars(stage).get("stage_backward_weight")):
            self._patches.put(stage, "stage_backward_weight", self._reporting(stage.stage_backward_weight))

    def _pausing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        owner = weakref.ref(self)

        @functools.wraps(original)
        def inference(*args: Any, **kwargs: Any) -> Any:
            pipelining = owner()
            if pipelining is None:
                return original(*args, **kwargs)
            pipelining._pause(True)
            try:
                return original(*args, **kwargs)
            finally:
                pipelining._pause(False)

        return inference

    def _reporting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        owner = weakref.ref(self)

        @functools.wraps(original)
        def backward_weight(weights: Any, *args: Any, **kwargs: Any) -> Any:
            weights = list(weights)
            before = [_state_of(weight) for weight in weights]
            result = original(iter(weights), *args, **kwargs)
            pipelining = owner()
            if pipelining is not None:
                changed = [weight for weight, state in zip(weights, before) if _state_of(weight) != state]
                pipelining._guard("reading gradients of a pipeline", lambda: pipelining._report(changed))
            return result

        return backward_weight

    def _report(self, weights: list[Any]) -> None:
        for weight in weights:
            self._accumulated(id(weight))

    def remove(self) -> None:
        """Restore torch's functions."""
        self._patches.remove()


def _state_of(weight: Any) -> Any:
    gradient = weight.grad
    return None if gradient is None else (id(gradient), gradient._version)
