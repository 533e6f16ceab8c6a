"""Cells and optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from . import ops
from ._tensor import Parameter, Tensor, _Handle, executor, made


class Cell:
    """A part of a model, with MindSpore's hooks in MindSpore's order."""

    def __init__(self) -> None:
        self.training = False
        self._recompute_cell = None
        self._pre: dict[int, Any] = {}
        self._post: dict[int, Any] = {}
        self._back: dict[int, Any] = {}

    def register_forward_pre_hook(self, hook: Any, *, with_kwargs: bool) -> _Handle:
        """Register a hook before `construct`."""
        assert with_kwargs
        return _Handle(self._pre, hook)

    def register_forward_hook(self, hook: Any, *, with_kwargs: bool, always_call: bool = False) -> _Handle:
        """Register a hook after `construct`."""
        assert with_kwargs
        del always_call
        return _Handle(self._post, hook)

    def register_backward_hook(self, hook: Any) -> _Handle:
        """Register a hook on gradients."""
        return _Handle(self._back, hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in list(self._pre.values()):
            assert hook(self, args, kwargs) is None
        watched = bool(self._back) and executor.records
        inputs, outputs = {}, {}
        if watched:
            args = tuple(self._watched(each, at, inputs) for at, each in enumerate(args))
        output = None
        try:
            output = self.construct(*args, **kwargs)
        finally:
            for hook in list(self._post.values()):
                assert hook(self, args, kwargs, output) is None
        if not watched:
            return output
        if not any(isinstance(each, Tensor) and each._requires_grad for each in args):
            # As MindSpore: called with no gradient of the inputs once that of the output is there.
            return made(output._array, (output, lambda g: self._deliver(g, (None,), (Tensor(g),))))
        self._on_inputs(args, inputs, outputs)
        return made(output._array, (output, lambda g: outputs.setdefault("gradient", g)))

    def _watched(self, value: Any, at: int, inputs: dict[int, Any]) -> Any:
        if not isinstance(value, Tensor):
            return value
        return made(value._array, (value, lambda g: inputs[at](g)))

    def _on_inputs(self, args: Any, inputs: dict[int, Any], outputs: dict[str, Any]) -> None:
        tensors = [at for at, each in enumerate(args) if isinstance(each, Tensor) and each._requires_grad]
        come: dict[int, Any] = {}

        def arrive(at: int, gradient: Any) -> Any:
            come[at] = Tensor(gradient)
            if len(come) == len(tensors):
                values = tuple(come.get(at) for at, each in enumerate(args) if isinstance(each, Tensor))
                self._deliver(gradient, values, (Tensor(outputs["gradient"]),))
            return gradient

        for at in tensors:
            inputs[at] = lambda gradient, at=at: arrive(at, gradient)

    def _deliver(self, gradient: Any, inputs: Any, outputs: Any) -> Any:
        for hook in list(self._back.values()):
            assert hook(self, inputs, outputs) is None
        return gradient

    def _children(self) -> Iterator[tuple[str, Cell]]:
        return ((name, each) for name, each in vars(self).items() if isinstance(each, Cell))

    def cells_and_names(self, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Cell]]:
        """Yield this cell and those inside."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, each in self._children():
            yield from each.cells_and_names(f"{prefix}.{name}" if prefix else name, seen)

    def parameters_and_names(self) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters."""
        for prefix, cell in self.cells_and_names():
            for name, each in vars(cell).items():
                if isinstance(each, Parameter):
                    each.name = each.name or (f"{prefix}.{name}" if prefix else name)
                    yield (f"{prefix}.{name}" if prefix else name), each

    def trainable_params(self) -> list[Parameter]:
        """Return the parameters that are trained."""
        return [each for _, each in self.parameters_and_names() if each.requires_grad]

    def set_train(self, training: bool = True) -> None:
        """Set the mode."""
        for _, cell in self.cells_and_names():
            cell.training = training


class Embedding(Cell):
    """A table."""


class EmbeddingLookup(Cell):
    """A table."""


class Dense(Cell):
    """A linear layer."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = Parameter(numpy.random.randn(outputs, inputs).astype(numpy.float32))
        self.bias = Parameter(numpy.random.randn(outputs).astype(numpy.float32))

    def construct(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        return ops.matmul_transposed(x, self.weight) + self.bias


class Optimizer(Cell):
    """Base of optimizers."""

    def __init__(self, parameters: list[Parameter]) -> None:
        super().__init__()
        self.parameters = tuple(parameters)


class Adam(Optimizer):
    """Adam, in place."""

    def __init__(self, parameters: list[Parameter], rate: float) -> None:
        super().__init__(parameters)
        self._rate, self._count = rate, 0
        self.moment1, self.moment2 = (
            [Parameter(numpy.zeros_like(each._array), f"{name}.{each.name}") for each in parameters]
            for name in ("moment1", "moment2")
        )

    def get_parameters(self) -> list[Parameter]:
        """Return the parameters, those of the optimizer included."""
        return [*self.parameters, *self.moment1, *self.moment2]

    def construct(self, gradients: Any) -> Any:
        """Update the parameters."""
        self._count += 1
        for parameter, gradient, first, second in zip(self.parameters, gradients, self.moment1, self.moment2):
            values = gradient._array
            first._array[...] = 0.9 * first._array + 0.1 * values
            second._array[...] = 0.999 * second._array + 0.001 * values * values
            corrected = second._array / (1 - 0.999**self._count)
            step = first._array / (1 - 0.9**self._count) / (numpy.sqrt(corrected) + 1e-8)
            parameter._array[...] = parameter._array - numpy.float32(self._rate) * step
        return True
