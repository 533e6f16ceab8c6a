"""Numbers of the CUDA allocator of this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

# At most one reading in this time. A reading takes the lock of the allocator and no part of the device.
_SECONDS_BETWEEN = 1.0


class AllocatorNumbers:
    """Reads the numbers of the device that a model is on, at most once a second; never waits for the device.

    Parameters
    ----------
    report : callable
        Called with a list of (name, number).
    clock : callable, optional
        Returns seconds.

    Attributes
    ----------
    device : torch.device or None
        None: the model is not on a CUDA device, and `look` has no effect.
    """

    def __init__(
        self, report: Callable[[list[tuple[str, float]]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.device: Any = None
        self._report = report
        self._clock = clock
        self._due = clock()

    def look(self) -> None:
        """Report the numbers if it is time to."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _SECONDS_BETWEEN
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        try:
            stats = cuda.memory_stats_as_nested_dict(self.device)  # type: ignore[union-attr]
            numbers = [
                ("cuda_allocated_bytes", float(stats["allocated_bytes"]["all"]["current"])),
                ("cuda_reserved_bytes", float(stats["reserved_bytes"]["all"]["current"])),
                ("cuda_alloc_retries", float(stats["num_alloc_retries"])),
                ("cuda_ooms", float(stats["num_ooms"])),
            ]
        except Exception:  # an allocator without these numbers, or CUDA is not initialised
            return
        self._report(numbers)


def cuda_device_of(tensors: Any) -> Any:
    """Return the CUDA device of the first tensor that is on one; None if none is."""
    return next((each.device for each in tensors if each.device.type == "cuda"), None)
