"""Healthy runs with an unreliable observer: its clock is set, beats come late, twice, or in another order."""

from __future__ import annotations

from simulator.draw import Draw
from simulator.job import Job
from simulator.trace import Trace

from .registry import new_job, scenario, several


@scenario("healthy", 3, 3)
def clock_goes_forward(draw: Draw) -> Trace:
    """The observer's clock jumps ahead, by minutes or days, in training or in an evaluation."""
    job = several(draw, eval_every=70, eval_seconds=20.0).start().train(200).end()
    seconds = draw.one_of((45.0, 600.0, 3600.0, 86400.0 * 30))
    return Trace(job).clock_step(job.now * draw.between(0.3, 0.9), seconds)


@scenario("healthy", 3, 3)
def clock_goes_back(draw: Draw) -> Trace:
    """The observer's clock is set back; later it is set forward again."""
    job = several(draw).start().train(250).end()
    seconds = draw.one_of((-30.0, -600.0, -7200.0))
    return Trace(job, epoch=0.0).clock_step(job.now * 0.4, seconds).clock_step(job.now * 0.8, -seconds)


@scenario("healthy", 1, 1)
def clock_in_a_pause(draw: Draw) -> Trace:
    """The clock is set during a pause, whose end counts in elapsed time."""
    job = several(draw, beat_seconds=2.0).start().train(100)
    job.event("pause", expires_seconds=600)
    begin = job.now
    job.hang(400)
    job.event("resume")
    job.train(80).end()
    return Trace(job).clock_step(begin + 50, draw.one_of((500.0, -500.0)))


@scenario("healthy", 1, 1)
def clock_before_the_end(draw: Draw) -> Trace:
    """The clock is set between the last beat and the end of the run."""
    job = several(draw).start().train(150)
    at = job.now + 1.0
    job.wait(2.0)
    job.end()
    return Trace(job).clock_step(at, draw.one_of((900.0, -40.0)))


@scenario("healthy", 3, 3)
def late_beats(draw: Draw) -> Trace:
    """Some beats arrive up to forty seconds late, after newer ones."""
    job = several(draw, beat_seconds=draw.one_of((None, 2.0, 5.0))).start().train(250).end()
    return Trace(job).disturbed(draw, late=draw.between(0.02, 0.15))


@scenario("healthy", 3, 3)
def doubled_beats(draw: Draw) -> Trace:
    """Some beats arrive twice."""
    job = several(draw).start().train(250).end()
    return Trace(job).disturbed(draw, doubled=draw.between(0.1, 0.5))


@scenario("healthy", 3, 3)
def reordered_beats(draw: Draw) -> Trace:
    """Beats arrive out of order by up to several steps, with varying delays."""
    job = several(draw, step_seconds=draw.spread(0.3, 1.0)).start().train(300).end()
    return Trace(job).disturbed(draw, shuffled=draw.between(1, 4))


@scenario("healthy", 2, 2)
def all_of_it(draw: Draw) -> Trace:
    """Late, doubled and reordered beats around preemption, evaluations and a set clock."""
    job = several(draw, eval_every=60, eval_seconds=25.0, checkpoint_every=45).start().train(150).end("signal")
    job.restart(90).train(150).end()
    trace = Trace(job).disturbed(draw, late=0.04, doubled=0.1, shuffled=1.5)
    return trace.clock_step(job.now * 0.3, draw.one_of((-120.0, 3000.0)))


@scenario("healthy", 1, 1)
def two_runs(draw: Draw) -> Trace:
    """Two healthy runs with equal ranks in one file; one of them ends early."""
    first = new_job(draw, world=4).start()
    second = Job(draw, new_job(draw, world=8).shape.but(run="r2"), at=draw.between(0, 50)).start()
    first.train(150).end()
    second.train(300).end()
    return Trace(first, second)


@scenario("healthy", 1, 1)
def a_long_cadence(draw: Draw) -> Job:
    """One beat in half a minute, with steps shorter than a second."""
    job = new_job(draw, world=draw.either(4, 6), beat_seconds=30.0, step_seconds=0.4)
    return job.start().train(seconds=2400).end()
