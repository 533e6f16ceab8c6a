"""Runs without noise, with coarse numbers, or with a short history."""

from __future__ import annotations

import math
from typing import Callable

from simulator.draw import Draw
from simulator.job import Job

from .deaths import OWN_ERRORS, raise_on
from .losses import spike
from .numbers import constant, from_step
from .registry import new_job, scenario
from .speed import OWN_TIME, due


def exact(draw: Draw, world: int = 0, **changes: object) -> Job:
    """Return a job whose steps all have the same length and whose numbers lie on their curves."""
    world = world or draw.one_of((2, 4, 8))
    given = {"jitter": 0.0, "beat_seconds": None, "idle_seconds": 1.0, "step_seconds": draw.one_of((0.5, 1.0, 2.0))}
    job = new_job(draw, world=world, **{**given, **OWN_TIME, **changes})
    job.shape.learning.loss_noise = job.shape.learning.grad_noise = 0.0
    return job


def soon(draw: Draw) -> int:
    """Return a small number of steps."""
    return draw.whole(*draw.either((40, 70), (30, 60)))


@scenario("healthy", 2, 2)
def without_noise(draw: Draw) -> Job:
    """Every step has the same length, and the numbers lie on smooth curves."""
    return exact(draw).start().train(200).end()


@scenario("healthy", 2, 2)
def always_the_same(draw: Draw) -> Job:
    """Loss and norm are the same at each step; sometimes the last digit changes."""
    job = exact(draw).start()
    job.measures.bends["loss"] = lambda step, rank, value: 2.0 if step % 37 else 2.01
    job.measures.bends["grad_norm"] = lambda step, rank, value: 1.0 if step % 41 else 1.02
    return job.train(250).end()


@scenario("healthy", 2, 2)
def coarse_numbers(draw: Draw) -> Job:
    """Loss and norm are written with one digit, times in tenths."""
    job = exact(draw)
    job.shape.learning.loss_noise = 0.01
    job.shape.learning.loss_first, job.shape.learning.loss_last = 9.0, 2.0
    job.start()
    for name in ("loss", "grad_norm"):
        job.measures.bends[name] = lambda step, rank, value: round(value, 1)
    return job.train(250).end()


@scenario("healthy", 2, 2)
def few_steps(draw: Draw) -> Job:
    """A run of a dozen steps."""
    return new_job(draw).start().train(draw.whole(3, 20)).end()


@scenario("healthy", 1, 1)
def a_slow_first_step(draw: Draw) -> Job:
    """The first steps take ten times as long as all others: kernels are chosen, caches are filled."""
    job = exact(draw)
    job.pace = lambda step: 10.0 if step <= 3 else 1.0
    return job.start().train(150).end()


@scenario("healthy", 1, 1)
def faster_and_back(draw: Draw) -> Job:
    """Short sequences make some hundred steps fast; then they have their former length again."""
    job = exact(draw)
    job.pace = lambda step: 0.4 if 100 < step <= 250 else 1.0
    job.measures.tokens = lambda step: job.shape.tokens * 2 // 5 if 100 < step <= 250 else job.shape.tokens
    return job.start().train(450).end()


Told = Callable[[Draw, Job], Job]


def bent(job: Job, kind: str, name: str, factor: float, steps: int = 60) -> Job:
    """Let a number change by a factor and label it."""
    job.expect(kind, tolerance=3)
    job.measures.bends[name] = from_step(job, lambda after, rank, value: value * factor)
    return job.train(steps)


@scenario("plain", 1, 1)
def spike_without_noise(draw: Draw) -> Job:
    """A smooth loss jumps to three times its value and recovers."""
    job = exact(draw).start().train(soon(draw))
    spike(job, 3.0, 1, 10.0)
    return job.train(150).end()


@scenario("plain", 1, 1)
def spike_of_a_constant(draw: Draw) -> Job:
    """A loss of constantly 2 is 6 for five steps."""
    job = exact(draw).start()
    job.measures.bends["loss"] = constant(2.0)
    job.train(soon(draw))
    label = job.expect("loss_spike", tolerance=2)
    job.measures.bends["loss"] = constant(6.0)
    job.train(5)
    job.measures.bends["loss"] = constant(2.0)
    label.recovered(job.now)
    return job.train(150).end()


@scenario("plain", 1, 1)
def explosion_soon(draw: Draw) -> Job:
    """The norm grows a hundredfold after some dozen steps."""
    return bent(exact(draw).start().train(soon(draw)), "grad_explosion", "grad_norm", 100.0)


@scenario("plain", 1, 1)
def collapse_soon(draw: Draw) -> Job:
    """The norm falls to a millionth after some dozen steps."""
    job = exact(draw).start().train(soon(draw))
    job.expect("grad_collapse", tolerance=3, promised=40 * job.shape.step_seconds + 30)
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * 1e-6)
    return job.train(150)


@scenario("plain", 1, 1)
def divergence_soon(draw: Draw) -> Job:
    """The loss grows by a twentieth with each step after some dozen steps."""
    job = exact(draw).start().train(soon(draw) + 20)
    base = job.shape.learning.loss(job.step)
    times = {"promised": 25 * job.shape.step_seconds + 30, "deadline": 70 * job.shape.step_seconds + 30}
    job.expect("divergence", also=["loss_spike"], tolerance=20, **times)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: base * math.exp(min(0.05 * after, 4)))
    return job.train(150)


@scenario("plain", 1, 1)
def drop_soon(draw: Draw) -> Job:
    """Steps take twice as long after some dozen steps, for six minutes."""
    job = exact(draw).start().train(soon(draw))
    job.expect("throughput_drop", tolerance=10, promised=150, deadline=360)
    job.pace = lambda step: 2.0
    return job.train(seconds=420)


@scenario("plain", 1, 1)
def straggler_soon(draw: Draw) -> Job:
    """One rank's own time doubles after some dozen steps."""
    job = exact(draw, world=4).start().train(soon(draw))
    culprit = draw.whole(0, 3)
    job.expect("straggler", [culprit], tolerance=10)
    job.slow[culprit] = 2.0
    return job.train(seconds=400)


@scenario("plain", 1, 1)
def disagreement_soon(draw: Draw) -> Job:
    """One rank's reduced loss differs after some dozen steps."""
    job = exact(draw, world=4, loss_from="reduced").start().train(soon(draw))
    culprit = draw.whole(0, 3)
    job.expect("rank_disagreement", [culprit])
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value * (1.2 if rank == culprit else 1))
    return job.train(100)


@scenario("plain", 1, 1)
def overdue_after_three(draw: Draw) -> Job:
    """Three checkpoints came, a minute apart; the fourth is missing."""
    job = exact(draw, checkpoint_every=60, checkpoint_seconds=2.0, step_seconds=1.0).start().train(60 * 3)
    job.expect("checkpoint_overdue", tolerance=65, **{**due(job), "deadline": 500})
    job.saves = False
    return job.train(700)


@scenario("plain", 1, 1)
def stuck_soon(draw: Draw) -> Job:
    """One rank of four is silent after some dozen steps; the others send beats each second and wait."""
    job = exact(draw, world=4).start().train(soon(draw))
    culprit = draw.whole(0, 3)
    job.expect("stuck", [culprit])
    return job.hang(300, silent=[culprit])


@scenario("plain", 1, 1)
def failure_of_one(draw: Draw) -> Job:
    """A single rank raises and exits."""
    job = exact(draw, world=1).start().train(draw.whole(5, 30))
    job.expect("exception", [0])
    raise_on(job, 0, draw.one_of(OWN_ERRORS))
    job.wait(0.5)
    return job.end("error")
