"""Runs that slow down, abruptly or over hours, ranks slower than their peers, and missing checkpoints."""

from __future__ import annotations

from simulator.draw import Draw
from simulator.job import Job

from .registry import new_job, paced, scenario, warm_up

OWN_TIME = {"reports": frozenset({"loss", "grad_norm", "lr", "tokens", "step_seconds"})}
NO_OWN_TIME = {"reports": frozenset({"loss", "lr", "tokens"})}


@scenario("throughput_drop", 3, 3)
def from_one_step_on(draw: Draw) -> Job:
    """All ranks take longer from one step on, until the end of the file."""
    job = paced(draw, step_seconds=draw.spread(0.5, 4)).start().train(warm_up(draw, 120))
    factor = draw.between(*draw.either((1.6, 3.0), (1.5, 5.0)))
    job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: factor
    return job.train(seconds=1000)


@scenario("throughput_drop", 1, 2)
def nobody_reports_times(draw: Draw) -> Job:
    """Only the times of the beats show that steps take longer."""
    job = paced(draw, step_seconds=draw.spread(0.5, 4), **NO_OWN_TIME).start().train(warm_up(draw, 120))
    job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: 2.2
    return job.train(seconds=900)


@scenario("throughput_drop", 2, 2)
def leaks_away(draw: Draw) -> Job:
    """Each step takes a little longer than the previous one: only a fixed baseline shows it."""
    job = new_job(draw, world=draw.one_of((1, 2, 4)), beat_seconds=draw.one_of((20.0, 30.0)), step_seconds=2.0)
    job.start().train(seconds=900)
    begin = job.step
    hours = draw.between(*draw.either((0.7, 1.5), (0.5, 3.0)))
    steps = hours * 3600 / job.shape.step_seconds / 1.4
    job.pace = lambda step: 1 + 0.9 * max(0, step - begin) / steps
    job.expect("throughput_drop", tolerance=int(steps * 0.5), promised=hours * 2400, deadline=hours * 3600)
    return job.train(seconds=hours * 3600 + 300)


@scenario("throughput_drop", 2, 2)
def is_fast_again(draw: Draw) -> Job:
    """Slow for a quarter of an hour, then normal again."""
    job = paced(draw, step_seconds=draw.spread(0.8, 4)).start().train(warm_up(draw, 120))
    label = job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: 1.9
    job.train(seconds=900)
    job.pace = lambda step: 1.0
    label.recovered(job.now)
    return job.train(seconds=1200).end()


@scenario("throughput_drop", 1, 1)
def of_a_single_rank(draw: Draw) -> Job:
    """A run without peers slows down; its gauge of step time shows it as well."""
    job = new_job(draw, world=1, **OWN_TIME).start().train(200)
    job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: 2.5
    return job.train(seconds=900)


@scenario("throughput_drop", 1, 1)
def after_a_restart(draw: Draw) -> Job:
    """A restarted run learns its pace again, and then slows down."""
    job = paced(draw, checkpoint_every=60, step_seconds=1.2).start().train(150).end("signal")
    job.restart(100).train(200)
    job.expect("throughput_drop", tolerance=10)
    job.pace = lambda step: 2.0
    return job.train(seconds=900)


@scenario("throughput_drop", 1, 1)
def waits_for_data(draw: Draw) -> Job:
    """Every tenth step waits for data, increasingly long, until half of the speed is lost."""
    job = paced(draw, step_seconds=1.0).start()
    job.hiccup = lambda step: 3.0 if step % 10 == 0 else 0.0
    job.train(200)
    job.expect("throughput_drop", tolerance=20)
    job.hiccup = lambda step: 20.0 if step % 10 == 0 else 0.0
    return job.train(seconds=1500)


@scenario("throughput_drop", 1, 1)
def tokens_shrink(draw: Draw) -> Job:
    """Steps keep their length, but have half of the tokens: a loader that drops ranks' data."""
    job = paced(draw, step_seconds=1.5, **OWN_TIME).start().train(200)
    job.expect("throughput_drop", tolerance=10)
    job.measures.tokens = lambda step: job.shape.tokens * 2 // 5
    return job.train(seconds=900)


@scenario("straggler", 3, 3)
def one_is_slow(draw: Draw) -> Job:
    """One rank's own time is longer than its peers' from one step on; all wait for it."""
    job = paced(draw, step_seconds=draw.spread(0.5, 4), **OWN_TIME).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("straggler", [culprit], tolerance=10)
    job.slow[culprit] = draw.between(*draw.either((1.6, 2.5), (1.4, 4.0)))
    return job.train(seconds=700)


@scenario("straggler", 1, 1)
def of_many(draw: Draw) -> Job:
    """One of 256 ranks is slow."""
    job = new_job(draw, world=draw.either(256, 128), beat_seconds=20.0, step_seconds=3.0, **OWN_TIME).start(20.0)
    job.train(seconds=300)
    culprit = draw.whole(0, job.world - 1)
    job.expect("straggler", [culprit], tolerance=10)
    job.slow[culprit] = draw.between(1.5, 2.5)
    return job.train(seconds=800)


@scenario("straggler", 1, 1)
def from_the_beginning(draw: Draw) -> Job:
    """One rank's node is slow from the first step on."""
    job = paced(draw, step_seconds=draw.spread(0.5, 3), **OWN_TIME).start()
    culprit = draw.whole(0, job.world - 1)
    job.expect("straggler", [culprit], tolerance=30)
    job.slow[culprit] = 1.9
    return job.train(seconds=700)


