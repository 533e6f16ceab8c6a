"""Healthy runs whose steps stop for a reason: evaluations, checkpoints, pauses, compilation, preemption."""

from __future__ import annotations

from simulator.draw import Draw
from simulator.job import Job

from .registry import new_job, paced, scenario, several
from .speed import OWN_TIME

BEATS = {"beat_seconds": 2.0}


@scenario("healthy", 3, 3)
def plain(draw: Draw) -> Job:
    """A run without events."""
    return new_job(draw).start().train(draw.whole(150, 400)).end()


@scenario("healthy", 3, 3)
def long_evaluations(draw: Draw) -> Job:
    """Evaluations of minutes, some of them longer than the previous one; they report a different loss."""
    job = paced(draw, eval_seconds=draw.between(60, draw.either(240, 400)), eval_every=draw.whole(40, 90)).start()
    job.train(job.shape.eval_every * 2 + 5)
    job.shape.eval_seconds *= 1.4
    job.train(job.shape.eval_every)
    job.shape.eval_seconds *= 1.4
    return job.train(job.shape.eval_every * 2).end()


@scenario("healthy", 2, 2)
def first_evaluation_is_long(draw: Draw) -> Job:
    """The first evaluation takes many minutes, so no usual length is known."""
    job = several(draw, **{**BEATS, "beat_seconds": draw.one_of((None, 5.0))}).start().train(120)
    job.evaluate(draw.between(300, draw.either(900, 1500)))
    return job.train(100).end()


@scenario("healthy", 3, 3)
def checkpoints_grow(draw: Draw) -> Job:
    """Each checkpoint takes longer than the previous one, from seconds to minutes."""
    job = paced(draw, checkpoint_every=60).start()
    for part in range(7):
        job.shape.checkpoint_seconds = 15 * draw.between(1.3, 1.6) ** part
        job.train(60)
    return job.train(10).end()


@scenario("healthy", 1, 1)
def checkpoint_on_a_slow_disk(draw: Draw) -> Job:
    """One of many checkpoints takes four times as long."""
    job = paced(draw, checkpoint_every=50, checkpoint_seconds=draw.between(20, 60)).start().train(50 * 5 + 49)
    job.shape.checkpoint_seconds *= 4
    job.train(1)
    job.shape.checkpoint_seconds /= 4
    return job.train(120).end()


@scenario("healthy", 2, 2)
def checkpoints_by_steps(draw: Draw) -> Job:
    """Checkpoints come at steps; their interval varies by longer sequences, evaluations and a pause."""
    job = paced(draw, checkpoint_every=60, checkpoint_seconds=4.0, step_seconds=1.2, **OWN_TIME).start().train(60 * 5)
    job.pace = lambda step: 2.0
    job.measures.tokens = lambda step: job.shape.tokens * 2
    job.train(90)
    job.evaluate(200)
    job.train(35)
    job.event("pause", expires_seconds=1000)
    job.hang(500)
    job.event("resume")
    return job.train(120).end()


@scenario("healthy", 2, 2)
def pauses(draw: Draw) -> Job:
    """Pauses that end by resume, with and without beats; a beat does not end them."""
    job = several(draw, **BEATS).start().train(100)
    for seconds in (200, 600):
        job.event("pause", expires_seconds=seconds * 3)
        if draw.chance(0.5):
            job.phase = "paused"
        job.hang(seconds, silent=range(job.world) if draw.chance(0.5) else ())
        job.silent.clear()
        job.phase = "train"
        job.event("resume")
        job.train(80)
    return job.end()


@scenario("healthy", 1, 1)
def pause_expires_in_training(draw: Draw) -> Job:
    """A pause is not resumed; training continues by itself before and after its expiry."""
    job = several(draw, **BEATS).start().train(100)
    job.event("pause", expires_seconds=300)
    job.hang(200)
    return job.train(seconds=300).end()


@scenario("healthy", 1, 1)
def phase_paused(draw: Draw) -> Job:
    """The beats of the job report a pause, without an event."""
    job = several(draw, **BEATS).start().train(100)
    job.enter("paused", draw.between(60, 110))
    job.back_to_train()
    return job.train(80).end()


@scenario("healthy", 1, 1)
def ends_in_a_pause(draw: Draw) -> Job:
    """The run is paused for two hours, and the file ends there."""
    job = several(draw, **BEATS).start().train(100)
    job.event("pause", expires_seconds=7200)
    job.hang(400)
    job.protected_to_the_end = True
    return job


