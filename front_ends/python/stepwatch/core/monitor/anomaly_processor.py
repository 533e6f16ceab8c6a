"""`stepwatch.anomaly_processor`, under the name of its module in msProbe; both names are the same module."""

import sys

from stepwatch import anomaly_processor

if __name__ == "__main__":
    sys.exit(anomaly_processor._run_as_command())
else:
    sys.modules[__name__] = anomaly_processor
