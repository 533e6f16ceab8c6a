"""The executor of PyNative mode."""

from .._tensor import executor as _pynative_executor

__all__ = ["_pynative_executor"]
