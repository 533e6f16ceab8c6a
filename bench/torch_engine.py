"""Compare torch's operators for norm, min and max, as used for devices, with two stock calls for the same numbers.

    ./run bench devices [--rounds N] [--device DEVICE]

Stepwatch's side is the whole cost of a batch of tensors on the trainer's thread and on the device: the operators, the
gathering of the numbers, and the copy to the host. The other side is `torch._foreach_norm` and an `aminmax` for each
tensor, whose numbers stay on the device. Ratios within one run, the two sides in turns; medians, and quartiles over
rounds. CPU memory is measured on one thread, by its CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

TARGET = 1.5


class Pages:
    """Replaces the extension: accepts pages without reading them."""

    def __init__(self) -> None:
        self._finished: list[torch.Tensor] = []

    def publish(self, page: torch.Tensor, count: int, source: torch.Tensor, sections: Any) -> None:
        """Accept a page, and make it available at once."""
        self._finished.append(page)

    def take_finished(self) -> list[torch.Tensor]:
        """Return the accepted pages."""
        finished, self._finished = self._finished, []
        return finished

    def note(self, text: str) -> None:
        """Ignore the text."""


def batches(device: str) -> dict[str, list[torch.Tensor]]:
    """Make the tensors: many small ones, some of medium size, few large ones, and the weights of a small GPT."""
    generator = torch.Generator().manual_seed(1)

    def made(*sizes: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        return [(torch.randn(size, generator=generator) * 0.02).to(dtype).to(device) for size in sizes]

    layer = [768 * 2304, 2304, 768 * 768, 768, 768 * 3072, 3072, 3072 * 768, 768, 768, 768, 768, 768]
    return {
        "1000 of 4,096": made(*[4096] * 1000),
        "1000 of different small sizes": made(*range(2000, 3000)),
        "100 of 262,144": made(*[1 << 18] * 100),
        "4 of 16,777,216": made(*[1 << 24] * 4),
        "4 of 16,777,216, bfloat16": made(*[1 << 24] * 4, dtype=torch.bfloat16),
        "GPT of 6 layers": made(*layer * 6, 50257 * 768 // 8),
    }


def settled(device: str) -> None:
    """Wait until the device has finished all queued work."""
    if device != "cpu":
        getattr(torch, torch.device(device).type).synchronize()


def seconds(action: Callable[[], object], device: str) -> float:
    """Return the time of a call including the device's work; for CPU memory the thread's CPU time."""
    clock = time.thread_time if device == "cpu" else time.perf_counter
    settled(device)
    began = clock()
    action()
    settled(device)
    return clock() - began


def compare(tensors: list[torch.Tensor], device: str, rounds: int) -> tuple[list[float], float, float]:
    """Return the ratio of each round, and the median milliseconds of both sides."""
    from stepwatch.devices import Engine
    from stepwatch.devices.operators import MAX, MIN, NORM

    engine = Engine(Pages())
    columns, tickets = [NORM | MIN | MAX] * len(tensors), list(range(len(tensors)))

    def ours() -> None:
        engine.measure(tensors, columns, tickets, 1e-8, 0)
        engine.flush()

    def theirs() -> list[Any]:
        with torch.no_grad():
            return [torch._foreach_norm(tensors), [torch.aminmax(tensor) for tensor in tensors]]

    for _ in range(3):
        ours()
        theirs()
    times = [(seconds(ours, device), seconds(theirs, device)) for _ in range(rounds)]
    ratios = [mine / other for mine, other in times]
    return ratios, *(statistics.median(side) * 1e3 for side in zip(*times))


def main() -> None:
    """Print a line for each batch; exit code 1 if one of them misses the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    missed = []
    print(f"norm, min and max on {options.device}, over _foreach_norm and aminmax: at most {TARGET}")
    for name, tensors in batches(options.device).items():
        ratios, ours, theirs = compare(tensors, options.device, options.rounds)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:32} {middle:5.2f} [{low:.2f}, {high:.2f}]   {ours:8.2f} ms of {theirs:8.2f} ms")
        missed += [name] if middle > TARGET else []
    if missed:
        raise SystemExit(f"torch_engine: missed by {', '.join(missed)}")


if __name__ == "__main__":
    main()
