"""Hypothesis strategies for tensors: dtype, shape, strides, offset and values, including those that break sums."""

from __future__ import annotations

import math

from hypothesis import strategies as st

import torch

FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
ELEMENTS_MAX = 150_000

FILLS = ["normal", "subnormal", "huge", "any bits", "few values"]
SPECIALS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-8, 5e-324]


@st.composite
def tensors(draw: st.DrawFn, dtypes: list[torch.dtype] | None = None) -> torch.Tensor:
    """Draw a tensor that may be empty, 0-d, transposed, sliced, expanded, or begin anywhere in its storage."""
    dtype = draw(st.sampled_from(dtypes or FLOATS + INTEGERS))
    shape = draw(shapes())
    offset = draw(st.integers(0, 17))
    values = draw(flat_values(dtype, math.prod(shape) + offset))
    return draw(views(values[offset:].view(shape)))


@st.composite
def shapes(draw: st.DrawFn) -> list[int]:
    """Draw up to five sizes; some one-dimensional ones pass the 65,536 elements of a chunk."""
    if draw(st.integers(0, 9)) == 0:
        return [draw(st.integers(60_000, ELEMENTS_MAX))]
    sizes = draw(st.lists(st.one_of(st.integers(0, 9), st.sampled_from([16, 31, 64, 100, 700])), max_size=5))
    while math.prod(sizes) > ELEMENTS_MAX:
        sizes[sizes.index(max(sizes))] = 2
    return sizes


@st.composite
def flat_values(draw: st.DrawFn, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Draw `count` numbers of one kind, then put special ones in single places."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    fill = draw(st.sampled_from(FILLS))
    if fill == "any bits":
        return any_bits(dtype, count, generator)
    if not dtype.is_floating_point:
        low = 0 if dtype in (torch.uint8, torch.bool) else -3
        return torch.randint(low, 4, (count,), generator=generator).to(dtype)
    unit = torch.rand(count, generator=generator, dtype=torch.float64) * 2 - 1
    if fill == "normal":
        values = torch.randn(count, generator=generator, dtype=torch.float64) * draw(st.sampled_from([0.02, 1.0]))
        values += draw(st.sampled_from([0.0, 1.0, -30.0]))
    elif fill == "subnormal":
        values = unit * torch.finfo(dtype).smallest_normal
    elif fill == "huge":  # of double: what can still be squared
        values = unit * (1e150 if dtype == torch.float64 else torch.finfo(dtype).max)
    else:
        values = unit.sign() * draw(st.sampled_from([0.0, 0.1, 1e-8, 2.0]))
    for _ in range(draw(st.integers(0, 4)) if count else 0):
        values[draw(st.integers(0, count - 1))] = draw(st.sampled_from(SPECIALS))
    return values.to(dtype)


def any_bits(dtype: torch.dtype, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return random bytes as numbers: every bit pattern, NaN and infinities included."""
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    return torch.randint(0, 256, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8).view(dtype)


@st.composite
def views(draw: st.DrawFn, tensor: torch.Tensor) -> torch.Tensor:
    """Draw a view of a tensor by up to four changes of its shape and strides."""
    for change in draw(st.lists(st.sampled_from(["transpose", "slice", "step", "expand", "select"]), max_size=4)):
        if change == "expand":
            repeats = draw(st.integers(1, 5))
            if tensor.numel() * repeats <= ELEMENTS_MAX and tensor.dim() < 8:
                place = draw(st.integers(0, tensor.dim()))
                tensor = tensor.unsqueeze(place)
                tensor = tensor.expand(*tensor.shape[:place], repeats, *tensor.shape[place + 1 :])
        if tensor.dim() == 0:
            continue
        dim = draw(st.integers(0, tensor.dim() - 1))
        size = tensor.shape[dim]
        if change == "transpose":
            tensor = tensor.transpose(dim, draw(st.integers(0, tensor.dim() - 1)))
        elif change == "slice" and size > 0:
            first = draw(st.integers(0, size - 1))
            tensor = tensor.narrow(dim, first, draw(st.integers(1, size - first)))
        elif change == "step":
            tensor = tensor[(slice(None),) * dim + (slice(None, None, draw(st.integers(1, 3))),)]
        elif change == "select" and size > 0:
            tensor = tensor.select(dim, draw(st.integers(0, size - 1)))
    return tensor
