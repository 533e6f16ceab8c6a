"""Healthy runs with suspicious numbers: skipped steps, schedules, curricula, small batches, hiccups, busy hosts."""

from __future__ import annotations

import math
from typing import Any

from simulator.draw import Draw
from simulator.job import Job

from .hardware import Gpus, Hosts, uuid_of
from .numbers import from_step, reporting
from .registry import every_step, new_job, paced, scenario, several
from .speed import OWN_TIME


@scenario("healthy", 3, 3)
def loss_scale_skips(draw: Draw) -> Job:
    """The loss scale grows until a step overflows: its norm is infinite, it is skipped, and the scale halves."""
    job = reporting(draw)
    job.shape.reports |= {"loss_scale"}
    every = draw.whole(25, 60)
    job.start()

    def norm(step: int, rank: int, value: float) -> float:
        return draw.one_of((math.inf, math.nan)) if step % every == 0 else value

    kept: dict[int, float] = {}
    job.measures.bends["grad_norm"] = lambda step, rank, value: kept.setdefault(step, norm(step, rank, value))
    job.measures.bends["loss_scale"] = lambda step, rank, value: 32768.0 if step % every < every // 2 else 65536.0
    return job.train(every * 6).end()


@scenario("healthy", 2, 2)
def loss_scale_finds_its_place(draw: Draw) -> Job:
    """The first steps overflow in a row until the scale is low enough."""
    job = reporting(draw)
    job.shape.reports |= {"loss_scale"}
    skips = draw.whole(3, 8)
    job.start()
    job.measures.bends["grad_norm"] = lambda step, rank, value: math.inf if step <= skips else value
    job.measures.bends["loss_scale"] = lambda step, rank, value: 2.0 ** (24 - min(step, skips))
    return job.train(200).end()


@scenario("healthy", 3, 3)
def small_batches(draw: Draw) -> Job:
    """The loss of small batches has a noise of one third, different on each rank."""
    job = reporting(draw, loss_from=draw.one_of(("first", "each")))
    job.shape.learning.loss_noise = draw.between(0.08, draw.either(0.14, 0.16))
    job.shape.learning.grad_noise = draw.between(0.25, 0.4)
    return job.start().train(400).end()


@scenario("healthy", 3, 3)
def noise_goes_on_for_long(draw: Draw) -> Job:
    """Thousands of noisy losses, independent or correlated: sometimes several are high in a row."""
    job = reporting(draw, world=2, loss_from="first", step_seconds=0.5)
    likeness = draw.one_of((0.0, 0.5, 0.9))
    level, noise = draw.one_of(((0.9, 0.2), (0.0, 0.02), (-3.0, 1.0))) if likeness == 0 else (2.4, 0.1)
    state = [0.0]

    def wander(step: int, rank: int, value: float) -> float:
        state[0] = likeness * state[0] + math.sqrt(1 - likeness**2) * draw.gauss(0, 1)
        return level + noise * state[0]

    job.measures.bends["loss"] = wander
    return job.start().train(4000).end()


@scenario("healthy", 2, 2)
def two_tasks(draw: Draw) -> Job:
    """Each step belongs to one of two tasks, one of which has a loss half as high again."""
    job = reporting(draw, world=4, loss_from="reduced")
    kept: dict[int, bool] = {}
    share = draw.between(0.2, 0.5)
    job.measures.bends["loss"] = lambda step, rank, value: (
        (3.0 if kept.setdefault(step, draw.chance(share)) else 2.0) + value / 100
    )
    return job.start().train(600).end()


@scenario("healthy", 2, 2)
def schedule_begins_anew(draw: Draw) -> Job:
    """The learning rate of a cosine with restarts jumps up; the loss rises by some percent and comes back."""
    job = reporting(draw)
    cycle = draw.whole(120, 180)
    job.shape.learning.cycle_steps = cycle
    job.shape.reports |= {"lr"}
    job.start()
    warm = job.shape.learning.warmup_steps

    def bump(step: int, rank: int, value: float) -> float:
        after = (step - warm) % cycle
        return value * (1 + (0.12 * math.exp(-after / 12) if step > warm + cycle - 1 else 0.0))

    job.measures.bends["loss"] = bump
    return job.train(cycle * 3).end()


@scenario("healthy", 2, 2)
def curriculum(draw: Draw) -> Job:
    """The sequence length doubles: the tokens and the time of a step double, the loss changes a little."""
    job = paced(draw, step_seconds=draw.spread(0.6, 2), **OWN_TIME).start().train(200)
    change = job.step
    job.pace = lambda step: 2.0 if step > change else 1.0
    job.measures.tokens = lambda step: job.shape.tokens * (2 if step > change else 1)
    return job.train(seconds=1200).end()


