"""Where an optimizer, or what somebody has put around one, keeps what is watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepwatch.frameworks.reduction import Reduction

# Attributes under which optimizers hold the ones that they lead.
_INSIDE = ("optimizer", "optim", "optimizers", "chained_optimizers", "base_optimizer")
# Optimizers inside of each other that are looked through.
_DEPTH_MAX = 8
# Lists and dictionaries inside of each other that are looked into, and how long one may be: others hold tensors.
_CONTAINERS_MAX = 4
_ELEMENTS_MAX = 64


class Sharing(NamedTuple):
    """The ranks that have the same reduced gradient of a parameter.

    Attributes
    ----------
    tensor_parallel : bool
        All of the tensor parallel group, if the parameter itself is the same on them.
    data_parallel : bool
        All of the data parallel group.
    holders : sequence of int or None
        If not None, only these of the data parallel group.
    """

    tensor_parallel: bool = True
    data_parallel: bool = True
    holders: Sequence[int] | None = None


class OptimizerAdapter:
    """Reads an object of a class that nobody here knows: what holds for any optimizer, and nothing else.

    An adapter of a framework overrides what is otherwise there. All methods are called on the training thread; what
    they raise is told, and rows are missing.

    Parameters
    ----------
    optimizer : object
        What the user has handed over, or what `unwrapped` of another adapter has given.

    Attributes
    ----------
    is_understood : bool
        Whether the gradients that `reduced` gives when a step begins are known to be reduced, in a job of several
        ranks. Otherwise they are read when the first optimizer inside begins its own step, and have no rows if there
        is none, which is told. A step in which none of those inside steps is then a skipped one.
    """

    is_understood = False

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.parts = parts_of(optimizer)

    @property
    def may_reduce_itself(self) -> bool:
        """Whether a class of somebody's own may reduce gradients in its step, for all that is understood of it."""
        return False

    @property
    def unwrapped(self) -> Any:
        """The object whose steps are the real ones, if this one's are not; otherwise None."""
        return None

    def groups(self) -> list[Mapping[str, Any]]:
        """Return the parameter groups, each once."""
        groups = {id(group): group for part in self.parts for group in param_groups_of(part)}
        return list(groups.values())

    def moments(self) -> Any:
        """Return what maps a parameter of the model by `get` to a mapping with its exp_avg and exp_avg_sq."""
        states = [state for part in self.parts if hasattr(state := _attribute(part, "state"), "get")]
        return states[0] if len(states) == 1 else JoinedStates(states)

    def reduced(self) -> Any:
        """Return what maps a parameter by `get` to its reduced gradient; None: each parameter has it itself."""
        return None

    def weights(self) -> Any:
        """Return what maps a parameter by `get` to its weight, whole or this rank's part; None: it is the weight."""
        return None

    def updated_weights(self) -> Any:
        """Return the same for when the step is over."""
        return self.weights()

    def reduction(self) -> type[Reduction] | None:
        """Return what sees the gradients of the parameters in `groups` before they are reduced; None: their hooks."""
        return None

    def sharing(self, parameter: Any) -> Sharing:
        """Return which ranks have the same reduced gradient of a parameter; `distributed.ranks` looks at DTensors."""
        return Sharing(data_parallel=not is_flattened(parameter))

    def has_part(self, parameter: Any) -> bool:
        """Tell whether this rank has any element of a parameter, of which others may have the rest."""
        local = getattr(parameter, "_local_tensor", parameter if is_flattened(parameter) else None)
        return local is None or local.numel() > 0

    def shares(self) -> str:
        """Return which rows are of this rank's part of a tensor, as half a sentence; "" if none are."""
        return ""

    def was_skipped(self, result: Any) -> bool:
        """Tell whether the step that has just returned has updated nothing.

        Parameters
        ----------
        result : object
            What `step` has returned; None where that is not known.
        """
        return False

    def remedy(self, kind: str) -> str:
        """Return what a user can do who gets no rows of a kind, as the end of a sentence."""
        return "hand the monitor the optimizer that holds the parameters of the model itself, if there is one"


class JoinedStates:
    """The states of several optimizers as one mapping.

    Parameters
    ----------
    states : sequence of mapping
        From parameters to their state.
    """

    def __init__(self, states: Sequence[Any]) -> None:
        self._states = states

    def get(self, parameter: Any, default: Any = None) -> Any:
        """Return the state of a parameter in the first optimizer that has one."""
        for state in self._states:
            own = state.get(parameter)
            if own:
                return own
        return default


def parts_of(optimizer: Any) -> list[Any]:
    """Find the optimizers that hold parameter groups: an object, and what it leads, the innermost first.

    Parameters
    ----------
    optimizer : object

    Returns
    -------
    list of object
        The object alone if there is none.
    """
    found: list[Any] = []
    seen: set[int] = set()

    def visit(each: Any, depth: int) -> None:
        if id(each) in seen or depth > _DEPTH_MAX:
            return
        seen.add(id(each))
        for inside in _optimizers_in(each):
            visit(inside, depth + 1)
        if isinstance(_attribute(each, "param_groups"), (list, tuple)):
            found.append(each)

    visit(optimizer, 0)
    return found or [optimizer]


def param_groups_of(optimizer: Any) -> list[Any]:
    """Return the parameter groups of an optimizer.

    Parameters
    ----------
    optimizer : object

    Returns
    -------
    list of dict
        None of an optimizer that keeps no list under this name.
    """
    groups = _attribute(optimizer, "param_groups")
    return list(groups) if isinstance(groups, (list, tuple)) else []


def _optimizers_in(optimizer: Any) -> list[Any]:
    named = [_attribute(optimizer, name) for name in _INSIDE]
    named += _torch_optimizers_in(_own_values(optimizer))
    found: list[Any] = []
    for each in named:
        values = each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple)) else [each]
        found += [value for value in values if callable(_attribute(value, "step"))]
    return found


def is_flattened(parameter: Any) -> bool:
    """Tell whether a parameter is this rank's part of what FSDP1 has made flat."""
    return getattr(parameter, "_fsdp_flattened", False) or hasattr(parameter, "_stepwatch_flat")


def is_torch_optimizer(value: Any) -> bool:
    """Tell whether an object is one of torch's optimizers, or of a class made of one."""
    return any(
        kind.__name__ == "Optimizer" and kind.__module__ == "torch.optim.optimizer" for kind in type(value).__mro__
    )


def _torch_optimizers_in(values: list[Any]) -> list[Any]:
    """Find torch's optimizers among values, and in lists and dictionaries inside of each other there."""
    found: list[Any] = []
    level = values
    for _ in range(_CONTAINERS_MAX):
        found += [value for value in level if is_torch_optimizer(value)]
        level = [each for value in level for each in _elements_of(value)]
    return found


def _elements_of(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple, dict)) or len(value) > _ELEMENTS_MAX:
        return []
    return list(value.values() if isinstance(value, dict) else value)


def _own_values(value: Any) -> list[Any]:
    slots = [slot for kind in type(value).__mro__ for slot in _names(kind.__dict__.get("__slots__", ()))]
    return [*getattr(value, "__dict__", {}).values(), *(_attribute(value, slot) for slot in slots)]


def _names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # a property of somebody's class
        return None
