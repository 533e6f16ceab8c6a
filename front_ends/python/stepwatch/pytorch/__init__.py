"""TrainerMon at its place in msProbe's package."""

from stepwatch.trainer_mon import TrainerMon

__all__ = ["TrainerMon"]
