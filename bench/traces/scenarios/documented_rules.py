"""Faults that depend on single rules of the trace format."""

from __future__ import annotations

import math

from simulator.draw import Draw
from simulator.job import Job
from simulator.trace import Trace

from .deaths import OWN_ERRORS, peers_follow, raise_on
from .hardware import Gpus, uuid_of
from .losses import disagreeing
from .numbers import constant, from_step, reporting
from .registry import new_job, paced, scenario, several
from .speed import due, saving


@scenario("fine_print", 1, 1)
def hour_without_a_line(draw: Draw) -> Job:
    """No line comes for an hour; then training continues: the hang must be reported within that hour."""
    job = several(draw, beat_seconds=None, idle_seconds=None, step_seconds=draw.between(0.4, 2)).start().train(150)
    label = job.expect("stuck", promised=180, deadline=420)
    job.wait(3600)
    label.recovered(job.now)
    return job.train(100).end()


@scenario("fine_print", 1, 1)
def clock_is_set_in_the_last_line(draw: Draw) -> Trace:
    """The last line sets the clock; the silence after it must be reported in the new clock."""
    job = several(draw, beat_seconds=2.0).start().train(120)
    job.expect("stuck", promised=180, deadline=420)
    return Trace(job).clock_step(job.now + 1.0, draw.one_of((-5000.0, 3600.0)))


@scenario("fine_print", 1, 1)
def slow_network(draw: Draw) -> Job:
    """Each rank's own time is unchanged, but all wait twice as long for each other: there is no straggler."""
    job = paced(draw, step_seconds=1.5).start().train(200)
    job.expect("throughput_drop", tolerance=10)
    job.hiccup_is_waiting = True
    job.hiccup = lambda step: 2.0
    return job.train(seconds=900)


@scenario("fine_print", 1, 1)
def every_rank_tells_its_checkpoint(draw: Draw) -> Job:
    """Each rank reports its part of a checkpoint, seconds apart; then all reports stop."""
    job = saving(draw)
    job.all_report = True
    job.start().train(job.shape.checkpoint_every * 5)
    job.expect("checkpoint_overdue", tolerance=job.shape.checkpoint_every + 5, **due(job))
    job.saves = False
    return job.train(job.shape.checkpoint_every * 6)


@scenario("fine_print", 1, 1)
def numbers_now_and_then(draw: Draw) -> Job:
    """Only beats of each tenth step contain numbers; one of those is NaN."""
    job = reporting(draw)
    job.measures.only_every = 10
    job.start().train(150 + draw.whole(1, 9))
    job.expect("loss_nonfinite", tolerance=11, promised=12 * job.shape.step_seconds + 3)
    job.measures.bends["loss"] = from_step(job, constant(math.nan))
    return job.train(40)


@scenario("fine_print", 1, 1)
def code_goes_and_comes(draw: Draw) -> Job:
    """An old code is cleared, and a fatal one comes after an hour of samples."""
    job = paced(draw, beat_seconds=10.0)
    gpus = Gpus(job, 30.0)
    gpus.watch("xid", 31)
    job.start().train(seconds=200)
    culprit = draw.one_of(gpus.ranks)
    gpus.set(culprit, "xid", 0)
    job.train(seconds=600)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "xid", 79)
    return job.hang(100, silent=[culprit])


@scenario("fine_print", 1, 1)
def the_same_code_again(draw: Draw) -> Job:
    """A fatal code and a restart; the code is cleared, and the same one comes again: two faults."""
    job = several(draw, checkpoint_every=40).start().train(100)
    culprit = draw.whole(0, job.world - 1)
    for _ in range(2):
        label = job.expect("gpu_fault", [culprit])
        job.event("gpu", culprit, uuid=uuid_of(culprit), field="xid", value=95)
        job.gone(culprit, after=0.5).hang(3).all_gone()
        job.restart(60)
        label.recovered(job.restarted_at)
        job.event("gpu", culprit, uuid=uuid_of(culprit), field="xid", value=0)
        job.train(100)
    return job.end()


@scenario("fine_print", 1, 1)
def two_ranks_disagree(draw: Draw) -> Job:
    """Two ranks differ, and the wrong one is unknown."""
    job = disagreeing(draw, world=2).start().train(150)
    job.expect("rank_disagreement")
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * (1.5 if rank else 1))
    return job.train(120)


@scenario("fine_print", 1, 1)
def started_again(draw: Draw) -> Job:
    """The run ends normally and starts again under its name; a rank of the new start is lost."""
    job = several(draw, beat_seconds=2.0).start().train(100).end()
    job.wait(300)
    job.begin_anew()
    job.train(80)
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit])
    return job.gone(culprit).hang(60)


@scenario("fine_print", 1, 1)
def root_cause_behind_its_symptoms(draw: Draw) -> Job:
    """Within a second some peers raise before the rank that caused it: connections first, then the cause."""
    job = several(draw).start().train(100)
    culprit = draw.whole(0, job.world - 1)
    job.expect("exception", naming="any")
    peers_follow(job, culprit, within=0.9)
    raise_on(job, culprit, draw.one_of(OWN_ERRORS), after=0.95)
    job.hang(3)
    return job.end("error")


@scenario("fine_print", 1, 1)
def lost_in_an_evaluation_of_many(draw: Draw) -> Trace:
    """A rank of one run is lost while another run, with a rank of that number, evaluates."""
    sick = new_job(draw, world=4, beat_seconds=2.0).start().train(100)
    well = Job(draw, sick.shape.but(run="r2", eval_every=60, eval_seconds=100.0), at=1.0).start()
    well.train(59).train(1)
    sick.train(seconds=max(0.0, well.now - 50 - sick.now))
    sick.expect("process_lost", [2])
    sick.gone(2).hang(60)
    well.train(seconds=200).end()
    return Trace(sick, well)
