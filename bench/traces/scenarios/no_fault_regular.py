"""Healthy runs derived from the trace format alone, without knowledge of a detector: regular, simple, and long."""

from __future__ import annotations

from typing import Any

from simulator.draw import Draw
from simulator.job import Job
from simulator.trace import Trace

from .noise_free import exact
from .registry import new_job, scenario, several


def beating(draw: Draw, **changes: object) -> Job:
    """Return a job of a few ranks that always send beats at an interval."""
    given = {"beat_seconds": draw.one_of((1.0, 2.0, 5.0)), "step_seconds": draw.spread(0.3, 2.0)}
    return new_job(draw, world=draw.one_of((2, 4, 8)), **{**given, **changes})


@scenario("healthy", 2, 2)
def evaluation_of_an_hour(draw: Draw) -> Job:
    """The first evaluation takes up to an hour, while its ranks send beats."""
    job = beating(draw).start().train(120)
    job.evaluate(draw.between(1500, 3400))
    return job.train(80).end()


@scenario("healthy", 2, 2)
def evaluations_of_any_length(draw: Draw) -> Job:
    """A short evaluation is followed by one of eight times its length, and that by one of three times that."""
    job = beating(draw, beat_seconds=draw.one_of((None, 2.0, 10.0))).start().train(60)
    first = draw.between(20, 60)
    for seconds in (first, 8 * first, 24 * first, 10.0):
        job.evaluate(seconds)
        job.train(40)
    return job.end()


@scenario("healthy", 2, 2)
def checkpoint_of_a_quarter_of_an_hour(draw: Draw) -> Job:
    """The first checkpoint takes a quarter of an hour, the next ones half of that."""
    job = beating(draw, beat_seconds=draw.one_of((None, 5.0))).start().train(100)
    for seconds in (900, 450, 500):
        job.checkpoint(seconds * draw.between(0.9, 1.2))
        job.train(100)
    return job.end()


@scenario("healthy", 2, 2)
def first_rank_works_alone(draw: Draw) -> Job:
    """Only the first rank evaluates and saves, for minutes; the others report training, and wait for it."""
    job = beating(draw).start()
    plain_beat = job._beat
    alone = {"phase": ""}

    def beat(rank: int, at: float) -> None:
        job.phase = alone["phase"] if alone["phase"] and rank == 0 else "train"
        plain_beat(rank, at)

    job.train(100)
    job._beat = beat  # type: ignore[method-assign]
    for phase in ("eval", "checkpoint", "eval"):
        alone["phase"] = phase
        job.wait(draw.between(60, 280))
        alone["phase"] = ""
        job.train(80)
    return job.end()


@scenario("healthy", 2, 2)
def steps_of_minutes(draw: Draw) -> Job:
    """Each step takes minutes, and beats come only with steps."""
    job = exact(draw, world=draw.one_of((1, 4)), idle_seconds=None, step_seconds=draw.between(130, 280))
    return job.start(60).train(40).end()


@scenario("healthy", 2, 2)
def compiles_in_silence(draw: Draw) -> Job:
    """The first step takes minutes without beats, the second one a minute, after a restart as well."""
    job = exact(draw, idle_seconds=None)
    first = draw.between(200, 500)
    job.hiccup = lambda step: first if step == 1 else 70.0 if step == 2 else 0.0
    job.start().train(100).end("signal")
    begin = job.step
    job.restart(30)
    job.hiccup = lambda step: first if step == begin + 1 else 70.0 if step == begin + 2 else 0.0
    return job.train(100).end()


@scenario("healthy", 3, 3)
def hiccups_among_idle_beats(draw: Draw) -> Job:
    """Some steps take half a minute; ranks send beats at steps, and each five seconds while none ends."""
    every, extra = draw.whole(25, 60), draw.between(8, 45)
    job = several(draw, beat_seconds=None, idle_seconds=5.0, step_seconds=draw.spread(0.3, 1.0))
    job.hiccup = lambda step: extra if step % every == 0 else 0.0
    return job.start().train(every * 8).end()


@scenario("healthy", 2, 2)
def lines_come_in_a_burst(draw: Draw) -> Trace:
    """For up to a hundred seconds no line is written; then all of them come at once."""
    job = beating(draw).start().train(seconds=150)
    begin, seconds = job.now, draw.between(40, 100)
    job.train(seconds=seconds + 120).end()
    job.lines = [(begin + seconds if begin < at < begin + seconds else at, line) for at, line in job.lines]
    return Trace(job)


@scenario("healthy", 1, 1)
def a_signal_to_nobody_in_particular(draw: Draw) -> Job:
    """A scheduler's signal is reported without a rank, the processes exit without an end, and the run is restarted."""
    job = several(draw, checkpoint_every=40).start().train(100)
    job.event("signal", number=15)
    job.wait(draw.between(0.5, 20))
    return job.all_gone().restart(draw.between(60, 600)).train(80).end()


@scenario("healthy", 2, 2)
def losses_of_evaluations_stay(draw: Draw) -> Job:
    """Evaluations report a separate loss, and beats after them repeat it until the next one is measured."""
    job = beating(draw, eval_every=50, eval_seconds=20.0, loss_from="reduced").start()
    factor, stay = draw.between(1.6, 4.0), draw.whole(1, 3)
    after = {"step": -1, "loss": 0.0}

    def loss(step: int, rank: int, value: float) -> float:
        if job.phase == "eval":
            if after["step"] != step:
                after.update(step=step, loss=value * factor)
            return after["loss"]
        return after["loss"] if after["step"] < step <= after["step"] + stay else value

    job.measures.bends["loss"] = loss
    plain_evaluate = job.evaluate

    def evaluate(seconds: Any = None) -> None:
        job.measures.redraw()
        plain_evaluate(seconds)

    job.evaluate = evaluate  # type: ignore[method-assign]
    return job.train(320).end()


@scenario("healthy", 1, 1)
def own_numbers_agree_at_first(draw: Draw) -> Job:
    """Custom numbers are equal on all ranks for long, like a count of open files, and then differ."""
    job = several(draw, beat_seconds=None).start()
    job.measures.extra["open_files"] = lambda step, rank: 12 if step < 150 else 12 + rank
    job.measures.extra["memory_gigabytes"] = lambda step, rank: 41.5 if step < 100 else 41.5 + 0.5 * (rank % 3)
    job.measures.extra["epoch"] = lambda step, rank: step // 60
    return job.train(260).end()


@scenario("healthy", 1, 1)
def constant_scale(draw: Draw) -> Job:
    """All beats carry the same loss scale, module and learning rate; the loss falls smoothly."""
    job = exact(draw)
    job.shape.reports |= {"loss_scale"}
    return job.start().train(300).end()


@scenario("healthy", 2, 2)
def whole_seconds(draw: Draw) -> Job:
    """The observer writes whole seconds; steps are shorter than one."""
    job = exact(draw, world=4, step_seconds=draw.one_of((0.3, 0.43, 0.7, 0.9)), idle_seconds=None)
    job.shape.jitter = 0.02
    job.start().train(400).end()
    job.lines = [(float(round(at)), line) for at, line in job.lines]
    return job
