"""MindSpore's tensors with the attributes of torch's, which the native core reads.

The core measures memory in place. A tensor of another device is copied to the host first.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

_DTYPES = {
    "Float64": "float64",
    "Float32": "float32",
    "Float16": "float16",
    "BFloat16": "bfloat16",
    "Int64": "int64",
    "Int32": "int32",
    "Int16": "int16",
    "Int8": "int8",
    "UInt8": "uint8",
    "Bool": "bool",
    "Float8E4M3FN": "float8_e4m3fn",
    "Float8E5M2": "float8_e5m2",
}
_STRIDED = object()


class _DType:
    """An element type, printed as MindSpore prints it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name


_KNOWN = {name: _DType(name) for name in _DTYPES}


class Call:
    """One call of a cell as the core sees a graph: a node between the inputs and the outputs.

    Parameters
    ----------
    inputs : int
        Number of tensors that MindSpore passes gradients of.

    Attributes
    ----------
    next_functions : tuple
        An edge for each of these inputs.
    """

    __slots__ = ("_of_inputs", "_of_outputs", "next_functions")

    def __init__(self, inputs: int) -> None:
        self.next_functions = tuple((object(), 0) for _ in range(inputs))
        self._of_inputs: list[Callable[..., None]] = []
        self._of_outputs: dict[int, Callable[..., None]] = {}

    def register_hook(self, hook: Callable[..., None]) -> None:
        """Keep the core's hook on the gradients of the inputs."""
        self._of_inputs.append(hook)

    def register_output(self, output: int, hook: Callable[..., None]) -> None:
        """Keep the core's hook on the gradient of an output."""
        self._of_outputs[output] = hook

    def deliver(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """Pass the gradients of a call to the core.

        Parameters
        ----------
        inputs, outputs : tuple of Tensor or None
        """
        for number, hook in self._of_outputs.items():
            hook(outputs[number] if number < len(outputs) else None)
        for hook in self._of_inputs:
            hook(inputs)


class Tensor:
    """A tensor of MindSpore as the core reads it.

    Parameters
    ----------
    held : mindspore.Tensor
        Kept until the core has read it.
    node : object, optional
        The node of the graph that makes it; its gradient has a row.
    output : int
        Its number among the outputs of the node.
    """

    __slots__ = ("_copy", "_held", "grad_fn", "output_nr", "requires_grad")

    layout = _STRIDED
    is_cpu = True
    grad: Any = None

    def __init__(self, held: Any, node: Any = None, output: int = 0) -> None:
        self._held = held
        self._copy: Any = None
        self.grad_fn = node
        self.output_nr = output
        self.requires_grad = node is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self._held.shape)

    @property
    def dtype(self) -> Any:
        """The element type: one of those in the module of `library`, or another object."""
        name = str(self._held.dtype)
        return _KNOWN.get(name, name)

    def _on_host(self) -> Any:
        """Return a copy in host memory of a tensor on another device, else None."""
        if self._copy is None and str(getattr(self._held, "device", "CPU")).partition(":")[0].upper() != "CPU":
            self._copy = self._held.asnumpy()
        return self._copy

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        copy = self._on_host()
        if copy is None:
            return tuple(self._held.stride())
        return tuple(stride // copy.itemsize for stride in copy.strides)

    def data_ptr(self) -> int:
        """Return the address of the first element. Waits until MindSpore has computed it."""
        copy = self._on_host()
        return int(self._held.data_ptr() if copy is None else copy.ctypes.data)

    def storage_offset(self) -> int:
        """Return 0: the address is that of the first element."""
        return 0

    def detach(self) -> Tensor:
        """Return the tensor itself: it is part of no graph of the core."""
        return self

    def register_hook(self, hook: Callable[..., None]) -> None:
        """Keep the core's hook on the gradient of this output of a call."""
        self.grad_fn.register_output(self.output_nr, hook)


class Weight(Tensor):
    """A parameter, read anew at each use: its memory may move between steps.

    Attributes
    ----------
    grad : Tensor or None
        Set while a hook passes its gradient on: MindSpore keeps none.
    """

    __slots__ = ("__dict__", "__weakref__")

    @property
    def held(self) -> Any:
        """The parameter of MindSpore."""
        return self._held

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements, of a new copy if the parameter is on another device."""
        self._copy = None
        return super().stride()


class Library:
    """Stands for torch where the core looks for it.

    Attributes
    ----------
    module : ModuleType
        Its attributes are those that the core reads.
    records : bool
        Whether MindSpore records the calls that the core is about to see.
    recomputes : bool
        Whether these calls repeat others during a backward pass.
    """

    def __init__(self) -> None:
        self.records = False
        self.recomputes = False
        self.module = module = ModuleType("stepwatch.mindspore.library")
        vars(module).update({name: _KNOWN[mindspores] for mindspores, name in _DTYPES.items()})
        vars(module).update(
            Tensor=Tensor,
            strided=_STRIDED,
            nn=SimpleNamespace(Parameter=Weight),
            is_grad_enabled=lambda: self.records,
            _C=SimpleNamespace(_current_graph_task_id=lambda: 0 if self.recomputes else -1),
        )


def tensors_in(value: Any, kind: type) -> Any:
    """Return a value with each tensor of MindSpore replaced, also inside tuples, lists and dicts.

    Parameters
    ----------
    value : object
    kind : type
        MindSpore's class of tensors.

    Returns
    -------
    object
        Other values are replaced by None.
    """
    if isinstance(value, kind):
        return Tensor(value)
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)(tensors_in(each, kind) for each in value)
    if isinstance(value, dict):
        return {key: tensors_in(each, kind) for key, each in value.items()}
    return None
