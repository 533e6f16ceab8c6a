"""What is done to the job, and what stepwatchd has to make of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from operations_demo.processes import Job


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes
    ----------
    name : str
        In the table at the end.
    story : str
        What is done.
    kind : str
        Of the incident that has to open.
    ranks : tuple of int
        Its culprits; empty if nobody is to be named.
    begin : callable
        Does it.
    heal : callable or None
        Undoes it; None: it cannot be undone.
    healed : str
        What is done then.
    promised : str
        How soon it is noticed at the latest.
    steps_before : int
        Steps of training that come first.
    evidence : str
        A member of the evidence that comes a little after the incident has opened, and is waited for.
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
    # A run's usual speed is known after eleven blocks of two and a half seconds; a step takes a twentieth of one.
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
