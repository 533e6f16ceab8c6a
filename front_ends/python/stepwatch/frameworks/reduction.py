"""Gradients that a framework reduces where no hook on the parameter sees them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from stepwatch.hooks.patches import Patches


class Holding(NamedTuple):
    """What this rank holds of a parameter.

    Attributes
    ----------
    ranks : sequence of int
        Those that hold the same, this one among them.
    is_whole : bool
        False: it is a part of it.
    """

    ranks: Sequence[int]
    is_whole: bool


class Reduction:
    """Tells of each whole gradient of some parameters, once a backward pass.

    A class of a framework replaces functions of it while a plan wants `grad_unreduced`.

    Parameters
    ----------
    seen : callable
        Called with (id of the parameter in the model, gradient) on an autograd thread, before the gradient is reduced
        or, where this backward pass does not reduce (`no_sync`), when it has been added to those before. What it is
        given has the shape of the whole parameter, or is flat. A third argument, True, says that no more is added to
        it in this step: so it may be told of again, for a step of fewer micro-batches than were announced.
    guard : callable
        Runs a function and keeps what it raises from the training loop: guard(what, function).
    """

    # For whom a torch, or a package, without the known places is named in a warning.
    framework = ""
    # Which rows of such parameters are of this rank's part, as half a sentence; "" if the optimizer says it.
    shares = ""

    def __init__(self, seen: Callable[..., None], guard: Callable[[str, Callable[[], None]], None]) -> None:
        self._seen = seen
        self._guard = guard
        self._patches = Patches()
        self._parameters: Sequence[Any] = ()
        weakref.finalize(self, self._patches.remove).atexit = False

    @staticmethod
    def parameters_of(module: Any) -> Iterable[Any]:
        """Return the parameters of a module whose gradients are told of."""
        return module.parameters()

    @staticmethod
    def holdings_of(module: Any) -> Iterable[tuple[Any, Holding]]:
        """Return parameters, flat ones too, of which the module knows better than they what this rank holds."""
        return ()

    @staticmethod
    def sees(parameter: Any) -> bool:
        """Tell whether the gradient of a parameter in the groups of an optimizer is told of."""
        return True

    def watch(self, parameters: Sequence[Any] = ()) -> bool:
        """Begin to tell.

        Parameters
        ----------
        parameters : sequence of torch.nn.Parameter
            Those whose gradients are wanted; it is no fault to tell of others as well.

        Returns
        -------
        bool
            False: none of the places that are known is there; nothing will be seen.
        """
        self.remove()
        self._parameters = parameters
        return self._replace()

    def begin_step(self) -> None:
        """Let go of what belongs to the step that is over. Called between the steps."""

    def _replace(self) -> bool:
        raise NotImplementedError

    def remove(self) -> None:
        """Give the framework its own functions back."""
        self._patches.remove()
        self._parameters = ()

    def _tell(self, gradients: Iterable[tuple[Any, Any]]) -> None:
        def tell() -> None:
            for parameter, gradient in gradients:
                self._seen(id(parameter), gradient)

        self._guard(f"reading gradients that {self.framework} reduces", tell)

    def _teller(self) -> Callable[[Iterable[tuple[Any, Any]]], None]:
        """Return a function that tells, for as long as this lives.

        What is put into a framework must not keep a monitor alive that nobody closes, nor its model.
        """
        owner = weakref.ref(self)

        def tell(gradients: Iterable[tuple[Any, Any]]) -> None:
            reduction = owner()
            if reduction is not None:
                reduction._tell(gradients)

        return tell
