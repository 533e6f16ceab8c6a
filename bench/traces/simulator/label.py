"""The expected incidents of a trace: labels, and tolerated incidents."""

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

    Times are virtual seconds: those of a clock without changes, which a reader derives from the trace's lines.

    Attributes
    ----------
    also : tuple of str
        Other kinds under which the incident counts as found, where the specification leaves the kind open.
    ranks, naming
        Culprits. ``first``: the incident lists exactly these first; ``maybe``: these or none; ``any``: unchecked.
    onset : float
        Start of the fault. An incident opened earlier is a false alarm.
    promised : float
        Latest time by the specification (or, where it contains no number, that of a good detector).
    deadline : float
        Latest time that counts as found.
    since_step, since_tolerance
        The last good step, or None, and the tolerated difference.
    recovers : float or None
        End of the fault; the incident must be resolved after that if ``resolved``.
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
        """End the fault now, and expect the incident to be resolved."""
        self.recovers = now
        self.resolved = True
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return all kinds that count as found."""
        return (self.kind, *self.also)


@dataclass
class Tolerated:
    """Incidents that count neither as found nor as false: the specification leaves open whether they open."""

    run: str
    kinds: tuple[str, ...]
    begin: float = 0.0
    end: float = float("inf")
