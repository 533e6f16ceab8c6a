"""The public name of `stepwatch.offline.csv2tb`; both names are the same module."""

import sys

from stepwatch.offline import csv2tb

sys.modules[__name__] = csv2tb
