"""Compare with torch on the GPU: six separate operations, and the one stock call that fuses a norm.

``six_torch_ops.py JSON`` reads the times written by ``gpu_bench --json``, measures torch on the same sets after a
warm-up in its fastest form, prints a table and adds the ratios to the file. Without a torch with GPU support it prints
a note and exits 0.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any, Callable

ROUNDS = 15


def six_operations(torch: Any, tensor: Any) -> list[Any]:
    """Return min, max, mean, norm, zeros and nans, computed by separate torch calls as in a simple monitor."""
    return [
        tensor.min(),
        tensor.max(),
        tensor.to(torch.float64).mean(),
        tensor.to(torch.float64).norm(),
        (tensor.abs() < 1e-8).sum() / tensor.numel(),
        tensor.isnan().sum(),
    ]


def median_seconds(torch: Any, work: Callable[[], Any]) -> tuple[float, float, float]:
    """Return the median, minimum and maximum time of `work`, including its completion on the device."""
    seconds = []
    for round_number in range(ROUNDS + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if round_number >= 2:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), min(seconds), max(seconds)


def main(path: str) -> int:
    """Measure, print, and add to the JSON at `path`."""
    try:
        import torch
    except ImportError:
        print("six_torch_ops: python3 has no torch; the comparison is left out")
        return 0
    if not torch.cuda.is_available():
        print("six_torch_ops: torch sees no GPU; the comparison is left out")
        return 0
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    large = torch.randn(1 << 29, device="cuda", dtype=torch.bfloat16)
    small = [torch.randn(4096, device="cuda") for _ in range(1000)]
    sets: list[tuple[str, str, float, Callable[[], Any]]] = [
        ("gpu_six_torch_ops_over_ours_1gb_bf16", "bf16_1024mb", 20, lambda: six_operations(torch, large)),
        (
            "gpu_six_torch_ops_over_ours_1000_small",
            "1000x4096_fp32",
            300,
            lambda: [six_operations(torch, t) for t in small],
        ),
        (
            "gpu_foreach_norm_over_ours_1000_small",
            "1000x4096_fp32",
            2,
            lambda: torch._foreach_norm(small, 2, dtype=torch.float64),
        ),
    ]
    for name, ours, target, work in sets:
        seconds = report["seconds"][ours]
        median, low, high = (t / seconds for t in median_seconds(torch, work))
        report["ratios"].append({"name": name, "ratio": median, "spread": [low, high]})
        print(f"{name:44} {median:8.1f} {low:8.1f}-{high:8.1f}  at least {target}")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
