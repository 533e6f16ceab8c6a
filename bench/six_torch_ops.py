"""Compare six separate torch operations, called as in a Python monitor, with one call for all statistics.

    python bench/six_torch_ops.py [--rounds N] [--json FILE]

One thread. Each round times both sides in turn, by the processor time of the thread, and gives a ratio. The C library
keeps freed memory, as a caching allocator would: otherwise page faults of temporaries would dominate the operations.
The ratios are added to FILE, if it exists.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/front_ends/python"))
from measure_library import PATH, Batch, MeasureLibrary  # noqa: E402

EPS = 1e-8
SIX_OPERATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "min": lambda t: torch.min(t),
    "max": lambda t: torch.max(t),
    "mean": lambda t: torch.mean(t.to(torch.float64)),
    "norm": lambda t: torch.norm(t.to(torch.float64), p=2),
    "zeros": lambda t: torch.sum(torch.abs(t) < EPS) / t.numel(),
    "nans": lambda t: torch.isnan(t).sum(),
}


def small_shapes() -> list[tuple[int, ...]]:
    """Return 600 sizes of 4 K to 64 K elements, evenly spaced on a log scale: gradients of a small model."""
    draw = random.Random(1)
    return [(4 * round(1024 * math.exp(draw.uniform(0, math.log(16)))),) for _ in range(600)]


def big_shapes() -> list[tuple[int, ...]]:
    """Return one flat buffer of 16 M elements."""
    return [(1 << 24,)]


def llama_shapes(width: int = 320, hidden: int = 880, keys: int = 80, vocabulary: int = 21248) -> list[tuple[int, ...]]:
    """Return the 300 weights of a Llama-like model with grouped keys: 33 layers, 50 M elements."""
    attention = [(width, width), (keys, width), (keys, width), (width, width)]
    layer = [*attention, (hidden, width), (hidden, width), (width, hidden), (width,), (width,)]
    return [(vocabulary, width), *layer * 33, (width,), (vocabulary, width)]


SETS = {"small": small_shapes, "big": big_shapes, "llama": llama_shapes}
DTYPES = {"": torch.float32, "_bf16": torch.bfloat16}


def keep_memory() -> None:
    """Disable mmap for large blocks and the trimming of freed memory (glibc)."""
    trim_threshold, mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


def six_operations(tensors: list[torch.Tensor]) -> None:
    """Call all six operations for each tensor."""
    for tensor in tensors:
        for operation in SIX_OPERATIONS.values():
            operation(tensor)


def check(tensors: list[torch.Tensor], batch: Batch) -> None:
    """Check that both sides return the same numbers; otherwise the comparison is invalid."""
    for i, tensor in enumerate(tensors):
        six = {name: operation(tensor).item() for name, operation in SIX_OPERATIONS.items()}
        ours = batch[i]
        same = (ours.min, ours.max, ours.nans) == (six["min"], six["max"], six["nans"])
        close = (
            math.isclose(ours.norm, six["norm"], rel_tol=1e-12) and abs(ours.mean - six["mean"]) <= 1e-12 * ours.norm
        )
        if not (same and close and abs(ours.zeros - six["zeros"]) < 1e-6):
            sys.exit(f"six_torch_ops: torch gives other numbers for tensor {i}")


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.thread_time()
    action()
    return time.thread_time() - began


def compare(tensors: list[torch.Tensor], library: MeasureLibrary, rounds: int) -> tuple[list[float], float, float]:
    """Return the ratio of each round, and the median milliseconds of torch and of Stepwatch."""
    batch = library.batch(tensors)
    batch.measure()
    check(tensors, batch)
    torch_times, our_times = [], []
    for _ in range(rounds):
        torch_times.append(seconds(lambda: six_operations(tensors)))
        # Repeats until the clock can measure it, in each round.
        our_times.append(min(seconds(batch.measure) for _ in range(3)))
    ratios = [a / b for a, b in zip(torch_times, our_times)]
    return ratios, statistics.median(torch_times) * 1e3, statistics.median(our_times) * 1e3


def main() -> None:
    """Compare set by set, and print and add the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options, _ = parser.parse_known_args()
    if not PATH.exists():
        sys.exit(f"six_torch_ops: {PATH} is not built")
    keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    library = MeasureLibrary()
    found = []
    for suffix, dtype in DTYPES.items():
        target = 40 if suffix else 20
        print(f"\nsix torch operations called from Python over all our statistics, one thread, {suffix[1:] or 'fp32'}")
        lowest: dict[str, object] = {}
        for name, shapes in SETS.items():
            tensors = [torch.randn(shape).to(dtype) for shape in shapes()]
            ratios, torch_ms, our_ms = compare(tensors, library, options.rounds)
            low, median, high = statistics.quantiles(ratios, n=4)
            print(
                f"  {name:8}{median:7.1f}x  [{low:.1f}, {high:.1f}]  at least {target}x"
                f"   {torch_ms:.1f} ms over {our_ms:.2f} ms",
                flush=True,
            )
            entry = {"name": f"six_torch_ops_from_python_{name}{suffix}", "ratio": median, "spread": [low, high]}
            found.append(entry)
            if not lowest or median < lowest["ratio"]:
                lowest = {**entry, "name": f"six_torch_ops_over_ours{suffix}"}
        found.append(lowest)
    if options.json:
        report = json.loads(options.json.read_text()) if options.json.exists() else {"ratios": []}
        report["ratios"] += found
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
