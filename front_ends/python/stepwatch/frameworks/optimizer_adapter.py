"""Access to the watched tensors of an optimizer or of a wrapper around one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepwatch.frameworks.reduction import Reduction

# Attributes under which optimizers hold inner optimizers.
_INSIDE = ("optimizer", "optim", "optimizers", "chained_optimizers", "base_optimizer")
# Limit of nested optimizers.
_DEPTH_MAX = 8
# Limits of nested lists and dictionaries, and of their length: longer ones hold tensors.
_CONTAINERS_MAX = 4
_ELEMENTS_MAX = 64


class Sharing(NamedTuple):
    """The ranks that have the same reduced gradient of a parameter.

    Attributes
    ----------
    tensor_parallel : bool
        All ranks of the tensor-parallel group, if they hold the same parameter.
    data_parallel : bool
        All ranks of the data-parallel group.
    holders : sequence of int or None
        If not None, only these ranks of the data-parallel group.
    """

    tensor_parallel: bool = True
    data_parallel: bool = True
    holders: Sequence[int] | None = None


class OptimizerAdapter:
    """Reads an optimizer of an unknown class, by the rules that hold for any optimizer.

    Adapters of frameworks override these rules. All methods are called on the training thread; their exceptions are
    logged, and rows are missing.

    Parameters
    ----------
    optimizer : object
        The object passed by the user, or `unwrapped` of another adapter.

    Attributes
    ----------
    is_understood : bool
        Whether the gradients of `reduced` are known to be reduced when a step begins, in a job of several ranks.
        Otherwise they are read when the first inner optimizer begins its own step; without an inner optimizer they have
        no rows, which is logged. A step in which no inner optimizer steps then counts as skipped.
    """

    is_understood = False

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.parts = parts_of(optimizer)

    @property
    def may_reduce_itself(self) -> bool:
        """Whether an unknown class may reduce gradients in its step."""
        return False

    @property
    def unwrapped(self) -> Any:
        """The object that performs the real steps, if this object does not; otherwise None."""
        return None

    def groups(self) -> list[Mapping[str, Any]]:
        """Return the parameter groups, each once."""
        groups = {id(group): group for part in self.parts for group in param_groups_of(part)}
        return list(groups.values())

    def moments(self) -> Any:
        """Return an object whose `get` maps a parameter to a mapping with its exp_avg and exp_avg_sq."""
        states = [state for part in self.parts if hasattr(state := _attribute(part, "state"), "get")]
        return states[0] if len(states) == 1 else JoinedStates(states)

    def reduced(self) -> Any:
        """Return an object whose `get` maps a parameter to its reduced gradient; None: it is in the parameter."""
        return None

    def weights(self) -> Any:
        """Return an object whose `get` maps a parameter to its weight or this rank's part; None: the parameter."""
        return None

    def updated_weights(self) -> Any:
        """Return the same object for weights after the step."""
        return self.weights()

    def reduction(self) -> type[Reduction] | None:
        """Return the reader of gradients in `groups` before their reduction; None: parameter hooks read them."""
        return None

    def sharing(self, parameter: Any) -> Sharing:
        """Return the ranks with the same reduced gradient of a parameter; `distributed.ranks` handles DTensors."""
        return Sharing(data_parallel=not is_flattened(parameter))

    def has_part(self, parameter: Any) -> bool:
        """Return whether this rank has any element of a parameter; other ranks may have the rest."""
        local = getattr(parameter, "_local_tensor", parameter if is_flattened(parameter) else None)
        return local is None or local.numel() > 0

    def shares(self) -> str:
        """Return the text that names the rows that cover only this rank's part of a tensor; "" without such rows."""
        return ""

    def was_skipped(self, result: Any) -> bool:
        """Return whether the last step updated no parameter.

        Parameters
        ----------
        result : object
            The return value of `step`; None if it is unknown.
        """
        return False

    def remedy(self, kind: str) -> str:
        """Return advice for a user who misses rows of a kind, as the end of a sentence."""
        return "pass the monitor the optimizer that holds the parameters of the model itself, if there is one"


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
    """Find the optimizers with parameter groups in an object and inside it, the innermost first.

    Parameters
    ----------
    optimizer : object

    Returns
    -------
    list of object
        Only the object if there is no such optimizer.
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
        Empty for an optimizer without such a list.
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
    """Return whether a parameter is this rank's part of a flat parameter of FSDP1."""
    return getattr(parameter, "_fsdp_flattened", False) or hasattr(parameter, "_stepwatch_flat")


def is_torch_optimizer(value: Any) -> bool:
    """Return whether an object is an optimizer of torch or of a subclass."""
    return any(
        kind.__name__ == "Optimizer" and kind.__module__ == "torch.optim.optimizer" for kind in type(value).__mro__
    )


def _torch_optimizers_in(values: list[Any]) -> list[Any]:
    """Find torch's optimizers among values, and in nested lists and dictionaries there."""
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
    except Exception:  # a property of a foreign class may raise
        return None
