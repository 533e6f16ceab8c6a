"""Two faults at once, and cascades in which one cause has many symptoms."""

from __future__ import annotations

import math

from simulator.draw import Draw
from simulator.job import Job
from simulator.trace import Trace

from .deaths import peers_follow, raise_on
from .hardware import Gpus, Hosts
from .numbers import constant, from_step, reporting
from .registry import new_job, paced, scenario, several
from .speed import OWN_TIME


@scenario("together", 2, 2)
def nan_and_a_kill(draw: Draw) -> Job:
    """NaN, and half a minute later a rank is killed: two causes."""
    job = reporting(draw).start().train(120)
    job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(math.nan))
    job.train(seconds=30)
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit])
    return job.gone(culprit).hang(30)


@scenario("together", 1, 2)
def straggler_and_gpu(draw: Draw) -> Job:
    """One rank is slow; minutes later another's GPU fails."""
    job = paced(draw, step_seconds=1.5, **OWN_TIME)
    gpus = Gpus(job, 20.0)
    job.start().train(120)
    slow, broken = draw.sample(gpus.ranks[: min(job.world, 16)], 2)
    job.expect("straggler", [slow], tolerance=10)
    job.slow[slow] = 2.0
    job.train(seconds=600)
    job.expect("gpu_fault", [broken])
    gpus.set(broken, "xid", 79)
    return job.hang(60, silent=[broken])


@scenario("together", 1, 1)
def two_runs_two_faults(draw: Draw) -> Trace:
    """Two runs in one file: a stopped rank in one, NaN in the other, in the same second."""
    first = new_job(draw, world=4, beat_seconds=2.0, step_seconds=1.0).start().train(100)
    second = Job(draw, first.shape.but(run="other-run", loss_from="first"), at=2.5).start()
    second.train(seconds=first.now - second.now)
    culprit = draw.whole(0, 3)
    first.expect("stuck", [culprit])
    first.hang(200, silent=[culprit])
    second.expect("loss_nonfinite")
    second.measures.bends["loss"] = from_step(second, constant(math.nan))
    second.train(seconds=150)
    return Trace(first, second)


@scenario("together", 2, 2)
def watchdog_after_a_hang(draw: Draw) -> Job:
    """A rank hangs; after minutes the communication library of all others raises exceptions: one cause."""
    job = several(draw, beat_seconds=2.0, step_seconds=1.0).start().train(100)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    job.hang(draw.between(180, 600), silent=[culprit])
    error = ("DistBackendError", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=811) ran for 600000 ms")
    for rank in range(job.world):
        if rank != culprit:
            raise_on(job, rank, error, after=draw.between(0, 2))
    job.hang(3)
    return job.end("error")


@scenario("together", 1, 1)
def killed_for_memory_and_stuck(draw: Draw) -> Job:
    """The kernel kills a rank, its peers wait, fail after a minute, and the run ends with an error: one cause."""
    job = several(draw, beat_seconds=2.0)
    host = Hosts(job)
    job.start().train(100)
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit], also=["process_lost"])
    host.kill()
    job.gone(culprit, after=0.3)
    job.hang(60)
    peers_follow(job, culprit)
    job.hang(9)
    return job.end("error")


@scenario("together", 1, 1)
def gpu_takes_all_with_it(draw: Draw) -> Job:
    """A fatal code, its process exits, exceptions on all others, end, all processes exit: one cause."""
    job = several(draw)
    gpus = Gpus(job, 10.0)
    job.start().train(100)
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "xid", 79)
    job.wait(0.5)
    job.gone(culprit)
    peers_follow(job, culprit)
    job.hang(10)
    return job.end("error")


@scenario("together", 1, 1)
def slow_then_stopped(draw: Draw) -> Job:
    """All slow down for ten minutes; then one rank stops."""
    job = new_job(draw, beat_seconds=2.0, step_seconds=1.5, world=8).start().train(200)
    job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: 2.0
    job.train(seconds=800)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit], promised=20.0)
    return job.hang(300, silent=[culprit])


@scenario("together", 1, 1)
def norm_then_loss_then_nan(draw: Draw) -> Job:
    """The norm explodes, the loss jumps, and both end in NaN: one cause, whose kind may change."""
    job = reporting(draw).start().train(150)
    job.expect("grad_explosion", also=["loss_spike", "divergence"])
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * 30 * 3 ** min(after, 20))
    job.train(2)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value * 1.6 ** min(after + 1, 12))
    job.train(20)
    job.tolerate("loss_nonfinite", "grad_nonfinite")
    job.measures.bends["loss"] = job.measures.bends["grad_norm"] = constant(math.nan)
    return job.train(20)
