"""Checks that Stepwatch measures correctly on a device of this machine: ``python -m stepwatch.doctor --device npu``.

It prints one line for each check and a verdict. Exit code 0: all checks passed; 1: one failed; 2: the device cannot be
used, so nothing was checked. It trains a model of some hundred parameters for three steps, in a temporary directory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

# The package that teaches torch a device, where torch itself does not have it.
_PACKAGES = {"npu": "torch_npu", "hpu": "habana_frameworks.torch", "musa": "torch_musa"}
_DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "bool")
_KINDS = ("actv", "grad_reduced", "param_origin", "param_updated", "exp_avg", "exp_avg_sq")
_OPS = ("norm", "mean", "min", "max", "nans", "infs")
_EPS = 1e-8  # the default of the config
_STEPS = 3
_SECONDS = 60.0  # for values that are still being copied
# Sums in float32, for devices without float64.
_TOLERANCE = 1e-4
_SHOWN = 3  # problems of one check


class Check(NamedTuple):
    """The result of one check; without problems it has passed."""

    what: str
    problems: list[str]


class DeviceMissingError(Exception):
    """The device cannot be used on this machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks, print them and the verdict, and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        None: those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m stepwatch.doctor", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help='a device of torch, such as "npu", "cuda:1" or "cpu"')
    name = parser.parse_args(arguments).device
    failed = total = 0
    try:
        for check in checks(name):
            total += 1
            failed += bool(check.problems)
            print(f"{'FAILED' if check.problems else 'ok    '} {check.what}", flush=True)
            for problem in check.problems[:_SHOWN]:
                print(f"         {problem}")
            if len(check.problems) > _SHOWN:
                print(f"         and {len(check.problems) - _SHOWN} more")
    except DeviceMissingError as error:
        print(f"verdict: not checked; {error}")
        return 2
    if failed:
        print(f"verdict: {failed} of {total} checks failed on {name}; please report the lines above")
        return 1
    print(f"verdict: Stepwatch works on {name}: all {total} checks passed")
    return 0


def checks(name: str) -> Iterator[Check]:
    """Yield the result of each check of a device.

    Parameters
    ----------
    name : str
        As torch names it.

    Raises
    ------
    DeviceMissingError
        The device cannot be used.
    """
    kind = name.partition(":")[0]
    torch, package = _packages_of(kind)
    place = _place(name)
    versions = f"torch {torch.__version__}" + (f", {package.__name__} {package.__version__}" if package else "")
    yield Check(versions, [])
    yield Check(f"device {place}", [] if place.type == kind else [f"torch calls it {place.type!r}, not {kind!r}"])
    for dtype in _DTYPES:
        yield from _check_operators(place, getattr(torch, dtype))
    yield from _check_training(place)


def _packages_of(kind: str) -> tuple[Any, Any]:
    """Import torch and the package of the device, None if it needs none."""
    package = _PACKAGES.get(kind)
    try:
        # Torch loads such a package itself, and cannot be imported where the driver below it is missing.
        return importlib.import_module("torch"), importlib.import_module(package) if package else None
    except Exception as error:  # a missing driver raises any type
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        what = f"torch and {package}, which teaches it the device {kind}," if package else "torch"
        raise DeviceMissingError(f"{what} cannot be imported: {_text_of(cause)}") from error


def _place(name: str) -> torch.device:
    import torch

    try:
        return torch.ones(2, device=name).mul(2).device
    except Exception as error:  # devices raise any type
        raise DeviceMissingError(
            f"torch cannot use the device {name}: {_text_of(error)}; run this on a machine that has one"
        ) from error


def _text_of(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


# --- the operators that measure one tensor, and several together ---


def _check_operators(place: torch.device, dtype: torch.dtype) -> Iterator[Check]:
    import torch
    from stepwatch.devices.operators import COLUMNS, Operators
    from stepwatch.devices.zeros import threshold

    tensors = _samples(dtype)
    try:
        moved = [tensor.to(place) for tensor in tensors]
    except Exception:  # devices raise any type
        yield Check(f"{_name_of(dtype)}: the device has no tensors of this dtype, so there is nothing to measure", [])
        return
    lacking: list[str] = []
    operators = Operators(moved[0], lambda what, of, why: lacking.append(f"no operator for {what}: {_text_of(why)}"))
    numbers: dict[tuple[int, int], Any] = {}
    columns, below = sum(COLUMNS[:-1]), threshold(dtype, _EPS, is_exact=False)
    try:
        for some in ([0], list(range(len(moved)))):
            for places, found in operators.measure([moved[i] for i in some], columns, below):
                for column, values in enumerate(found):
                    for i, at in enumerate(places):
                        if values is not None:
                            numbers[some[at], column] = torch.as_tensor(values[i]).cpu().item()
    except Exception as error:  # devices raise any type
        lacking.append(_text_of(error))
    problems = lacking + [
        f"{what} of tensor {i}: {numbers[i, column]} on the device, {expected} in CPU memory"
        for i, tensor in enumerate(tensors)
        for column, (what, expected) in enumerate(_expected_columns(tensor).items())
        if (i, column) in numbers and not _equal(numbers[i, column], expected)
    ]
    sums = "" if operators.wide == torch.float64 else ", sums in float32"
    yield Check(f"{_name_of(dtype)}: norm, mean, min, max, zeros, nans, infs{sums}", problems)


def _samples(dtype: torch.dtype) -> list[torch.Tensor]:
    import torch

    generator = torch.Generator().manual_seed(1)
    found = [torch.randn(6, 5, generator=generator).mul(8) for _ in range(6)]
    for values in found:
        values[0, 0] = 0.0
    if dtype.is_floating_point:
        found[1][2, 3], found[2][1, 1], found[2][1, 2] = math.nan, math.inf, -math.inf
    elif dtype in (torch.uint8, torch.bool):
        found = [values.abs() for values in found]
    return [values.to(dtype) for values in found]


def _expected_columns(tensor: torch.Tensor) -> dict[str, float]:
    wide = tensor.double()
    return {
        "norm": wide.norm().item(),
        "sum": wide.sum().item(),
        "min": wide.min().item(),
        "max": wide.max().item(),
        "zeros": float((wide == 0).sum().item()),
        "nans": float(wide.isnan().sum().item()),
        "infs": float(wide.isinf().sum().item()),
    }


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).partition(".")[2]


