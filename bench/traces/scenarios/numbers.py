"""Losses and gradient norms that become NaN or infinite, jump, grow, or vanish."""

from __future__ import annotations

import math
from collections.abc import Iterable

from simulator.draw import Draw
from simulator.job import Job
from simulator.measures import Bend

from .registry import every_step, new_job, scenario, several, warm_up

NAN = math.nan


def from_step(job: Job, change: Bend, ranks: Iterable[int] = (), late_ranks: int = 0) -> Bend:
    """Return a bend that begins at the job's next step; with ranks, the others follow ``late_ranks`` steps later."""
    first, chosen = job.step + 1, set(ranks)

    def bend(step: int, rank: int, value: float) -> float:
        begin = first if not chosen or rank in chosen else first + late_ranks
        return change(step - begin, rank, value) if step >= begin else value

    return bend


def constant(value: float) -> Bend:
    """Return a bend to one value."""
    return lambda step, rank, healthy: value


def reporting(draw: Draw, world: int = 0, **changes: object) -> Job:
    """Return a job whose loss and gradient norm are reported, each step or each second."""
    world = world or draw.one_of(draw.either((2, 4, 8, 8, 16), (3, 6, 8, 12, 24)))
    return new_job(draw, world=world, **{**every_step(draw), **changes})


@scenario("loss_nonfinite", 2, 2)
def from_now_on(draw: Draw) -> Job:
    """The loss is NaN or infinite from one step on, and training continues."""
    job = reporting(draw, loss_from=draw.one_of(("first", "reduced"))).start().train(warm_up(draw))
    job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(draw.one_of((NAN, NAN, math.inf, -math.inf))))
    return job.train(40)


@scenario("loss_nonfinite")
def on_one_rank_first(draw: Draw) -> Job:
    """One rank's own loss is NaN; a step later that of all ranks is."""
    job = reporting(draw, loss_from="each").start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("loss_nonfinite", [culprit])
    job.measures.bends["loss"] = from_step(job, constant(NAN), [culprit], late_ranks=draw.whole(1, 3))
    return job.train(30)


@scenario("loss_nonfinite")
def on_one_rank_only(draw: Draw) -> Job:
    """One rank's own loss is NaN for some steps, with the gradient skipped: it recovers."""
    job = reporting(draw, loss_from="each").start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("loss_nonfinite", [culprit])
    job.measures.bends["loss"] = from_step(job, constant(NAN), [culprit], late_ranks=10**6)
    job.train(draw.whole(1, 4))
    job.measures.heal()
    label.recovered(job.now)
    return job.train(80).end()


@scenario("loss_nonfinite")
def a_single_step(draw: Draw) -> Job:
    """One step has no loss; the next ones do."""
    job = reporting(draw).start().train(warm_up(draw))
    label = job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(draw.one_of((NAN, math.inf))))
    job.train(1)
    job.measures.heal()
    label.recovered(job.now)
    return job.train(100).end()


@scenario("loss_nonfinite")
def with_the_gradient(draw: Draw) -> Job:
    """Loss and gradient norm are NaN in the same beat: one incident."""
    job = reporting(draw).start().train(warm_up(draw))
    job.expect("loss_nonfinite", also=["grad_nonfinite"])
    job.measures.bends["loss"] = from_step(job, constant(NAN))
    job.measures.bends["grad_norm"] = from_step(job, constant(NAN))
    return job.train(40)


@scenario("loss_nonfinite")
def in_the_first_steps(draw: Draw) -> Job:
    """The loss is NaN before the run has a history."""
    job = reporting(draw, world=draw.one_of((1, 2, 4))).start().train(draw.whole(1, 3))
    job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(NAN))
    return job.train(60).end()


@scenario("loss_nonfinite", 1, 2)
def between_heartbeats(draw: Draw) -> Job:
    """Beats come each ten seconds with many steps between; the NaN stays in the gauge."""
    job = several(draw, beat_seconds=10.0, step_seconds=draw.spread(0.1, 0.6), log_every=draw.one_of((1, 10)))
    job.start().train(seconds=300)
    job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(NAN))
    return job.train(seconds=120)


@scenario("loss_nonfinite")
def repeated_by_heartbeats(draw: Draw) -> Job:
    """A NaN of one slow step is repeated by many heartbeats, and through a checkpoint: one incident."""
    job = several(draw, beat_seconds=1.0, step_seconds=draw.between(6, 9)).start().train(40)
    label = job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(NAN))
    job.train(1)
    job.checkpoint(20.0)
    job.measures.heal()
    job.train(1)
    label.recovered(job.now)
    return job.train(20).end()


