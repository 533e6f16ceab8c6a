"""A device that torch does not know, "slow", registered as PrivateUse1: copies off it arrive when the test lets them.

Its tensors are computed at once, where nobody but this file looks; what the host sees of them is as late as on a device
that works through a queue. Waits for the device are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import torch

NAME = "slow"

# Where torch has an implementation for all devices that makes views of memory, which these tensors do not have.
_VIEWS = (
    "alias detach expand permute select.int slice.Tensor split.Tensor split_with_sizes squeeze squeeze.dim "
    "squeeze.dims t transpose.int unbind.int unfold unsqueeze view view.dtype _reshape_alias as_strided diagonal "
    "lift_fresh _unsafe_view reshape _to_copy copy_ _local_scalar_dense nonzero equal clone contiguous"
).split()


class SlowTensor(torch.Tensor):
    """A tensor of the device; its numbers lie in `raw`."""

    raw: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl


class SlowDevice:
    """The controls and counters of the device."""

    def __init__(self) -> None:
        self.waits: list[str] = []  # operators that waited for it
        self.copies = 0  # off it, without waiting
        self.missing: set[str] = set()  # operators that it does not have
        self.failing: set[str] = set()  # operators that raise an unexpected exception
        self.collectives: dict[int, Callable[[], object]] = {}  # what is yet to come, by where
        self.has_double = True
        self._is_stalled = False
        self._queue: list[Callable[[], object]] = []

    def stall(self) -> None:
        """From now on nothing arrives on the host."""
        self._is_stalled = True

    def resume(self) -> None:
        """Let all copies of the meantime arrive."""
        self._is_stalled = False
        while self._queue:
            self._queue.pop(0)()

    def queue(self, work: Callable[[], object]) -> None:
        self.copies += 1
        self._queue.append(work)
        if not self._is_stalled:
            self.resume()

    def wait(self, operator: str) -> None:
        """The host reads what only the whole queue has computed."""
        self.waits.append(operator)
        self.resume()

    def forget(self) -> None:
        """Be as at the beginning."""
        self.resume()
        self.__init__()


device = SlowDevice()


def _wrap(raw: torch.Tensor) -> SlowTensor:
    made = torch._C._acc.create_empty_tensor(tuple(raw.shape), raw.dtype)
    made.__class__ = SlowTensor
    made.raw = raw
    return made


def _is_cpu(place: Any) -> bool:
    return place is not None and torch.device(place).type == "cpu"


def _run(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run any operator on the memory behind the tensors."""
    name = operator._schema.name.removeprefix("aten::")
    if name in device.missing:
        raise NotImplementedError(f"{name} is not implemented on {NAME}")
    if name in device.failing:
        raise OSError(f"{name} has failed")
    if name == "copy_" and not isinstance(args[0], SlowTensor):
        return _copy_off(*args, **kwargs)
    if name.endswith("wait_tensor"):  # what is queued behind it sees what has come
        device.collectives.pop(id(args[0].raw), lambda: None)()
    if not device.has_double and kwargs.get("dtype") == torch.float64:
        raise TypeError(f"{NAME} has no float64")
    if name in ("_local_scalar_dense", "nonzero", "equal") or (name == "_to_copy" and _is_cpu(kwargs.get("device"))):
        device.wait(name)
    wrappers: dict[int, Any] = {}

    def unwrapped(value: Any) -> Any:
        if isinstance(value, SlowTensor):
            wrappers[id(value.raw)] = value
            return value.raw
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return wrappers[id(value)] if id(value) in wrappers else _wrap(value)

    # Views of memory that autograd does not follow: it follows the tensors of the device.
    with torch.no_grad():
        found = operator(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs))
    if name == "_to_copy" and _is_cpu(kwargs.get("device")):
        return found
    return tree_map(wrapped, found)


def _copy_off(target: torch.Tensor, source: SlowTensor, non_blocking: bool = False) -> torch.Tensor:
    raw = source.raw.clone()
    if non_blocking:
        device.queue(lambda: torch.ops.aten.copy_(target, raw))
    else:
        device.wait("copy_")
        torch.ops.aten.copy_(target, raw)
    return target


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _register() -> list[torch.library.Library]:
    _setup_privateuseone_for_python_backend(NAME)
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(_run, "PrivateUse1")
    own = torch.library.Library("aten", "IMPL")
    for name in _VIEWS:
        operator = _overload(name)
        own.impl(name, lambda *args, _operator=operator, **kwargs: _run(_operator, *args, **kwargs), "PrivateUse1")
    functional = torch.library.Library("_c10d_functional", "IMPL")  # has a kernel for all devices that knows none
    wait = torch.ops._c10d_functional.wait_tensor.default
    functional.impl("wait_tensor", lambda tensor: _run(wait, tensor), "PrivateUse1")
    return [fallback, own, functional]


_libraries = _register()  # what they register goes with them


def moved(model: torch.nn.Module) -> torch.nn.Module:
    """Move the parameters of a model to the device."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(parameter.detach().to(NAME))
    return model
