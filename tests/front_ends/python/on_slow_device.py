"""The beginning of each file of cases on a device of our own; without such devices its cases are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

try:
    import slow_device
except ImportError:  # a torch that lets nobody write a device in Python
    pytest.skip("this torch has no devices that are written in Python", allow_module_level=True)

__all__ = ["DEVICE", "forgotten", "slow_device"]

DEVICE = slow_device.device


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Leave nothing on the device of the case before; it holds in each file that imports it."""
    DEVICE.forget()
    yield
    DEVICE.forget()
