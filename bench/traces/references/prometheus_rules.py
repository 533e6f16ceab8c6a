"""The alert rules of a typical Prometheus set-up, evaluated every 15 seconds on scrapes of gauges.

| rule | expression | for | reported as |
|---|---|---|---|
| GPUTemperatureHigh | gpu_temperature_celsius > 85 | 2m | gpu_fault |
| GPUUtilizationLow | gpu_utilization_percent < 10 | 10m | stuck |
| TrainingLossSpike | increase(training_loss[5m]) > 1.0 | 0m | loss_spike |
| TrainingThroughputDrop | (avg over 30m - avg over 5m) / avg over 30m > 20 % | 5m | throughput_drop |
| GradientExplosion | gradient_norm > 100 | 0m | grad_explosion |

The rules are read favourably: the loss has no label ``step`` (with it, every series would have one sample), the norm is
a gauge (the documented histogram has no series of this name), and throughput is tokens over the time between steps.
Rules on memory and disks have no samples in these traces.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from references.replaying import Rules, main, number  # noqa: E402

SCRAPE_SECONDS = 15.0
MINUTE = 60.0
Sample = tuple[float, float]


def increase(samples: Sequence[Sample], now: float, window: float) -> float | None:
    """Return Prometheus' ``increase`` of a series: each fall counts as a restarted counter."""
    inside = [sample for sample in samples if sample[0] >= now - window]
    if len(inside) < 2:
        return None
    total = inside[-1][1] - inside[0][1]
    for (_, before), (_, after) in zip(inside, inside[1:]):
        if after < before:
            total += before
    covered = inside[-1][0] - inside[0][0]
    apart = covered / (len(inside) - 1)
    to_begin, to_end = inside[0][0] - (now - window), now - inside[-1][0]
    if total > 0 and inside[0][1] >= 0:
        to_begin = min(to_begin, covered * inside[0][1] / total)
    reach = covered + sum(gap if gap < 1.1 * apart else apart / 2 for gap in (to_begin, to_end))
    return total * reach / covered


def average(samples: Sequence[Sample], now: float, window: float) -> float | None:
    """Return the mean of the samples of a window."""
    inside = [value for at, value in samples if at >= now - window]
    return sum(inside) / len(inside) if inside else None


class Target:
    """The exported gauges of one run, and their scraped samples."""

    def __init__(self) -> None:
        self.step = 0
        self.step_at = 0.0
        self.gauges: dict[str, float] = {}
        self.gpus: dict[tuple[str, str], tuple[float, int | None]] = {}
        self.loss: deque[Sample] = deque(maxlen=130)
        self.throughput: deque[Sample] = deque(maxlen=130)
        self.since: dict[str, float] = defaultdict(lambda: -1.0)


class PrometheusRules(Rules):
    """Rules for any number of runs."""

    tick_seconds = SCRAPE_SECONDS

    def __init__(self) -> None:
        super().__init__()
        self.targets: dict[str, Target] = defaultdict(Target)

    def line(self, run: str, rank: int | None, beat: dict[str, Any] | None, event: dict[str, Any] | None) -> None:
        """Set the gauges in a line."""
        target = self.targets[run]
        if beat is not None:
            self._beat(target, beat)
        elif event is not None and event["kind"] == "gpu":
            value = number(event.get("value"))
            if value is not None:
                target.gpus[str(event.get("uuid")), event["field"]] = (value, rank)

    def _beat(self, target: Target, beat: dict[str, Any]) -> None:
        for name in ("loss", "grad_norm"):
            value = number(beat.get(name))
            if value is not None:
                target.gauges[name] = value
        step = int(beat["step"])
        if step > target.step:
            if target.step_at:
                per_step = (self.now - target.step_at) / (step - target.step)
                target.gauges["throughput"] = (number(beat.get("tokens")) or 1.0) / max(per_step, 1e-6)
            target.step, target.step_at = step, self.now

    def tick(self) -> None:
        """Scrape each target and evaluate the rules."""
        for run, target in self.targets.items():
            for name, series in (("loss", target.loss), ("throughput", target.throughput)):
                if name in target.gauges:
                    series.append((self.now, target.gauges[name]))
            rise = increase(target.loss, self.now, 5 * MINUTE)
            self._alert(run, "loss_spike", rise is not None and rise > 1.0, 0.0)
            self._alert(run, "grad_explosion", target.gauges.get("grad_norm", 0.0) > 100, 0.0)
            long, short = (average(target.throughput, self.now, m * MINUTE) for m in (30, 5))
            fell = long is not None and short is not None and long > 0 and (long - short) / long > 0.2
            self._alert(run, "throughput_drop", fell, 5 * MINUTE)
            for field, kind, limit, minutes in (
                ("temperature_celsius", "gpu_fault", 85, 2),
                ("utilization", "stuck", 10, 10),
            ):
                gpus = [(value, rank) for (_, name), (value, rank) in target.gpus.items() if name == field]
                bad = [rank for value, rank in gpus if (value > limit if kind == "gpu_fault" else value < limit)]
                self._alert(run, kind, bool(bad), minutes * MINUTE, [rank for rank in bad if rank is not None])

    def _alert(self, run: str, kind: str, condition: bool, lasting: float, ranks: Sequence[int] = ()) -> None:
        target = self.targets[run]
        if not condition:
            target.since[kind] = -1.0
            self.resolve(run, kind)
            return
        if target.since[kind] < 0:
            target.since[kind] = self.now
        if self.now - target.since[kind] >= lasting:
            self.open(run, kind, sorted(set(ranks)), target.step)


if __name__ == "__main__":
    main(PrometheusRules, __doc__)
