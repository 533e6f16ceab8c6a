"""Statistics of tensors that no native engine reads: torch's operators compute them where the tensors are.

The extension hands such tensors to `Engine` and finds their numbers in pages of host memory.
"""

from stepwatch.devices.engine import Engine

__all__ = ["Engine"]
