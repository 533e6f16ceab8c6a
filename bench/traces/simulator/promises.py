"""Time limits of each kind: the promise of the specification, and the deadline that counts as found."""

from __future__ import annotations

from .shape import Shape

AT_ONCE = ("process_lost", "exception", "out_of_memory", "gpu_fault")
NONFINITE = ("loss_nonfinite", "grad_nonfinite")


def promised_of(kind: str, shape: Shape) -> float:
    """Return the seconds from onset until a good detector has opened the incident."""
    if kind in AT_ONCE:
        return 3.0
    steps = shape.log_every * shape.step_seconds
    seen = max(shape.beat_seconds or 0.0, steps) + 0.5
    if kind in NONFINITE:
        return seen + steps + 1.0
    if kind == "stuck":  # with a second indication; a label without one sets its own time
        return 3 * shape.step_seconds + 5.0 + (shape.beat_seconds or shape.idle_seconds or shape.step_seconds)
    if kind in ("throughput_drop", "straggler", "rank_disagreement"):
        return max(120.0, 30 * seen)
    if kind == "checkpoint_overdue":
        return 600.0
    return max(30.0, 10 * seen)


def deadline_of(kind: str, shape: Shape) -> float:
    """Return the seconds from onset until the incident counts as found."""
    promised = promised_of(kind, shape)
    if kind in AT_ONCE:
        return 30.0
    if kind in NONFINITE:
        return promised + 30.0
    if kind == "stuck":
        return max(300.0, 12 * shape.step_seconds + promised)
    if kind in ("throughput_drop", "straggler"):
        return max(600.0, 3 * promised)
    return 3 * promised
