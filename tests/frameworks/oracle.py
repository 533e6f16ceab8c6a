"""The expected rows of a run, found with plain hooks of torch and without the monitor."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

MANGLED = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


def clean(name: str) -> str:
    """Return a name as the user wrote it in the model, without what wrappers of torch put into it."""
    return ".".join(part for part in name.split(".") if part not in MANGLED)


def numbers(tensor: torch.Tensor) -> dict[str, float] | None:
    """Return norm, min, max and mean of this rank's part of a tensor; None if it has no part."""
    with torch.no_grad():
        if hasattr(tensor, "trigger_wait"):
            tensor = tensor.trigger_wait()
        if hasattr(tensor, "to_local"):
            tensor = tensor.to_local()
        if hasattr(tensor, "trigger_wait"):
            tensor = tensor.trigger_wait()
        if hasattr(tensor, "dequantize") and type(tensor) is not torch.Tensor:
            tensor = tensor.dequantize()
        values = tensor.detach().to(torch.float64).flatten()
        if values.numel() == 0:
            return None
        return {
            "norm": float(values.norm()),
            "min": float(values.min()),
            "max": float(values.max()),
            "mean": float(values.mean()),
        }


class Oracle:
    """Records what each site shows in each step, as the rows should.

    Attributes
    ----------
    step : int
        The number of the step that runs; whoever owns this counts it up.
    rows : dict
        (kind, chunk, name, step, micro-step) -> the numbers that are right, several where it may be the whole tensor or
        this rank's part, none where the row may hold anything.
    """

    def __init__(self) -> None:
        self.step = 0
        self._looks_away = False
        self.rows: dict[tuple[str, int, str, int, int], list[dict[str, float]]] = {}
        self._handles: list[Any] = []
        self._passes: dict[tuple[int, int], int] = defaultdict(int)  # (chunk, step) -> forward passes of the root
        self._calls: dict[Any, int] = defaultdict(int)
        self._backward: dict[tuple[int, str, int], int] = defaultdict(int)  # (chunk, parameter, step) -> passes
        self._names: dict[int, tuple[int, str]] = {}
        self._sums: dict[tuple[int, str], torch.Tensor] = {}

    def record(self, kind: str, name: str, right: Any, *, micro: int = 0, chunk: int = 0, step: int = -1) -> None:
        """Say what a row should hold: a tensor, or several of which one is right; if one is empty there is no row."""
        choices = [choice for choice in (right if isinstance(right, list) else [right]) if choice is not None]
        if any(choice.numel() == 0 for choice in choices):
            return
        found = [each for each in map(numbers, choices) if each is not None]
        key = (kind, chunk, clean(name), self.step if step < 0 else step, micro)
        if found and self.rows.get(key) != []:
            self.rows[key] = found

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def unseen(self, function: Any) -> Any:
        """Return a function whose calls of modules are not those of training."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self._looks_away = True
            try:
                return function(*args, **kwargs)
            finally:
                self._looks_away = False

        return run

    # --- modules ---

    def watch_modules(
        self,
        chunks: Sequence[torch.nn.Module],
        *,
        skip: Iterable[str] = (),
        graphs: Iterable[str] = (),
        entered: torch.nn.Module | None = None,
    ) -> None:
        """Record the activations of all modules and their gradients.

        But for those of the classes to skip, and those inside of the modules that are run as graphs. A micro-batch
        begins with a call of the root, or of what is `entered` in its place.
        """
        hidden = tuple(f"{graph}." if graph else "" for graph in graphs)
        seen: set[int] = set()
        skipped = {"FullyShardedDataParallel", *skip}
        for chunk, outermost in enumerate(chunks):
            root = next(module for module in outermost.modules() if type(module).__name__ not in skipped)
            for name, module in root.named_modules():
                if id(module) in seen or type(module).__name__ in skipped:
                    continue
                seen.add(id(module))
                if name and name.startswith(hidden):
                    continue
                self._hang(chunk, clean(name), module, module is (entered or root))

    def _hang(self, chunk: int, name: str, module: torch.nn.Module, is_root: bool) -> None:
        running: list[tuple[int, int, int]] = []

        def before(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
            recomputes = torch._C._current_graph_task_id() != -1
            if not module.training or self._looks_away:
                return None
            if is_root and not recomputes:
                self._passes[chunk, self.step] += 1
            micro = max(self._passes[chunk, self.step] - 1, 0)
            key = (recomputes, chunk, name, self.step, micro)
            call = self._calls[key]
            self._calls[key] += 1
            running.append((self.step, micro, call))
            found = _tensors([*args, *kwargs.values()])
            at = (chunk, f"{name}.input", self.step, micro, call)
            if not recomputes:
                for element, tensor in found:
                    self._note("actv", at, element, tensor)
            return self._tapped_arguments(at, args, kwargs)

        def after(module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            if not module.training or not running:
                return None
            step, micro, call = running.pop()
            at = (chunk, f"{name}.output", step, micro, call)
            if any(output is value for value in (*args, *kwargs.values())):
                # It takes no part: the gradient of its input is not defined by what flows through it.
                for place in ((chunk, f"{name}.input", step, micro, call), at):
                    self.rows[("actv_grad", *_cell(place, None))] = []
            if torch._C._current_graph_task_id() == -1:
                for element, tensor in _tensors_of_output(output):
                    self._note("actv", at, element, tensor)
            return self._tapped_output(at, output)

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, with_kwargs=True))

    def _note(self, kind: str, at: tuple[int, str, int, int, int], element: int | None, tensor: torch.Tensor) -> None:
        chunk, name, step, micro = _cell(at, element)
        self.record(kind, name, tensor, micro=micro, chunk=chunk, step=step)

    def _tap(self, at: tuple[int, str, int, int, int], element: int | None, value: Any) -> Any:
        """Return a copy of a tensor in the graph whose gradient is noted: that which flows through this place alone."""
        if not isinstance(value, torch.Tensor) or not value.requires_grad or not torch.is_grad_enabled():
            return value
        copy = value.clone()
        copy.register_hook(lambda gradient: self._note("actv_grad", at, element, gradient))
        return copy

    def _tapped_arguments(self, at: tuple[int, str, int, int, int], args: Any, kwargs: Any) -> Any:
        copies: dict[int, Any] = {}  # an argument that is given twice stays one object

        def tapped(element: int | None, value: Any) -> Any:
            if id(value) not in copies:
                copies[id(value)] = self._tap(at, element, value)
            return copies[id(value)]

        own = tuple(tapped(None if len(args) == 1 else i, value) for i, value in enumerate(args))
        number = len(args)
        named = {}
        for key, value in kwargs.items():
            if isinstance(value, torch.Tensor):
                value = tapped(None if not args and len(kwargs) == 1 else number, value)
                number += 1
            named[key] = value
        return own, named

    def _tapped_output(self, at: tuple[int, str, int, int, int], output: Any) -> Any:
        if isinstance(output, torch.Tensor):
            return self._tap(at, None, output)
        element_of = {id(tensor): element for element, tensor in _tensors_of_output(output)}
        if isinstance(output, dict):
            for key, value in list(output.items()):
                if id(value) in element_of:
                    output[key] = self._tap(at, element_of[id(value)], value)
            return output
        if type(output) in (tuple, list):
            return type(output)(
                self._tap(at, element_of[id(value)], value) if id(value) in element_of else value for value in output
            )
        return output

    # --- parameters ---

    def watch_gradients(
        self, named: Iterable[tuple[str, torch.Tensor]], *, sums: bool = False, chunk: int = 0, part: Any = None
    ) -> None:
        """Record what each backward pass leaves in a parameter on this rank, before any reduction.

        With `sums` what comes in is added up here: for frameworks that move it out of `.grad`. With `part` the row is
        of what it returns of a name and a gradient.
        """
        for name, parameter in named:
            if parameter.requires_grad:
                self._handles.append(parameter.register_hook(self._gradient_hook(chunk, name, parameter, sums, part)))

    def _gradient_hook(self, chunk: int, name: str, parameter: torch.Tensor, sums: bool, part: Any) -> Any:
        def come(gradient: torch.Tensor) -> None:
            micro = self._backward[chunk, name, self.step]
            self._backward[chunk, name, self.step] += 1
            before = self._sums.get((chunk, name)) if sums else parameter.grad
            if sums:
                gradient = gradient.detach().float()
                before = None if micro == 0 else before
            whole = gradient.detach() if before is None else before.detach() + gradient.detach()
            if sums:
                self._sums[chunk, name] = whole
            self.record("grad_unreduced", name, part(name, whole) if part else whole, micro=micro, chunk=chunk)

        return come

    def sum_of(self, name: str, chunk: int = 0) -> torch.Tensor:
        """Return what has come in for a parameter in this step, with `sums`."""
        return self._sums[chunk, name]

    def watch_optimizer(
        self, optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, torch.Tensor]], chunk: int = 0
    ) -> None:
        """Record what an optimizer of torch finds at its step, and leaves."""
        named = [(name, parameter) for name, parameter in named if parameter.requires_grad]

        def before(*_: Any) -> None:
            for name, parameter in named:
                self.before_update(name, parameter, optimizer.state.get(parameter, {}), chunk=chunk)

        self._handles.append(optimizer.register_step_pre_hook(before))
        self.watch_updates(optimizer, named, chunk)

    def watch_updates(
        self, optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, torch.Tensor]], chunk: int = 0
    ) -> None:
        """Record what an optimizer of torch leaves."""
        named = [(name, parameter) for name, parameter in named if parameter.requires_grad]

        def after(*_: Any) -> None:
            for name, parameter in named:
                self.record("param_updated", name, parameter, chunk=chunk)

        self._handles.append(optimizer.register_step_post_hook(after))

    def before_update(self, name: str, parameter: torch.Tensor, state: Any, chunk: int = 0) -> None:
        """Record a parameter as an update finds it, with its gradient and its state."""
        self.record("param_origin", name, parameter, chunk=chunk)
        if parameter.grad is not None:
            self.record("grad_reduced", name, parameter.grad, chunk=chunk)
        for kind in ("exp_avg", "exp_avg_sq"):
            if isinstance(state.get(kind), torch.Tensor):
                self.record(kind, name, state[kind], chunk=chunk)


def _cell(at: tuple[int, str, int, int, int], element: int | None) -> tuple[int, str, int, int]:
    chunk, name, step, micro, call = at
    name += "" if element is None else f"_{element}"
    return chunk, name + (f"@{call}" if call else ""), step, micro


class Replica:
    """The model without its framework, on this rank alone: its gradients are those before any reduction.

    Parameters
    ----------
    oracle : Oracle
    model : torch.nn.Module
    part : callable, optional
        Given a name and a gradient, returns what this rank has of it.
    """

    def __init__(self, oracle: Oracle, model: torch.nn.Module, part: Any = None) -> None:
        self.model = model
        self._named = list(model.named_parameters())
        oracle.watch_gradients(self._named, part=part)

    def take(self, weights: dict[str, torch.Tensor]) -> None:
        """Take the weights with which the step begins, and forget the gradients of the one before."""
        with torch.no_grad():
            for name, parameter in self._named:
                parameter.copy_(weights[name])
                parameter.grad = None


def _is_container(value: Any) -> bool:
    return isinstance(value, (tuple, list, dict)) or dataclasses.is_dataclass(value)


def _values(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return list(container.values())
    if isinstance(container, (tuple, list)):
        return list(container)
    return [getattr(container, field.name) for field in dataclasses.fields(container)]


def _deep(container: Any) -> list[torch.Tensor]:
    found = []
    for value in _values(container):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif _is_container(value):
            found += _deep(value)
    return found


def _tensors(values: list[Any], by_position: bool = False) -> list[tuple[int | None, torch.Tensor]]:
    """Number tensors as docs/formats/csv.md does: those at the top first, then those inside of containers."""
    found: list[tuple[int | None, torch.Tensor]] = []
    number = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append((number, value))
            number += 1
        elif by_position:
            number += 1
    only = number
    for value in values:
        if _is_container(value):
            for tensor in _deep(value):
                found.append((number, tensor))
                number += 1
    if len(found) == 1 and (only == 1 and number == 1 or only == 0):
        return [(None, found[0][1])]
    return found


def _tensors_of_output(output: Any) -> list[tuple[int | None, torch.Tensor]]:
    if isinstance(output, torch.Tensor):
        return [(None, output)]
    if not _is_container(output):
        return []
    return _tensors(_values(output), by_position=isinstance(output, (tuple, list)))


def same(right: dict[str, float], found: dict[str, float], rtol: float) -> bool:
    """Compare the numbers of a row with what they should be."""
    size = max(abs(right["min"]), abs(right["max"]))
    for stat, value in right.items():
        other = found[stat]
        if not (math.isfinite(value) and math.isfinite(other)):
            if not (value == other or (math.isnan(value) and math.isnan(other))):
                return False
        # A mean, or an extreme near 0, is what is left of larger numbers.
        elif abs(value - other) > rtol * max(abs(value), size if stat == "mean" else 0.1 * size):
            return False
    return True
