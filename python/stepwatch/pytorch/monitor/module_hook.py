"""TrainerMon, under the name of its module in msProbe."""

from stepwatch.trainer_mon import TrainerMon

__all__ = ["TrainerMon"]
