"""The monitor for MindSpore in PyNative mode. Importable without MindSpore, which TrainerMon needs."""

from stepwatch.mindspore.trainer_mon import TrainerMon

__all__ = ["TrainerMon"]
