"""Faults with an unreliable observer, whose clock is set meanwhile, or whose beats come late, twice or out of order."""

from __future__ import annotations

import math

from simulator.draw import Draw
from simulator.trace import Trace

from .deaths import OWN_ERRORS, peers_follow, raise_on
from .losses import disagreeing, spike
from .numbers import constant, from_step, reporting
from .registry import new_job, paced, scenario, several
from .speed import OWN_TIME, due, saving


@scenario("seen_badly", 1, 1)
def stopped_rank(draw: Draw) -> Trace:
    """A rank is stopped; beats of all of them come twice and out of order."""
    job = several(draw, beat_seconds=2.0, step_seconds=1.0).start().train(120)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    job.hang(300, silent=[culprit])
    return Trace(job).disturbed(draw, doubled=0.2, shuffled=draw.between(0.5, 1.5))


@scenario("seen_badly", 1, 1)
def killed(draw: Draw) -> Trace:
    """The clock is set a moment before a rank is killed, and again after it."""
    job = several(draw, beat_seconds=2.0).start().train(100)
    job.wait(2.0)
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("process_lost", [culprit])
    job.gone(culprit).hang(60)
    seconds = draw.one_of((-900.0, 7200.0))
    return Trace(job).clock_step(label.onset - 0.7, seconds).clock_step(label.onset + 10.0, -seconds)


@scenario("seen_badly", 1, 2)
def nan(draw: Draw) -> Trace:
    """NaN, with beats that come twice or late."""
    job = reporting(draw).start().train(120)
    job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(math.nan))
    job.train(60).end("signal")
    return Trace(job).disturbed(draw, late=0.1, doubled=0.3, shuffled=1.0)


@scenario("seen_badly", 0, 1)
def straggler(draw: Draw) -> Trace:
    """A slow rank among beats that are out of order by seconds."""
    job = paced(draw, step_seconds=1.5, **OWN_TIME).start().train(100)
    culprit = draw.whole(0, job.world - 1)
    job.expect("straggler", [culprit], tolerance=12)
    job.slow[culprit] = 2.0
    job.train(seconds=700).end("signal")
    return Trace(job).disturbed(draw, late=0.03, shuffled=2.0)


@scenario("seen_badly", 1, 1)
def slowdown(draw: Draw) -> Trace:
    """The clock is set by a day while a run is slow."""
    job = paced(draw, step_seconds=1.5).start().train(150)
    label = job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: 2.0
    job.train(seconds=900).end("signal")
    return Trace(job).clock_step(label.onset + 40.0, draw.one_of((86400.0, -3600.0)))


@scenario("seen_badly", 0, 1)
def overdue(draw: Draw) -> Trace:
    """The clock falls back by hours while a checkpoint is overdue."""
    job = saving(draw).start()
    job.train(job.shape.checkpoint_every * 5)
    label = job.expect("checkpoint_overdue", tolerance=job.shape.checkpoint_every + 5, **due(job))
    job.saves = False
    job.train(job.shape.checkpoint_every * 6).end("signal")
    return Trace(job).clock_step(label.onset + 5.0, -7200.0)


@scenario("seen_badly", 1, 1)
def loss_jumps(draw: Draw) -> Trace:
    """A spike whose beats come twice and out of order."""
    job = reporting(draw).start().train(150)
    spike(job, draw.between(3, 6), 1, draw.between(10, 25))
    job.train(150).end()
    return Trace(job).disturbed(draw, doubled=0.3, shuffled=1.0)


@scenario("seen_badly", 1, 1)
def disagreement(draw: Draw) -> Trace:
    """Ranks disagree, while some beats of each come late."""
    job = disagreeing(draw).start().train(120)
    culprit = draw.whole(0, job.world - 1)
    job.expect("rank_disagreement", [culprit])
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * (1.5 if rank == culprit else 1))
    job.train(120).end("signal")
    return Trace(job).disturbed(draw, late=0.05, shuffled=0.5)


@scenario("seen_badly", 0, 1)
def failure(draw: Draw) -> Trace:
    """An exception, those of its peers and the end, with beats of all ranks arriving in between."""
    job = new_job(draw, world=8, beat_seconds=1.0).start().train(80)
    culprit = draw.whole(0, job.world - 1)
    job.expect("exception", [culprit])
    raise_on(job, culprit, draw.one_of(OWN_ERRORS))
    peers_follow(job, culprit)
    job.hang(9)
    job.end("error")
    return Trace(job).disturbed(draw, doubled=0.3, shuffled=2.0)


@scenario("seen_badly", 0, 1)
def explosion(draw: Draw) -> Trace:
    """An exploding norm, with beats out of order under a clock that is set."""
    job = reporting(draw).start().train(120)
    label = job.expect("grad_explosion", tolerance=4)
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * 200)
    job.train(60).end("signal")
    return Trace(job).disturbed(draw, shuffled=1.0).clock_step(label.onset + 2.0, 1800.0)
