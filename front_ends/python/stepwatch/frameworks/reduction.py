"""Gradients that a framework reduces out of reach of parameter hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from stepwatch.hooks.patches import Patches


class Holding(NamedTuple):
    """The data of a parameter that this rank holds.

    Attributes
    ----------
    ranks : sequence of int
        The ranks that hold the same data, including this one.
    is_whole : bool
        False: the data is a part of the parameter.
    """

    ranks: Sequence[int]
    is_whole: bool


class Reduction:
    """Reports each whole gradient of some parameters, once per backward pass.

    A subclass for a framework replaces functions of the framework while a plan requests `grad_unreduced`.

    Parameters
    ----------
    seen : callable
        Called with (id of the parameter in the model, gradient) on an autograd thread, before the gradient is reduced
        or, if this backward pass does not reduce (`no_sync`), when it has been accumulated. The gradient has the shape
        of the whole parameter, or is flat. A third argument, True, means that the gradient is final for this step; it
        is then reported again, for steps with fewer micro-batches than announced.
    guard : callable
        Runs a function and keeps its exceptions from the training loop: guard(what, function).
    """

    # The framework named in a warning if this version of it, or of torch, lacks the known functions.
    framework = ""
    # Half a sentence that names the kinds of rows covering only this rank's part; "" if the optimizer adapter supplies
    # it.
    shares = ""

    def __init__(self, seen: Callable[..., None], guard: Callable[[str, Callable[[], None]], None]) -> None:
        self._seen = seen
        self._guard = guard
        self._patches = Patches()
        self._parameters: Sequence[Any] = ()
        weakref.finalize(self, self._patches.remove).atexit = False

    @staticmethod
    def parameters_of(module: Any) -> Iterable[Any]:
        """Return the parameters of a module whose gradients are reported."""
        return module.parameters()

    @staticmethod
    def holdings_of(module: Any) -> Iterable[tuple[Any, Holding]]:
        """Return parameters, also flat ones, whose holdings on this rank the module determines."""
        return ()

    @staticmethod
    def sees(parameter: Any) -> bool:
        """Return whether the gradient of a parameter in the groups of an optimizer is reported."""
        return True

    def watch(self, parameters: Sequence[Any] = ()) -> bool:
        """Start to report gradients.

        Parameters
        ----------
        parameters : sequence of torch.nn.Parameter
            The parameters whose gradients are requested; reports of others are allowed.

        Returns
        -------
        bool
            False: no known place in the framework exists, so no gradient will be reported.
        """
        self.remove()
        self._parameters = parameters
        return self._replace()

    def begin_step(self) -> None:
        """Release the data of the previous step. Called between the steps."""

    def _replace(self) -> bool:
        raise NotImplementedError

    def remove(self) -> None:
        """Restore the framework's functions."""
        self._patches.remove()
        self._parameters = ()

    def _report(self, gradients: Iterable[tuple[Any, Any]]) -> None:
        def report() -> None:
            for parameter, gradient in gradients:
                self._seen(id(parameter), gradient)

        self._guard(f"reading gradients that {self.framework} reduces", report)

    def _reporter(self) -> Callable[[Iterable[tuple[Any, Any]]], None]:
        """Return a function that reports gradients as long as this object exists.

        A function inside a framework must not keep an unclosed monitor or its model alive.
        """
        owner = weakref.ref(self)

        def report(gradients: Iterable[tuple[Any, Any]]) -> None:
            reduction = owner()
            if reduction is not None:
                reduction._report(gradients)

        return report