@scenario("healthy", 3, 3)
def preempted(draw: Draw) -> Job:
    """The run ends by a signal, its processes exit, and it restarts after minutes from its checkpoint."""
    job = several(draw, checkpoint_every=40).start().train(110)
    for _ in range(draw.whole(1, 3)):
        if draw.chance(0.6):
            for rank in range(job.world):
                job.event("signal", rank, after=0.01 * rank, number=15)
            job.wait(1.0)
        job.end("signal")
        job.restart(draw.between(30, 1500)).train(80)
    return job.end()


@scenario("healthy", 1, 1)
def preempted_for_good(draw: Draw) -> Job:
    """The run ends by a signal, and no line follows."""
    job = several(draw).start().train(100)
    job.event("signal", 0, number=15)
    job.wait(0.5)
    return job.end("signal")


@scenario("healthy", 1, 1)
def restarted_without_an_end(draw: Draw) -> Job:
    """A user restarts the whole run during training; steps fall to the checkpoint's, earlier beats come late."""
    job = several(draw, checkpoint_every=50, beat_seconds=2.0).start().train(130)
    last = [line for _, line in job.lines if "beat" in line][-2:]
    job.restart(5.0)
    job.lines += [(job.now - 3.0, line) for line in last]
    return job.train(150).end()


@scenario("healthy", 2, 2)
def compiles(draw: Draw) -> Job:
    """Minutes of compilation at the first step, and again when shapes change."""
    first, later = draw.between(60, draw.either(300, 500)), draw.between(20, 80)
    job = several(draw, beat_seconds=draw.one_of((1.0, 10.0))).start()
    job.hiccup = lambda step: first if step == 1 else later if step in (2, 90) else 0.0
    return job.train(200).end()


@scenario("healthy", 1, 1)
def long_init(draw: Draw) -> Job:
    """Loading takes twenty minutes before the first step."""
    job = several(draw, beat_seconds=10.0)
    return job.start(draw.between(900, 1500)).train(seconds=200).end()


@scenario("healthy", 1, 1)
def late_joiners(draw: Draw) -> Job:
    """Some ranks send their first beat minutes after the others."""
    job = several(draw, beat_seconds=5.0)
    job.event("start", world=job.world, host="h1")
    late = set(draw.sample(range(job.world), job.world // 3))
    job.silent |= late
    job.enter("init", draw.between(60, 240))
    job.silent -= late
    job.enter("init", 20)
    job.phase = "train"
    return job.train(seconds=400).end()


@scenario("healthy", 1, 1)
def elastic(draw: Draw) -> Job:
    """The world shrinks at one restart and grows at the next."""
    job = new_job(draw, world=8, checkpoint_every=40, beat_seconds=2.0).start().train(100)
    job.end("signal")
    job.restart(60, world=6).train(100)
    job.end("signal")
    job.restart(60, world=10).train(100)
    return job.end()


@scenario("healthy", 2, 2)
def a_day(draw: Draw) -> Job:
    """A simulated day, beats once a minute."""
    job = new_job(
        draw,
        world=draw.one_of((1, 3)),
        beat_seconds=60.0,
        step_seconds=draw.between(8, 20),
        checkpoint_every=150,
        checkpoint_seconds=90.0,
        eval_every=400,
        eval_seconds=300.0,
    )
    return job.start().train(seconds=86400).end()


@scenario("healthy", 1, 1)
def a_day_by_steps(draw: Draw) -> Job:
    """A simulated day of one rank with slow steps and a beat at each."""
    job = new_job(draw, world=1, beat_seconds=None, idle_seconds=None, step_seconds=25.0, jitter=0.03)
    return job.start().train(seconds=86400).end()


@scenario("healthy", 1, 1)
def many_ranks(draw: Draw) -> Job:
    """256 ranks, sparse beats."""
    job = new_job(draw, world=draw.either(256, 200), beat_seconds=20.0, step_seconds=draw.between(2, 6))
    return job.start(30.0).train(seconds=600).end()


@scenario("healthy", 1, 1)
def ends_without_waiting(draw: Draw) -> Job:
    """The run ends normally; some beats of its last step arrive after the end."""
    job = several(draw, beat_seconds=2.0).start().train(120)
    last = [line for _, line in job.lines if "beat" in line][-3:]
    job.end()
    job.lines += [(job.now + 1.0 + number, line) for number, line in enumerate(last)]
    return job


@scenario("healthy", 1, 1)
def goes_on_from_a_checkpoint(draw: Draw) -> Job:
    """A run that begins at step 120,000, continued from an earlier job."""
    step = draw.whole(100_000, 900_000)
    job = Job(draw, several(draw).shape, step=step)
    return job.start().train(200).end()
