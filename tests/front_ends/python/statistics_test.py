"""The kernels against torch's own operators, on tensors that hypothesis makes up."""

from __future__ import annotations

import ctypes
import math
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measure_library import PATH, Measured, MeasureLibrary
from tensor_strategies import FLOATS, INTEGERS, tensors

import torch

pytestmark = pytest.mark.skipif(not PATH.exists(), reason=f"{PATH} is not built")

THRESHOLDS = [1e-8, 0.0, 1e-3, 0.5, 1e-45]
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
many_examples = settings(
    max_examples=200, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def library() -> MeasureLibrary:
    return MeasureLibrary()


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """torch has no operators for 8 bits; every such number is one of single precision."""
    return tensor.float() if tensor.dtype in EIGHT_BITS else tensor


def extreme(tensor: torch.Tensor, operator) -> float | int:
    """torch raises for an empty tensor, which has no extremes."""
    return operator(readable(tensor)).item() if tensor.numel() else math.nan


def largest_magnitude(tensor: torch.Tensor) -> float:
    if tensor.dtype.is_floating_point:
        return extreme(tensor, lambda t: torch.max(torch.abs(t)))
    return max(abs(float(extreme(tensor, torch.min))), abs(float(extreme(tensor, torch.max))))


def share_below(tensor: torch.Tensor, eps: float) -> float:
    """Return the share of `abs(tensor) < eps` by torch, in double precision as it is not limited to 2^24 elements.

    Where torch rounds eps to 0 what is exactly zero counts all the same.
    """
    if tensor.numel() == 0:
        return math.nan
    if tensor.dtype == torch.bool:  # torch has no abs of it
        below = ~tensor if 0 < eps <= 1 else torch.full_like(tensor, eps > 1)
    elif tensor.dtype.is_floating_point:
        # torch rounds eps to the dtype; not to eight bits, which have no operators.
        wide = tensor.double()
        below = torch.abs(tensor) < eps if tensor.dtype not in EIGHT_BITS else torch.abs(wide) < eps
        if eps > 0:
            below |= wide == 0
    else:
        below = torch.abs(tensor) < eps
        if tensor.dtype.is_signed:  # torch's abs of the most negative integer is itself, below every eps
            below &= tensor != torch.iinfo(tensor.dtype).min
    return below.sum().item() / tensor.numel()


def same(found: float, expected: float, tolerance: float = 0.0) -> bool:
    if math.isnan(expected) or math.isinf(expected):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return abs(found - expected) <= tolerance


def wrong_extremes(found: Measured, tensor: torch.Tensor) -> list[str]:
    """min, max, counts: exact."""
    low, high = extreme(tensor, torch.min), extreme(tensor, torch.max)
    checks = {
        "numel": found.numel == tensor.numel(),
        "min": same(found.min, float(low)),
        "max": same(found.max, float(high)),
        "abs_max": same(found.abs_max, largest_magnitude(tensor)),
        "nans": found.nans == torch.isnan(readable(tensor)).sum().item(),
        "infs": found.infs == torch.isinf(readable(tensor)).sum().item(),
    }
    if not tensor.dtype.is_floating_point and tensor.numel():
        checks["min_int, max_int"] = (found.integral, found.min_int, found.max_int) == (1, int(low), int(high))
    return [name for name, right in checks.items() if not right]


def wrong_sums(found: Measured, tensor: torch.Tensor) -> list[str]:
    """Norm, mean and standard deviation against double precision."""
    wide = tensor.to(torch.float64)
    squares = wide.square().sum().item()
    # Squares of doubles that overflow or vanish: here always, in torch not if there is one element.
    if wide.isfinite().all() and wide.any() and not 1e-280 < squares < 1e300:
        return []
    norm = torch.norm(wide, p=2).item()
    magnitude = wide.abs().mean().item()
    mean = torch.mean(wide).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer than two elements: NaN, with a warning
        variance = torch.var(wide).item()
    # torch's var adds one number after the other, and each addition is rounded.
    spread = (1e-12 + tensor.numel() * 2**-52) * squares / max(tensor.numel() - 1, 1)
    checks = {
        "norm": same(found.norm, norm, 1e-12 * norm),
        "mean": same(found.mean, mean, 1e-12 * magnitude),
        "std": same(found.std**2, variance, spread),
    }
    return [name for name, right in checks.items() if not right]


@many_examples
@given(tensor=tensors(), eps=st.sampled_from(THRESHOLDS))
def test_every_statistic_is_that_of_torch(library, tensor, eps):
    found = library.measure(tensor, eps)
    assert not wrong_extremes(found, tensor) + wrong_sums(found, tensor), (tensor.dtype, tensor.shape, tensor.stride())
    assert same(found.zeros, share_below(tensor, eps))


@many_examples
@given(tensor=tensors(FLOATS), eps=st.sampled_from(THRESHOLDS))
def test_with_exact_eps_zeros_are_below_eps_itself(library, tensor, eps):
    found = library.measure(tensor, eps, exact=True)
    assert same(found.zeros, share_below(tensor.to(torch.float64), eps))


@many_examples
@given(tensor=tensors(FLOATS + INTEGERS[:4]), shift=st.integers(1, 63))
def test_the_address_changes_nothing(library, tensor, shift):
    dense = tensor.contiguous()
    memory = ctypes.create_string_buffer(dense.nbytes + 64)
    start = ctypes.addressof(memory) + shift
    ctypes.memmove(start, dense.data_ptr(), dense.nbytes)
    assert bytes(library.measure(dense, data=start)) == bytes(library.measure(dense))


@many_examples
@given(first=tensors(), second=tensors())
def test_sign_agreement_is_that_of_torch_in_double_precision(library, first, second):
    second = second.reshape(-1)[: first.numel()]
    first = first if second.numel() == first.numel() else first.reshape(-1)[: second.numel()]
    second = second.view(first.shape)
    signs = [torch.sign(t.to(torch.float64)).nan_to_num(0.0) for t in (first, second)]
    products = (signs[0] * signs[1]).sum().item()
    expected = (products / first.numel() + 1) / 2 if first.numel() else 1.0
    assert library.sign_agreement(first, second) == expected