def _equal(found: float, expected: float) -> bool:
    if math.isnan(found) or math.isnan(expected):
        return math.isnan(found) and math.isnan(expected)
    return math.isclose(found, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * 1e-2)


# --- a training with a monitor, whose rows are compared with the tensors themselves ---


def _check_training(place: torch.device) -> Iterator[Check]:
    try:
        plain, again = _train(place), _train(place)
        with tempfile.TemporaryDirectory() as directory:
            expected: dict[tuple[str, str], torch.Tensor] = {}
            losses, found = _train_watched(place, directory, expected)
    except Exception as error:  # devices raise any type
        yield Check("training with a monitor", [_text_of(error)])
        return
    problems = [f"no row of {kind} for {name}" for kind, name in expected if (kind, name) not in found]
    for key, tensor in expected.items():
        for op, value in _expected_row(tensor).items():
            if key in found and not _equal(float(found[key][op]), value):
                problems.append(f"{key[0]} of {key[1]}: {op} {found[key][op]} in the row, {value} in the tensor")
    yield Check(f"training: {len(expected)} rows of {', '.join(_KINDS)}", problems)
    if plain != again:
        yield Check("training: the device computes other losses in each run, so that they cannot be compared", [])
    else:
        what = "training: the same losses with and without the monitor"
        yield Check(what, [] if losses == plain else [f"{losses} with it, {plain} without it"])


def _train(
    place: torch.device, before_step: Callable[[Any, Any], None] = lambda *_: None, watch: Any = None
) -> list[float]:
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
    ).to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    monitor = None if watch is None else watch(model, optimizer)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for _ in range(_STEPS):
        loss = model(torch.randn(5, 4, generator=generator).to(place)).pow(2).mean()
        loss.backward()
        before_step(model, optimizer)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if monitor is not None:
        monitor(model)
    return losses


def _train_watched(
    place: torch.device, directory: str, expected: dict[tuple[str, str], torch.Tensor]
) -> tuple[list[float], dict[tuple[str, str], dict[str, Any]]]:
    """Train with a monitor; return the losses and the rows of the last step, and add that step's tensors."""
    from stepwatch.watch import Watch

    path = os.path.join(directory, "config.json")
    config = {
        **dict.fromkeys(("xy_distribution", "wg_distribution", "param_distribution", "mv_distribution"), True),
        "ops": list(_OPS),
        "format": "api",
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def keep(kind: str, name: str, tensor: torch.Tensor) -> None:
        expected[kind, name] = tensor.detach().cpu().double()

    def before_step(model: Any, optimizer: Any) -> None:
        for name, parameter in model.named_parameters():
            keep("grad_reduced", name, parameter.grad)
            keep("param_origin", name, parameter)
            for moment in ("exp_avg", "exp_avg_sq"):
                if moment in optimizer.state.get(parameter, {}):
                    keep(moment, name, optimizer.state[parameter][moment])

    def begin(model: Any, optimizer: Any) -> Callable[[Any], None]:
        for name, module in model.named_children():
            module.register_forward_hook(lambda _, __, out, name=name: keep("actv", f"{name}.output", out))
        monitor = Watch(path, dynamic=False, output_dir=directory, keep_latest=True, beside=True)
        monitor.attach(model, optimizer)

        def end(model: Any) -> None:
            for name, parameter in model.named_parameters():
                keep("param_updated", name, parameter)
            for kind in _KINDS:
                for _, name, _, values in monitor.latest(kind, _SECONDS):
                    found[kind, name] = values
            monitor.close()

        return end

    return _train(place, before_step, begin), found


def _expected_row(tensor: torch.Tensor) -> dict[str, float]:
    columns = _expected_columns(tensor)
    return {**{op: columns[op] for op in _OPS if op != "mean"}, "mean": columns["sum"] / tensor.numel()}


if __name__ == "__main__":
    os.environ.setdefault("MSPROBE_LOG_LEVEL", "2")  # only warnings of the monitor
    sys.exit(main())
