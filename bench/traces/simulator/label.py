"""What a trace is expected to raise: labels, and what is tolerated beside them."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = (
    "stuck",
    "process_lost",
    "loss_nonfinite",
    "loss_spike",
    "divergence",
    "grad_nonfinite",
    "grad_explosion",
    "grad_collapse",
    "throughput_drop",
    "straggler",
    "rank_disagreement",
    "checkpoint_overdue",
    "exception",
    "out_of_memory",
    "gpu_fault",
)


@dataclass
class Label:
    """One cause that must open one incident.

    Times are virtual seconds: those of a clock that nobody sets, which a reader gets from the trace's lines.

    Attributes
    ----------
    also : tuple of str
        Other kinds under which the incident counts as found, where the specification leaves the kind open.
    ranks, naming
        Culprits. ``first``: the incident lists exactly these first; ``maybe``: the same, or nobody; ``any``: unchecked.
    onset : float
        From when on the fault is there. An incident opened earlier is a false alarm.
    promised : float
        Until when the specification promises it (or, where it names no number, a good detector has it).
    deadline : float
        Until when it counts as found at all.
    since_step, since_tolerance
        The last good step, None if there is none to name, and how far off counts as right.
    recovers : float or None
        When the fault ends; the incident must be resolved after that if ``resolved``.
    """

    run: str
    kind: str
    onset: float
    promised: float
    deadline: float
    also: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    naming: str = "any"
    since_step: int | None = None
    since_tolerance: int = 1
    recovers: float | None = None
    resolved: bool = False

    def recovered(self, now: float) -> Label:
        """Say that the fault ends now, and that this has to be noticed."""
        self.recovers = now
        self.resolved = True
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return all kinds that count as found."""
        return (self.kind, *self.also)


@dataclass
class Tolerated:
    """Incidents that count neither as found nor as false: where the specification leaves open whether they open."""

    run: str
    kinds: tuple[str, ...]
    begin: float = 0.0
    end: float = float("inf")
