"""The faults injected into the job, and the incidents that stepwatchd must report."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from operations_demo.processes import Job


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    name : str
        Name in the final table.
    story : str
        Description of the injection.
    kind : str
        Expected kind of the incident.
    ranks : tuple of int
        Expected culprits; empty if the incident names no rank.
    begin : callable
        Injects the fault.
    heal : callable or None
        Undoes the fault; None: it cannot be undone.
    healed : str
        Description of the undoing.
    promised : str
        Longest delay of the incident.
    steps_before : int
        Steps of training before the fault.
    evidence : str
        A member of the evidence that is added shortly after the incident opens, and is waited for.
    """

    name: str
    story: str
    kind: str
    ranks: tuple[int, ...]
    begin: Callable[[Job], None]
    heal: Callable[[Job], None] | None = None
    healed: str = ""
    promised: str = ""
    steps_before: int = 0
    evidence: str = ""


NAN = Fault(
    name="NaN in a batch",
    story="rank 1 reads batches with a NaN in them",
    kind="loss_nonfinite",
    ranks=(1,),
    begin=lambda job: job.switch("bad_batch", True),
    heal=lambda job: job.switch("bad_batch", False),
    healed="its batches are clean again",
    promised="1 step + 1 s",
    steps_before=60,
)
STOPPED = Fault(
    name="SIGSTOP of a rank",
    story="rank 1 is stopped: kill -STOP",
    kind="stuck",
    ranks=(1,),
    begin=lambda job: job.send(1, signal.SIGSTOP),
    heal=lambda job: job.send(1, signal.SIGCONT),
    healed="rank 1 goes on: kill -CONT",
    promised="3 steps + 5 s",
    evidence="stacks_of_rank_1",
)
LEAK = Fault(
    name="slow leak",
    story="every rank begins to keep samples, and to go over all of them at each step",
    kind="throughput_drop",
    ranks=(),
    begin=lambda job: job.switch("leak", True),
    heal=lambda job: job.switch("leak", False),
    healed="the ranks drop what they have kept",
    # A run's usual speed is known after eleven blocks of two and a half seconds; a step takes a twentieth of a second.
    steps_before=650,
)
KILLED = Fault(
    name="kill -9 of a rank",
    story="rank 1 is killed: kill -KILL",
    kind="process_lost",
    ranks=(1,),
    begin=lambda job: job.send(1, signal.SIGKILL),
    promised="3 s",
    evidence="symptoms",
)
FAULTS = (NAN, STOPPED, LEAK, KILLED)
