"""Healthy runs that depend on single rules of the trace format."""

from __future__ import annotations

from typing import Any

from simulator.draw import Draw
from simulator.job import Job

from .numbers import reporting
from .registry import new_job, paced, scenario, several


@scenario("healthy", 1, 1)
def steps_in_a_pause(draw: Draw) -> Job:
    """Steps continue in a pause for a while and then stop: beats do not end the pause, so it still protects."""
    job = several(draw, beat_seconds=2.0).start().train(100)
    job.event("pause", expires_seconds=1800)
    job.train(seconds=60)
    job.hang(500)
    job.event("resume")
    return job.train(80).end()


@scenario("healthy", 1, 1)
def pause_is_renewed(draw: Draw) -> Job:
    """A pause is renewed twice before it expires."""
    job = several(draw, beat_seconds=5.0).start().train(100)
    for _ in range(3):
        job.event("pause", expires_seconds=400)
        job.hang(300)
    job.event("resume")
    return job.train(80).end()


@scenario("healthy", 1, 1)
def each_host_tells_its_start(draw: Draw) -> Job:
    """Each host sends a start, some seconds apart."""
    job = new_job(draw, world=16, host_ranks=8, beat_seconds=5.0)
    job.event("start", world=16, host="h1")
    job.event("start", after=3.0, world=16, host="h2")
    return job.init(40).train(seconds=300).end()


@scenario("healthy", 2, 2)
def hosts_count_apart(draw: Draw) -> Job:
    """Two hosts whose kill counts differ and never rise; samples of memory pressure alone come between."""
    job = several(draw)
    first, second = draw.whole(1, 5), draw.whole(6, 90)
    by_rank = draw.chance(0.5)

    def sampler(running: Job) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = [
            {"kind": "host", "oom_kill": first, "psi": 0.4},
            {"kind": "host", "oom_kill": second, "psi": 1.1},
            {"kind": "host", "psi": 2.0},
        ]
        for number, line in enumerate(lines):
            if by_rank:
                line["rank"] = (0, running.world - 1, 0)[number]
            else:
                line["host"] = ("h1", "h2", "h1")[number]
        return lines

    job.sample(10.0, sampler)
    return job.start().train(150).end()


@scenario("healthy", 1, 1)
def every_rank_saves(draw: Draw) -> Job:
    """Each rank reports its part of a checkpoint; the parts are seconds apart, the checkpoints minutes."""
    job = paced(draw, checkpoint_every=60, checkpoint_seconds=6.0, step_seconds=1.2)
    job.all_report = True
    return job.start().train(60 * 6 + 5).end()


@scenario("healthy", 1, 1)
def small_and_large_checkpoints(draw: Draw) -> Job:
    """Some checkpoints follow each other quickly, others after a long time: two usual intervals."""
    job = paced(draw, checkpoint_seconds=0.0, step_seconds=1.0).start()
    for _ in range(8):
        for steps in (20, 90, 20):
            job.train(steps)
            job.checkpoint()
    return job.end()


@scenario("healthy", 1, 1)
def a_number_of_their_own_is_nan(draw: Draw) -> Job:
    """A custom reported number is NaN until it is first measured."""
    job = reporting(draw)
    job.measures.extra["eval_accuracy"] = lambda step, rank: "nan" if step < 80 else 0.71
    job.measures.extra["grad_noise"] = lambda step, rank: "inf" if step % 7 == 0 else 3.0
    return job.start().train(200).end()


@scenario("healthy", 1, 1)
def a_signal_to_save(draw: Draw) -> Job:
    """A signal requests a checkpoint from each rank, and training continues."""
    job = several(draw).start().train(100)
    for rank in range(job.world):
        job.event("signal", rank, after=0.01 * rank, number=10)
    job.train(3)
    job.checkpoint(8.0)
    return job.train(100).end()


@scenario("healthy", 1, 1)
def all_wait_a_minute(draw: Draw) -> Job:
    """Once, all ranks wait a minute for a file system, and continue."""
    job = several(draw, beat_seconds=draw.one_of((1.0, 5.0)), modules=False).start().train(150)
    job.hang(draw.between(40, 80))
    return job.train(100).end()


@scenario("healthy", 2, 2)
def one_rank_is_not_heard(draw: Draw) -> Job:
    """For a minute no beat of one rank arrives, while all others' steps continue: they could not without it."""
    job = several(draw, beat_seconds=2.0).start().train(150)
    quiet = draw.whole(0, job.world - 1)
    job.silent.add(quiet)
    job.train(seconds=draw.between(30, 70))
    job.silent.discard(quiet)
    return job.train(100).end()


@scenario("healthy", 1, 1)
def nobody_is_heard(draw: Draw) -> Job:
    """For a minute and a half the observer receives no beats; steps have continued meanwhile."""
    job = several(draw, beat_seconds=2.0).start().train(150)
    everybody = set(range(job.world))
    job.silent |= everybody
    job.train(seconds=80)
    job.silent -= everybody
    return job.train(100).end()


@scenario("healthy", 1, 1)
def loss_is_next_to_nothing(draw: Draw) -> Job:
    """A model that has memorised its data: the loss is thousandths, with noise as large as itself."""
    job = reporting(draw).start()
    curve = job.shape.learning
    curve.loss_first, curve.loss_last, curve.halving_steps, curve.loss_noise = 8.0, 0.004, 0.4, 0.01
    wide: dict[int, float] = {}

    def noisy(step: int, rank: int, value: float) -> float:
        return value * wide.setdefault(step, draw.lognormvariate(0, 0.3))

    job.measures.bends["loss"] = noisy
    return job.train(400).end()


@scenario("healthy", 1, 1)
def started_anew_under_its_name(draw: Draw) -> Job:
    """The run ends normally and starts again from its first step under the same name."""
    job = several(draw).start().train(150).end()
    job.wait(600)
    job.begin_anew()
    return job.train(150).end()


@scenario("healthy", 1, 1)
def numbers_seldom(draw: Draw) -> Job:
    """Only beats of each tenth or twentieth step contain numbers."""
    job = reporting(draw)
    job.measures.only_every = draw.one_of((10, 20))
    return job.start().train(400).end()
