"""Statistics of tensors that no native engine reads: torch's operators compute them on the device of the tensor.

The extension passes such tensors to `Engine` and reads their numbers from pages of host memory.
"""

from stepwatch.devices.engine import Engine

__all__ = ["Engine"]
