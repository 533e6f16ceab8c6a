"""Lets names of CUDA mean the CPU, for frameworks that ask for a GPU by name and need none to run."""

from __future__ import annotations

import contextlib
from typing import Any

from torch.overrides import TorchFunctionMode

import torch

_TYPES = {
    "torch.FloatTensor": "torch.cuda.FloatTensor",
    "torch.HalfTensor": "torch.cuda.HalfTensor",
    "torch.BFloat16Tensor": "torch.cuda.BFloat16Tensor",
}


def _on_cpu(device: Any) -> Any:
    is_cuda = isinstance(device, int) or (isinstance(device, (str, torch.device)) and str(device).startswith("cuda"))
    return torch.device("cpu") if is_cuda and not isinstance(device, bool) else device


class _OnCpu(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = _on_cpu(kwargs["device"])
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.Tensor.to:
            args = (args[0], *(each if isinstance(each, torch.Tensor) else _on_cpu(each) for each in args[1:]))
        result = function(*args, **kwargs)
        if function is torch.Tensor.type and isinstance(result, str):
            return _TYPES.get(result, result)
        return result


class _Nothing:
    """A stream or an event of a device that does all at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record_event(self, *_: Any) -> _Nothing:
        return _Nothing()

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def pretend() -> None:
    """Begin to pretend, for the life of this process."""
    _OnCpu().__enter__()
    cuda: Any = torch.cuda
    cuda.current_device = lambda: torch.device("cpu")
    cuda.synchronize = cuda.empty_cache = cuda.set_device = lambda *_, **__: None
    for module in (cuda, cuda.random):
        module.get_rng_state = lambda *_, **__: torch.get_rng_state()
        module.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
        module.manual_seed = torch.manual_seed
    cuda.Stream = cuda.Event = _Nothing
    cuda.current_stream = cuda.default_stream = _Nothing
    cuda.stream = lambda *_: contextlib.nullcontext()