@scenario("loss_nonfinite")
def restarted_from_before(draw: Draw) -> Job:
    """NaN, restart from the last checkpoint, recovery."""
    job = reporting(draw, checkpoint_every=50).start().train(warm_up(draw))
    label = job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(NAN))
    job.train(15).end("signal")
    job.restart(60)
    label.recovered(job.restarted_at)
    return job.train(120).end()


@scenario("loss_nonfinite")
def twice(draw: Draw) -> Job:
    """NaN, long recovery, NaN again: two incidents."""
    job = reporting(draw).start().train(100)
    for _ in range(2):
        label = job.expect("loss_nonfinite")
        job.measures.bends["loss"] = from_step(job, constant(NAN))
        job.train(3)
        job.measures.heal()
        label.recovered(job.now)
        job.train(300)
    return job.end()


@scenario("grad_nonfinite", 2, 2)
def norm_is_nan(draw: Draw) -> Job:
    """The gradient norm is NaN from a step on, without a loss scale; the loss stays finite."""
    job = reporting(draw).start().train(warm_up(draw))
    job.expect("grad_nonfinite")
    job.measures.bends["grad_norm"] = from_step(job, constant(draw.one_of((NAN, math.inf))))
    return job.train(40)


@scenario("grad_nonfinite")
def norm_is_nan_once(draw: Draw) -> Job:
    """Without a loss scale, one step's norm is NaN; then the run recovers."""
    job = reporting(draw).start().train(warm_up(draw))
    label = job.expect("grad_nonfinite")
    job.measures.bends["grad_norm"] = from_step(job, constant(NAN))
    job.train(1)
    job.measures.heal()
    label.recovered(job.now)
    return job.train(100).end()


@scenario("grad_nonfinite", 1, 2)
def scale_falls_to_its_floor(draw: Draw) -> Job:
    """Every step overflows and is skipped; the loss scale halves down to its floor and does not help."""
    job = reporting(draw)
    job.shape.reports |= {"loss_scale"}
    job.start().train(warm_up(draw))
    job.expect("grad_nonfinite", deadline=60 * job.shape.step_seconds + 30, promised=20 * job.shape.step_seconds)
    job.measures.bends["grad_norm"] = from_step(job, constant(math.inf))
    job.measures.bends["loss_scale"] = from_step(job, lambda after, rank, value: max(value / 2 ** (after + 1), 1.0))
    return job.train(80)


@scenario("grad_nonfinite")
def the_loss_follows(draw: Draw) -> Job:
    """The norm is NaN, the update is applied, and from the next step on the loss is NaN: one incident."""
    job = reporting(draw).start().train(warm_up(draw))
    job.expect("grad_nonfinite", also=["loss_nonfinite"])
    job.measures.bends["grad_norm"] = from_step(job, constant(NAN))
    job.train(1)
    job.measures.bends["loss"] = from_step(job, constant(NAN))
    return job.train(30)


@scenario("grad_nonfinite")
def of_one_rank(draw: Draw) -> Job:
    """One rank's norm is NaN first; all ranks' are three steps later."""
    job = reporting(draw).start().train(warm_up(draw))
    culprit = draw.whole(1, job.world - 1)
    job.expect("grad_nonfinite", [culprit], also=["rank_disagreement"])
    job.measures.bends["grad_norm"] = from_step(job, constant(NAN), [culprit], late_ranks=3)
    return job.train(30)


@scenario("grad_nonfinite")
def norm_between_heartbeats(draw: Draw) -> Job:
    """Sparse beats of a run with many ranks."""
    job = new_job(draw, world=draw.either(256, 96), beat_seconds=15.0, step_seconds=draw.between(1, 3)).start(30.0)
    job.train(seconds=300)
    job.expect("grad_nonfinite")
    job.measures.bends["grad_norm"] = from_step(job, constant(NAN))
    return job.train(seconds=90)


@scenario("grad_nonfinite")
def norm_and_restart(draw: Draw) -> Job:
    """NaN norms, then a restart from the last checkpoint."""
    job = reporting(draw, checkpoint_every=50).start().train(warm_up(draw))
    label = job.expect("grad_nonfinite")
    job.measures.bends["grad_norm"] = from_step(job, constant(NAN))
    job.train(10).all_gone()
    job.tolerate("process_lost", seconds=60.0)
    job.restart(60)
    label.recovered(job.restarted_at)
    return job.train(100).end()


