"""`stepwatch.anomaly_processor`, under the name of its module in msProbe."""

from stepwatch.anomaly_processor import (
    AnomalyAnalyse,
    AnomalyDataFactory,
    AnomalyDataLoader,
    AnomalyDataWriter,
    AnomalyNan,
    AnomalyScanner,
    AnomalyTurbulence,
    GradAnomalyData,
    ScanRule,
    _anomaly_analyse,
)

__all__ = [
    "AnomalyAnalyse",
    "AnomalyDataFactory",
    "AnomalyDataLoader",
    "AnomalyDataWriter",
    "AnomalyNan",
    "AnomalyScanner",
    "AnomalyTurbulence",
    "GradAnomalyData",
    "ScanRule",
]

if __name__ == "__main__":
    _anomaly_analyse()
