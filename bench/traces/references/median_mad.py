"""A simple detector: medians and median absolute deviations of the last steps, and events as they arrive.

It has neither phases nor hysteresis nor causes. It serves as a lower bound of the delay, since it never waits.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from references.replaying import Rules, main, number  # noqa: E402

WINDOW_STEPS = 50
WARM_UP_STEPS = 20
DEVIATIONS = 6.0
SILENCE_SECONDS_MIN = 120.0


class Series:
    """The last values of a number, and the deviation of a new one."""

    def __init__(self) -> None:
        self.values: deque[float] = deque(maxlen=WINDOW_STEPS)

    def deviation(self, value: float) -> float:
        """Return the robust standard deviations of a value above the median; 0 while there are too few values."""
        if len(self.values) < WARM_UP_STEPS:
            return 0.0
        middle = statistics.median(self.values)
        mad = statistics.median(abs(v - middle) for v in self.values) * 1.4826
        return (value - middle) / max(mad, 0.01 * abs(middle), 1e-12)

    @property
    def median(self) -> float:
        """Return the median of the stored values."""
        return statistics.median(self.values) if self.values else math.nan


class MedianMad(Rules):
    """Detector for any number of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.step: dict[str, int] = {}
        self.step_at: dict[str, float] = {}
        self.taken: dict[tuple[str, str], int] = {}
        self.ended: set[str] = set()
        self.series: dict[tuple[str, str], Series] = defaultdict(Series)
        self.own: dict[str, dict[int, float]] = defaultdict(dict)
        self.slow_for: dict[tuple[str, str], int] = defaultdict(int)
        self.gauges: dict[tuple[str, str, str], float] = {}
        self.saved_at: dict[str, float] = {}

    def line(self, run: str, rank: int | None, beat: dict[str, Any] | None, event: dict[str, Any] | None) -> None:
        """Process a beat or an event."""
        if beat is not None:
            self._beat(run, rank or 0, beat)
        elif event is not None:
            self._event(run, rank, event)

    def _beat(self, run: str, rank: int, beat: dict[str, Any]) -> None:
        step = int(beat["step"])
        own = number(beat.get("step_seconds"))
        if own is not None:
            self.own[run][rank] = own
        for name in ("loss", "grad_norm"):
            value = number(beat.get(name))
            if value is not None and step > self.taken.get((run, name), -1):
                self.taken[run, name] = step
                self._value(run, rank, step, name, value)
            elif value is not None and not math.isfinite(value):
                self.open(run, "loss_nonfinite" if name == "loss" else "grad_nonfinite", [rank], step - 1)
        if step <= self.step.get(run, -1):
            return
        self._interval(run, step)
        self.resolve(run, "stuck")
        self.step[run], self.step_at[run] = step, self.now
        self._straggler(run, step)

    def _value(self, run: str, rank: int, step: int, name: str, value: float) -> None:
        short = "loss" if name == "loss" else "grad"
        if not math.isfinite(value):
            self.open(run, f"{short}_nonfinite", [rank], step - 1)
            return
        self.resolve(run, f"{short}_nonfinite")
        series = self.series[run, name]
        kind = "loss_spike" if name == "loss" else "grad_explosion"
        if series.deviation(value) > DEVIATIONS:
            self.open(run, kind, [], step - 1)
        else:
            self.resolve(run, kind)
        if name == "grad_norm" and value < 1e-3 * series.median:
            self.open(run, "grad_collapse", [], step - 1)
        elif name == "grad_norm":
            self.resolve(run, "grad_collapse")
        series.values.append(value)

    def _interval(self, run: str, step: int) -> None:
        if run not in self.step:
            return
        interval = (self.now - self.step_at[run]) / (step - self.step[run])
        series = self.series[run, "interval"]
        slow = series.deviation(interval) > DEVIATIONS and interval > 1.25 * series.median
        self.slow_for[run, "all"] = self.slow_for[run, "all"] + 1 if slow else 0
        if self.slow_for[run, "all"] >= 10:
            self.open(run, "throughput_drop", [], step - 10)
        elif not slow:
            self.resolve(run, "throughput_drop")
        if not slow:
            series.values.append(interval)

    def _straggler(self, run: str, step: int) -> None:
        own = self.own[run]
        if len(own) < 2:
            return
        slowest = max(own, key=lambda rank: own[rank])
        middle = statistics.median(own.values())
        mad = statistics.median(abs(v - middle) for v in own.values()) * 1.4826
        slow = own[slowest] > 1.25 * middle and own[slowest] > middle + DEVIATIONS * mad
        self.slow_for[run, "rank"] = self.slow_for[run, "rank"] + 1 if slow else 0
        if self.slow_for[run, "rank"] >= 10:
            self.open(run, "straggler", [slowest], step - 10)
        elif not slow:
            self.resolve(run, "straggler")

    def _event(self, run: str, rank: int | None, event: dict[str, Any]) -> None:
        ranks, step, kind = ([] if rank is None else [rank]), self.step.get(run, 0), event["kind"]
        if kind in ("start", "restart"):
            self.ended.discard(run)
            for known in ("process_lost", "exception", "out_of_memory", "gpu_fault", "stuck"):
                self.resolve(run, known)
            self.step.pop(run, None)
            for name in ("loss", "grad_norm"):
                self.taken.pop((run, name), None)
            self.step_at[run] = self.now
        elif kind == "end":
            self.ended.add(run)
        elif kind == "exception":
            self.open(run, "exception", ranks, step)
        elif kind == "process_gone" and run not in self.ended:
            self.open(run, "process_lost", ranks, step)
        elif kind == "gpu" and event.get("field") in ("xid", "ecc_uncorrected_total", "row_remap_failure"):
            if self._rose(run, f"{event.get('uuid')}", event["field"], number(event.get("value"))):
                self.open(run, "gpu_fault", ranks, step)
        elif kind == "host" and self._rose(run, str(event.get("host", "")), "oom_kill", number(event.get("oom_kill"))):
            self.open(run, "out_of_memory", ranks, step)
        elif kind == "checkpoint":
            if run in self.saved_at:
                self.series[run, "saves"].values.append(self.now - self.saved_at[run])
            self.saved_at[run] = self.now
            self.resolve(run, "checkpoint_overdue")

    def _rose(self, run: str, source: str, field: str, value: float | None) -> bool:
        if value is None:
            return False
        before = self.gauges.get((run, source, field), value)
        self.gauges[run, source, field] = value
        return value > before

    def tick(self) -> None:
        """Check for runs without progress, and for missing checkpoints."""
        for run, at in self.step_at.items():
            if run in self.ended:
                continue
            usual = self.series[run, "interval"].median
            limit = SILENCE_SECONDS_MIN if math.isnan(usual) else max(SILENCE_SECONDS_MIN, 10 * usual)
            if self.now - at > limit:
                self.open(run, "stuck", [], self.step.get(run, 0))
            saves = self.series[run, "saves"]
            if len(saves.values) >= 3 and self.now - self.saved_at[run] > 3 * saves.median:
                self.open(run, "checkpoint_overdue", [], self.step.get(run, 0))


if __name__ == "__main__":
    main(MedianMad, __doc__)
