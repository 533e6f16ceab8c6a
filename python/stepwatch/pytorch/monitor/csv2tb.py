"""`stepwatch.csv2tb`, under the name of its module in msProbe."""

from stepwatch.csv2tb import csv2tensorboard_by_step

__all__ = ["csv2tensorboard_by_step"]