@scenario("straggler", 1, 1)
def slower_and_slower(draw: Draw) -> Job:
    """One rank throttles over a quarter of an hour; its GPU's temperature climbs."""
    job = paced(draw, step_seconds=2.0, **OWN_TIME).start().train(120)
    culprit, begin = draw.whole(0, job.world - 1), job.now
    label = job.expect("straggler", [culprit], tolerance=250, promised=500, deadline=1200, also=["gpu_fault"])
    for part in range(1, 10):
        job.slow[culprit] = 1 + 0.1 * part
        warm = round(62 + 3.4 * part)
        job.event("gpu", culprit, uuid=f"GPU-{culprit}", field="temperature_celsius", value=warm)
        job.train(seconds=90)
    assert label.onset == begin
    return job.train(seconds=400)


@scenario("straggler", 2, 2)
def is_mended(draw: Draw) -> Job:
    """A rank is slow for ten minutes, then as fast as the rest."""
    job = paced(draw, step_seconds=draw.spread(0.8, 3), **OWN_TIME).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("straggler", [culprit], tolerance=10)
    job.slow[culprit] = draw.between(1.6, 2.5)
    job.train(seconds=600)
    job.slow.clear()
    label.recovered(job.now)
    return job.train(seconds=900).end()


@scenario("straggler", 1, 1)
def a_slow_host(draw: Draw) -> Job:
    """All ranks of one host are slow, by about the same factor."""
    job = new_job(draw, world=32, beat_seconds=10.0, step_seconds=1.5, **OWN_TIME).start().train(seconds=200)
    host = draw.whole(0, 3)
    ranks = range(8 * host, 8 * host + 8)
    job.expect("straggler", ranks, tolerance=10)
    for rank in ranks:
        job.slow[rank] = draw.between(1.65, 1.75)
    return job.train(seconds=600)


@scenario("straggler", 1, 1)
def one_of_two(draw: Draw) -> Job:
    """One of two ranks becomes slow: the other's own time and its own history show which."""
    job = new_job(draw, world=2, step_seconds=1.0, **OWN_TIME).start().train(150)
    culprit = draw.whole(0, 1)
    job.expect("straggler", [culprit], tolerance=10)
    job.slow[culprit] = 2.0
    return job.train(seconds=700)


def saving(draw: Draw, **changes: object) -> Job:
    """Return a job that reports its checkpoints, a minute or more apart."""
    step_seconds = draw.spread(0.6, 3)
    every = int(draw.between(60, 180) / step_seconds)
    return paced(
        draw,
        **{
            "step_seconds": step_seconds,
            "checkpoint_every": every,
            "checkpoint_seconds": draw.one_of((0.0, 5.0)),
            **changes,
        },
    )


def due(job: Job) -> dict[str, float]:
    """Return the times of a label for a missing checkpoint, from its due time on."""
    interval = job.shape.checkpoint_every * job.shape.step_seconds * 1.05
    return {"onset": interval, "promised": 1.5 * interval + 30, "deadline": 3.5 * interval + 60}


@scenario("checkpoint_overdue", 3, 3)
def none_comes(draw: Draw) -> Job:
    """Checkpoints came at regular steps; then none come, while training continues."""
    job = saving(draw).start()
    job.train(job.shape.checkpoint_every * draw.whole(4, 7))
    job.expect("checkpoint_overdue", tolerance=job.shape.checkpoint_every + 5, **due(job))
    job.shape.checkpoint_every, every = 0, job.shape.checkpoint_every
    return job.train(every * 6)


@scenario("checkpoint_overdue", 2, 2)
def it_is_never_told(draw: Draw) -> Job:
    """The phase of saving is entered as usual, but no checkpoint follows: the writes fail."""
    job = saving(draw, checkpoint_seconds=draw.between(2, 8)).start()
    job.train(job.shape.checkpoint_every * 5)
    job.expect("checkpoint_overdue", tolerance=job.shape.checkpoint_every + 5, **due(job))
    job.saves = False
    return job.train(job.shape.checkpoint_every * 6)


@scenario("checkpoint_overdue", 2, 2)
def it_comes_at_last(draw: Draw) -> Job:
    """Six are missing; then one is written, and more follow."""
    job = saving(draw).start()
    job.train(job.shape.checkpoint_every * 5)
    label = job.expect("checkpoint_overdue", tolerance=job.shape.checkpoint_every + 5, **due(job))
    job.saves = False
    job.train(job.shape.checkpoint_every * 6)
    job.saves = True
    job.train(job.shape.checkpoint_every)
    label.recovered(job.now - 20)
    return job.train(2 * job.shape.checkpoint_every + 3).end()


@scenario("checkpoint_overdue", 1, 1)
def by_sparse_beats(draw: Draw) -> Job:
    """Hours of infrequent beats, a checkpoint each ten minutes, and then no more."""
    job = new_job(draw, world=2, beat_seconds=30.0, step_seconds=2.0, checkpoint_every=300, checkpoint_seconds=20.0)
    job.start().train(300 * 6)
    job.expect("checkpoint_overdue", tolerance=330, **due(job))
    job.saves = False
    return job.train(300 * 6)


@scenario("checkpoint_overdue", 1, 1)
def restarted_meanwhile(draw: Draw) -> Job:
    """A restart in the middle: some checkpoints after it, then none."""
    job = saving(draw).start()
    job.train(job.shape.checkpoint_every * 4 + 7).end("signal")
    job.restart(60).train(job.shape.checkpoint_every * 4)
    job.expect("checkpoint_overdue", tolerance=job.shape.checkpoint_every + 5, **due(job))
    job.saves = False
    return job.train(job.shape.checkpoint_every * 6)
