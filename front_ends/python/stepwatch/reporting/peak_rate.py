"""The peak rate of the device, the basis of the utilization of a model's FLOPs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from stepwatch import _core

# The number is repeated for readers that begin later.
_SECONDS_BETWEEN = 60.0


class PeakRate:
    """Adds the peak of this rank's device to reports of FLOPs, once a minute.

    Parameters
    ----------
    given : float, optional
        FLOP/s from the user; None: found by the name of the device, for bfloat16, else for float16.
    device : callable
        Returns the CUDA device of the model, or None.
    clock : callable, optional
        Returns seconds.
    """

    def __init__(
        self, given: float | None, device: Callable[[], Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._given = given
        self._device = device
        self._clock = clock
        self._due = clock()

    def numbers(self) -> list[tuple[str, float]]:
        """Return the number to report beside FLOPs now; empty if it is not due, or unknown."""
        now = self._clock()
        if now < self._due:
            return []
        self._due = now + _SECONDS_BETWEEN
        peak = self._given if self._given is not None else self._of_device()
        return [] if peak is None else [("peak_flops", float(peak))]

    def _of_device(self) -> float | None:
        device = self._device()
        if device is None:
            return None
        bfloat16, float16 = _core.peak_flops(sys.modules["torch"].cuda.get_device_name(device))
        return bfloat16 or float16
