"""Stepwatch sees inside a PyTorch training job while it runs, steered by edits of one config file."""

from __future__ import annotations

from stepwatch._core import __version__
from stepwatch.trainer_mon import TrainerMon
from stepwatch.watch import Watch, watch

__all__ = ["TrainerMon", "Watch", "__version__", "watch"]
