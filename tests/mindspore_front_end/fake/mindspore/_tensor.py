"""Tensors on numpy, and the tape of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy


class _DType:
    def __init__(self, name: str, numpy_name: str) -> None:
        self.name, self.numpy_name = name, numpy_name

    def __str__(self) -> str:
        return self.name


float64, float32, float16 = (_DType(f"Float{bits}", f"float{bits}") for bits in (64, 32, 16))
int64, bfloat16 = _DType("Int64", "int64"), _DType("BFloat16", "float32")
_BY_NAME = {each.numpy_name: each for each in (bfloat16, float64, float32, float16, int64)}


class _Executor:
    records = False

    def requires_grad(self) -> bool:
        return self.records


executor = _Executor()


class Tensor:
    """An array, and the function that passes on its gradient."""

    device = "CPU"

    def __init__(self, value: Any, dtype: Any = None) -> None:
        self._array = numpy.array(value, dtype=None if dtype is None else dtype.numpy_name)
        self._sources: list[tuple[Tensor, Callable[[Any], Any]]] = []
        self._requires_grad = False

    @property
    def dtype(self) -> Any:
        """The element type."""
        return _BY_NAME[str(self._array.dtype)]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self._array.shape

    def asnumpy(self) -> Any:
        """Return the array, which shares the memory."""
        return self._array

    def data_ptr(self) -> int:
        """Return the address."""
        return self._array.ctypes.data

    def stride(self) -> list[int]:
        """Return the strides in elements."""
        return [each // self._array.itemsize for each in self._array.strides]

    def __float__(self) -> float:
        return float(self._array)

    def __add__(self, other: Tensor) -> Tensor:
        return made(
            self._array + other._array,
            (self, lambda g: reduced(g, self.shape)),
            (other, lambda g: reduced(g, other.shape)),
        )

    def __sub__(self, other: Tensor) -> Tensor:
        return self + made(-other._array, (other, lambda g: -g))

    def __mul__(self, other: Any) -> Tensor:
        if not isinstance(other, Tensor):
            other = Tensor(numpy.asarray(other, self._array.dtype))
        return made(
            self._array * other._array,
            (self, lambda g: reduced(g * other._array, self.shape)),
            (other, lambda g: reduced(g * self._array, other.shape)),
        )

    def mean(self) -> Tensor:
        """Return the mean."""
        array, kind = self._array, self._array.dtype
        return made(
            array.mean(dtype=kind), (self, lambda g: numpy.full(array.shape, numpy.asarray(g, kind) / array.size, kind))
        )


class _Handle:
    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._key = hooks, id(self)
        hooks[self._key] = hook

    def remove(self) -> None:
        self._hooks.pop(self._key, None)


class Parameter(Tensor):
    """A trained tensor."""

    def __init__(self, value: Any, name: str = "") -> None:
        super().__init__(value)
        self.name, self.requires_grad = name, True
        self._hooks: dict[int, Any] = {}

    def register_hook(self, hook: Any) -> _Handle:
        """Register a hook on the gradient, which must return it."""
        return _Handle(self._hooks, hook)


def reduced(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum a gradient over the broadcast dimensions."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    return gradient


def made(array: Any, *sources: tuple[Tensor, Callable[[Any], Any]]) -> Tensor:
    """Return the result of an operator; each source has the function that computes its gradient."""
    result = Tensor(array)
    if executor.records:
        result._sources = [each for each in sources if each[0]._requires_grad]
        result._requires_grad = bool(result._sources)
    return result


def value_and_grad(function: Any, grad_position: Any, weights: Any) -> Any:
    """Return a function that also returns the gradients of the weights."""
    del grad_position

    def call(*args: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        executor.records = True
        for weight in weights:
            weight._requires_grad = True
        try:
            loss = function(*args)
        finally:
            executor.records = False
        gradients = _backward(loss)
        found = []
        for weight in weights:
            gradient = Tensor(gradients.get(id(weight), numpy.zeros_like(weight._array)))
            for hook in list(weight._hooks.values()):
                gradient = hook(gradient)
                assert gradient is not None, "the hook of a parameter must return the gradient"
            found.append(gradient)
        return loss, tuple(found)

    return call


def _backward(loss: Tensor) -> dict[int, Any]:
    order: list[Tensor] = []
    seen: set[int] = set()

    def visit(tensor: Tensor) -> None:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            for source, _ in tensor._sources:
                visit(source)
            order.append(tensor)

    visit(loss)
    gradients = {id(loss): numpy.ones_like(loss._array)}
    for tensor in reversed(order):
        gradient = gradients.get(id(tensor))
        if gradient is None:
            continue
        for source, function in tensor._sources:
            part = function(gradient)
            known = gradients.get(id(source))
            gradients[id(source)] = part if known is None else known + part
    return gradients