def explode(draw: Draw, factor: float, growth: float = 0.0) -> Bend:
    """Return a bend by a factor, immediate or exponential."""
    return lambda after, rank, value: value * (min(factor, math.exp(growth * (after + 1))) if growth else factor)


@scenario("grad_explosion", 3, 3)
def abrupt(draw: Draw) -> Job:
    """The norm is far above all earlier ones, from one step on."""
    job = reporting(draw).start().train(warm_up(draw))
    job.expect("grad_explosion")
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, draw.spread(*draw.either((40, 5000), (25, 30000)))))
    return job.train(60)


@scenario("grad_explosion", 2, 2)
def growing(draw: Draw) -> Job:
    """The norm grows by a factor with each step."""
    job = reporting(draw).start().train(warm_up(draw))
    growth = draw.between(0.1, 0.5)
    job.expect("grad_explosion", tolerance=int(4 / growth), promised=(3.5 / growth + 5) * job.shape.step_seconds + 30)
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, 1e9, growth))
    return job.train(int(14 / growth))


@scenario("grad_explosion", 2, 2)
def calms_down(draw: Draw) -> Job:
    """The norm is large for some steps and recovers; the loss is unaffected."""
    job = reporting(draw).start().train(warm_up(draw))
    label = job.expect("grad_explosion")
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, draw.spread(50, 1000)))
    job.train(draw.whole(8, 20))
    job.measures.heal()
    label.recovered(job.now)
    return job.train(150).end()


@scenario("grad_explosion", 1, 1)
def between_sparse_beats(draw: Draw) -> Job:
    """Beats each ten seconds; the norm stays high."""
    job = several(draw, beat_seconds=10.0, step_seconds=draw.spread(0.2, 1.5)).start().train(seconds=600)
    job.expect("grad_explosion")
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, draw.spread(60, 2000)))
    return job.train(seconds=240)


@scenario("grad_explosion", 1, 1)
def and_the_loss_follows(draw: Draw) -> Job:
    """The norm explodes, and three steps later the loss jumps: one cause."""
    job = reporting(draw).start().train(warm_up(draw))
    job.expect("grad_explosion", also=["loss_spike", "divergence"])
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, draw.spread(80, 900)))
    job.train(3)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value * min(2.0 + 0.5 * after, 5.0))
    return job.train(60)


@scenario("grad_collapse", 3, 3)
def abruptly(draw: Draw) -> Job:
    """The norm falls almost to zero from one step on; the loss stays at its level."""
    job = reporting(draw).start().train(warm_up(draw))
    job.expect("grad_collapse", promised=40 * job.shape.step_seconds + 30, deadline=150 * job.shape.step_seconds + 60)
    stands = job.shape.learning.loss(job.step)
    factor = draw.one_of((0.0, 1e-7, 1e-5, 1e-4))
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, factor))
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: stands + value * 0.002)
    return job.train(220)


@scenario("grad_collapse", 3, 3)
def slowly(draw: Draw) -> Job:
    """The norm shrinks by a factor with each step, down to zero."""
    job = reporting(draw).start().train(warm_up(draw))
    rate = draw.between(0.1, 0.4)
    steps = 9 / rate
    job.expect(
        "grad_collapse",
        tolerance=int(steps),
        promised=(steps + 40) * job.shape.step_seconds + 30,
        deadline=(steps + 200) * job.shape.step_seconds + 60,
    )
    job.measures.bends["grad_norm"] = from_step(
        job, lambda after, rank, value: value * max(math.exp(-rate * after), 1e-9)
    )
    return job.train(int(2 * steps) + 250)


@scenario("grad_collapse", 1, 1)
def sparse_beats(draw: Draw) -> Job:
    """Beats each ten seconds, zero norms."""
    job = several(draw, beat_seconds=10.0, step_seconds=draw.spread(0.3, 1.0)).start().train(seconds=600)
    job.expect("grad_collapse", promised=300, deadline=900)
    job.measures.bends["grad_norm"] = from_step(job, constant(0.0))
    return job.train(seconds=1000)


@scenario("grad_collapse", 2, 2)
def collapse_is_mended(draw: Draw) -> Job:
    """The norm vanishes for a hundred steps and recovers."""
    job = reporting(draw).start().train(warm_up(draw))
    label = job.expect(
        "grad_collapse", promised=40 * job.shape.step_seconds + 30, deadline=110 * job.shape.step_seconds
    )
    job.measures.bends["grad_norm"] = from_step(job, explode(draw, 1e-6))
    job.train(110)
    job.measures.heal()
    label.recovered(job.now)
    return job.train(150).end()
