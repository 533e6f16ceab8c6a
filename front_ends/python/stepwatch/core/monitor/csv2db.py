"""`stepwatch.csv2db`, under the name of its module in msProbe; both names are the same module."""

import sys

from stepwatch import csv2db

sys.modules[__name__] = csv2db
