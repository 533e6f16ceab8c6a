"""Cost of the wrappers that measure `communication_seconds`, for jobs of several ranks.

    ./run bench collectives [--rounds N]

The wrappers are put on in the first collected step of a plan and stay until its end. In other steps each call of an
operator of torch.distributed, and each wait, checks a flag. CPU time of one thread; medians, and quartiles over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import torch.distributed as dist

import torch
from stepwatch.reporting.inner_parts import InnerParts

STEP_US = 10_000.0
CALLS = 1000


def microseconds(work: Callable[[], object], count: int) -> float:
    """Return the CPU time of one call."""
    begin = time.thread_time_ns()
    for _ in range(count):
        work()
    return (time.thread_time_ns() - begin) / count / 1000


def show(what: str, times: list[float]) -> None:
    """Print the median of the rounds but the first."""
    lower, median, upper = statistics.quantiles(times[1:], n=4)
    print(f"{what:56} {median:7.2f} us [{lower:.2f}, {upper:.2f}], {100 * median / STEP_US:.4f} % of a step of 10 ms")


def operator(tensor: torch.Tensor) -> None:
    """Stand in for an operator that takes no time."""


def measure(rounds: int) -> None:
    """Print the figures."""
    parts = InnerParts(None, lambda what, work: work(), ranks=2)  # type: ignore[arg-type]
    parts._wrap_operators()
    tap = parts._tap
    assert tap is not None
    value = torch.ones(4)
    wrapped = tap._wrap(tap.operators.index("all_reduce"), operator)
    on_and_off, added, alone = [], [], []

    def calls(function: Callable[[torch.Tensor], None]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                function(value)

        return run

    def put_on_and_off() -> None:
        tap.install()
        tap.remove()

    for _ in range(rounds + 1):
        tap.install()
        added.append((microseconds(calls(wrapped), 5) - microseconds(calls(operator), 5)) / CALLS)
        tap.remove()
        on_and_off.append(microseconds(put_on_and_off, 100))
        alone.append(microseconds(lambda: dist.all_reduce(value), 300))
    show("wrappers on and off, once a plan", on_and_off)
    show("added to a call in a step that is not collected", added)
    show("all_reduce of 4 numbers by one rank, for comparison", alone)


def main() -> None:
    """Measure in a process group of one rank."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        dist.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=0, world_size=1)
        measure(rounds)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