@scenario("healthy", 2, 2)
def batch_ramp(draw: Draw) -> Job:
    """The batch grows in stages, with more tokens per step and somewhat more time."""
    job = paced(draw, step_seconds=draw.spread(0.6, 2), **OWN_TIME).start()
    stage = 120
    job.pace = lambda step: (1.0, 1.85, 3.5)[min(step // stage, 2)]
    job.measures.tokens = lambda step: job.shape.tokens * (1, 2, 4)[min(step // stage, 2)]
    return job.train(stage * 2).train(seconds=900).end()


@scenario("healthy", 3, 3)
def hiccups_recur(draw: Draw) -> Job:
    """Periodically one step takes ten times as long: the data loader, garbage collection, a flushed log."""
    job = paced(draw, step_seconds=draw.spread(0.3, 1.5)).start()
    every, extra = draw.whole(15, 60), draw.between(5, 12) * job.shape.step_seconds
    job.hiccup = lambda step: extra * draw.between(0.8, 1.2) if step % every == 0 else 0.0
    return job.train(every * 12).end()


@scenario("healthy", 2, 2)
def hiccups_of_any_rank(draw: Draw) -> Job:
    """Different ranks are slow for single steps."""
    job = paced(draw, step_seconds=draw.spread(0.5, 2), **OWN_TIME).start()
    for _ in range(40):
        job.train(draw.whole(3, 9))
        job.slow = {draw.whole(0, job.world - 1): draw.between(1.5, 3)}
        job.train(1)
        job.slow.clear()
    return job.end()


@scenario("healthy", 1, 1)
def sequences_grow(draw: Draw) -> Job:
    """Sequences grow gradually, and with them the tokens and the time of a step."""
    job = paced(draw, step_seconds=draw.spread(0.6, 1.5), **OWN_TIME).start().train(150)
    begin, most = job.step, draw.between(0.8, 2)

    def growth(step: int) -> float:
        return 1 + most * min(1, max(0, step - begin) / 500)

    job.pace = growth
    job.measures.tokens = lambda step: int(job.shape.tokens * growth(step))
    return job.train(600).end()


@scenario("healthy", 1, 1)
def noisy_neighbours(draw: Draw) -> Job:
    """The own time of each rank varies by a quarter from step to step."""
    job = paced(draw, step_seconds=1.0, **OWN_TIME).start()
    for _ in range(300):
        job.slow = {rank: math.exp(0.3 * draw.gauss(0, 1)) for rank in range(job.world)}
        job.train(1)
    return job.end()


@scenario("healthy", 1, 1)
def uneven_ranks(draw: Draw) -> Job:
    """Ranks of the first and last stage of a pipeline have somewhat more work from the beginning."""
    job = paced(draw, step_seconds=1.5, **OWN_TIME)
    quarter = max(1, job.world // 4)
    for rank in range(job.world):
        job.slow[rank] = 1.12 if rank < quarter or rank >= job.world - quarter else 1.0
    return job.start().train(seconds=700).end()


@scenario("healthy", 1, 1)
def own_losses_differ(draw: Draw) -> Job:
    """Each rank reports the loss of its own data and the norm of its own shard, which always differ."""
    job = reporting(draw, world=8, loss_from="each").start()
    job.shape.learning.loss_noise = 0.05
    share = [draw.between(0.5, 2) for _ in range(8)]
    job.measures.bends["grad_norm"] = lambda step, rank, value: value * share[rank]
    return job.train(300).end()


@scenario("healthy", 1, 1)
def sampled_at_different_steps(draw: Draw) -> Job:
    """Heartbeats of many ranks fall on different steps, while the learning rate warms up."""
    job = new_job(draw, world=16, beat_seconds=7.0, step_seconds=0.4, loss_from="reduced")
    job.shape.learning.warmup_steps = 400
    return job.start().train(seconds=500).end()


@scenario("healthy", 1, 1)
def norm_declines(draw: Draw) -> Job:
    """The gradient norm declines tenfold during a run, and so does the loss."""
    job = reporting(draw).start()
    job.measures.bends["grad_norm"] = lambda step, rank, value: value / (1 + step / 60)
    return job.train(540).end()


@scenario("healthy", 1, 1)
def norm_is_lively(draw: Draw) -> Job:
    """The norm triples occasionally for a step."""
    job = reporting(draw).start()
    kept: dict[int, float] = {}

    def lively(step: int, rank: int, value: float) -> float:
        factor = kept.setdefault(step, draw.between(2, 3.2) if draw.chance(0.03) else 1.0)
        return value * factor

    job.measures.bends["grad_norm"] = lively
    return job.train(400).end()


@scenario("healthy", 1, 1)
def learns_fast_then_slow(draw: Draw) -> Job:
    """The loss falls by orders of magnitude, and stands still for hundreds of steps."""
    job = reporting(draw)
    job.shape.learning.halving_steps = 5
    job.shape.learning.loss_last = job.shape.learning.loss_first / 400
    return job.start().train(500).end()


@scenario("healthy", 1, 1)
def negative_and_zero_losses(draw: Draw) -> Job:
    """A loss that is a log-likelihood: it passes zero to negative values, with noise of constant size."""
    job = reporting(draw).start()
    job.measures.bends["loss"] = lambda step, rank, value: 4 * math.exp(-step / 80) - 2 + 0.05 * draw.gauss(0, 1)
    return job.train(400).end()


@scenario("healthy", 1, 1)
def evaluation_has_its_own_loss(draw: Draw) -> Job:
    """In evaluations the beats report another, higher loss."""
    job = paced(draw, eval_every=60, eval_seconds=30.0, beat_seconds=2.0, loss_from="first").start()
    job.measures.bends["loss"] = lambda step, rank, value: value * (2.5 if job.phase == "eval" else 1)
    plain_evaluate = job.evaluate

    def evaluate(seconds: Any = None) -> None:
        job.measures.redraw()
        plain_evaluate(seconds)
        job.measures.redraw()

    job.evaluate = evaluate  # type: ignore[method-assign]
    return job.train(300).end()


@scenario("healthy", 2, 2)
def gauges_stand_still(draw: Draw) -> Job:
    """Loss and norm are measured each tenth or hundredth step and repeat unchanged in between."""
    job = paced(draw, log_every=draw.one_of((10, 100)), step_seconds=0.5, beat_seconds=draw.one_of((1.0, 5.0)))
    return job.start().train(seconds=500).end()


@scenario("healthy", 1, 1)
def unknown_keys(draw: Draw) -> Job:
    """Beats contain unknown numbers of all kinds, some of them not finite, and events of unknown kinds."""
    job = several(draw, **every_step(draw)).start()
    job.measures.extra["moe_aux"] = lambda step, rank: round(draw.random(), 4)
    job.measures.extra["perplexity"] = lambda step, rank: 10 ** draw.whole(0, 6)
    job.measures.extra["queue"] = lambda step, rank: draw.whole(0, 100)
    job.train(100)
    job.event("epoch", 0, number=3)
    return job.train(100).end()


@scenario("healthy", 2, 2)
def old_codes(draw: Draw) -> Job:
    """An old code is in every sample from the beginning, corrected errors rise, GPUs are warm."""
    job = several(draw)
    gpus = Gpus(job, 10.0).watch("temperature_celsius", draw.between(55, 80)).watch("ecc_corrected_total", 100)
    gpus.watch("xid", draw.one_of((43, 13, 31))).watch("ecc_uncorrected_total", draw.one_of((0, 3)))
    job.start().train(100)
    for rank in gpus.ranks[:2]:
        gpus.set(rank, "ecc_corrected_total", 100 + draw.whole(1, 9))
        job.train(30)
    return job.train(60).end()


@scenario("healthy", 1, 1)
def harmless_code(draw: Draw) -> Job:
    """A code that requires no action appears during the run; training continues."""
    job = several(draw)
    gpus = Gpus(job, 10.0)
    job.start().train(100)
    gpus.set(draw.one_of(gpus.ranks), "xid", draw.one_of((43, 63)))
    return job.train(100).end()


@scenario("healthy", 1, 1)
def application_code_and_restart(draw: Draw) -> Job:
    """A code caused by the application, and a restart; whether this is an incident is left open."""
    job = several(draw, checkpoint_every=40)
    gpus = Gpus(job, 10.0)
    job.start().train(100)
    job.tolerate("gpu_fault")
    gpus.set(draw.one_of(gpus.ranks), "xid", draw.one_of((13, 31)))
    job.end("signal")
    job.restart(60)
    return job.train(100).end()


@scenario("healthy", 2, 2)
def busy_host(draw: Draw) -> Job:
    """Memory pressure is high; the kernel's count is not zero at the first sample and never rises."""
    job = several(draw)
    host = Hosts(job, psi=draw.between(20, 70), oom_kill=draw.whole(1, 40))
    job.start().train(120)
    host.psi = 3.0
    return job.train(80).end()


@scenario("healthy", 1, 1)
def count_begins_anew(draw: Draw) -> Job:
    """After a restart on a rebooted host the kernel's count, and that of a GPU's errors, is lower than before."""
    job = several(draw, checkpoint_every=40)
    host = Hosts(job, oom_kill=12)
    gpus = Gpus(job, 15.0).watch("ecc_uncorrected_total", 9)
    job.start().train(100).end("signal")
    host.oom_kill = 0
    gpus.watch("ecc_uncorrected_total", 0)
    job.restart(200).train(100)
    return job.end()


@scenario("healthy", 1, 1)
def idle_gpus(draw: Draw) -> Job:
    """Utilization reads zero in some samples, as between kernels; training keeps its speed."""
    job = several(draw, beat_seconds=2.0)

    def sampler(running: Job) -> list[dict[str, Any]]:
        return [
            {
                "kind": "gpu",
                "rank": rank,
                "uuid": uuid_of(rank),
                "field": "utilization",
                "value": draw.one_of((0, 40, 99)),
            }
            for rank in range(min(running.world, 8))
        ]

    job.sample(15.0, sampler)
    return job.start().train(200).end()


@scenario("healthy", 1, 1)
def no_numbers_at_all(draw: Draw) -> Job:
    """Beats contain only the step and the phase."""
    job = several(draw, reports=frozenset(), modules=False)
    return job.start().train(200).end()


@scenario("healthy", 1, 1)
def rolled_back_in_process(draw: Draw) -> Job:
    """The training loop itself goes back two hundred steps and continues from there, without a restart."""
    job = reporting(draw).start().train(300)
    job.step -= 200
    job.measures.forget()
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value)
    return job.train(250).end()
