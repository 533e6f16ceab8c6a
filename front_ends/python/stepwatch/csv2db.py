"""The public name of `stepwatch.offline.csv2db`; both names are the same module."""

import sys

from stepwatch.offline import csv2db

sys.modules[__name__] = csv2db
