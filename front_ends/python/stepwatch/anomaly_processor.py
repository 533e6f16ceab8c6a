"""The public name of `stepwatch.offline.anomaly_processor`: both names are the same module, also for ``python -m``."""

import sys

from stepwatch.offline import anomaly_processor

if __name__ == "__main__":
    sys.exit(anomaly_processor._run_as_command())
else:
    sys.modules[__name__] = anomaly_processor
