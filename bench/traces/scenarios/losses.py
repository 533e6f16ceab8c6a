"""Losses that jump and recover, that rise permanently, and ranks that disagree."""

from __future__ import annotations

import math

from simulator.draw import Draw
from simulator.job import Job
from simulator.label import Label
from simulator.measures import Bend

from .numbers import from_step, reporting
from .registry import new_job, scenario, several, warm_up


def hump(height: float, rise: int, fall: float) -> Bend:
    """Return a bend that multiplies by up to ``height`` after ``rise`` steps and decays over ``fall`` steps."""

    def bend(after: int, rank: int, value: float) -> float:
        if after < rise:
            return value * (1 + (height - 1) * (after + 1) / rise)
        return value * (1 + (height - 1) * math.exp(-(after - rise) / fall))

    return bend


def spike(job: Job, height: float, rise: int, fall: float, **times: float) -> Label:
    """Let the loss jump and recover, and label it."""
    label = job.expect("loss_spike", tolerance=2 + rise, **times)  # type: ignore[arg-type]
    job.measures.bends["loss"] = from_step(job, hump(height, rise, fall))
    # From half of the height on, a detector may resolve the incident.
    job.train(rise + int(fall * math.log((height - 1) / 0.5)) + 1)
    label.recovered(job.now)
    job.train(int(fall * math.log(0.5 / 0.03)))
    return label


@scenario("loss_spike", 3, 3)
def jumps_and_decays(draw: Draw) -> Job:
    """The loss jumps within a step or a few, and decays over dozens of steps."""
    job = reporting(draw).start().train(warm_up(draw))
    spike(job, draw.between(2.2, draw.either(6, 12)), draw.whole(1, 3), draw.between(5, 40))
    return job.train(150).end()


@scenario("loss_spike", 2, 2)
def a_single_step_loss(draw: Draw) -> Job:
    """One step's loss is many times that of its neighbours."""
    job = reporting(draw).start().train(warm_up(draw))
    label = job.expect("loss_spike", tolerance=2)
    factor = draw.between(4, 9)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value * factor)
    job.train(1)
    job.measures.heal()
    label.recovered(job.now)
    return job.train(150).end()


@scenario("loss_spike", 1, 1)
def with_the_norm(draw: Draw) -> Job:
    """Loss and norm jump in the same step: one cause."""
    job = reporting(draw).start().train(warm_up(draw))
    factor = draw.between(15, 60)
    label = job.expect("loss_spike", also=["grad_explosion"], tolerance=3)
    job.measures.bends["grad_norm"] = from_step(job, hump(factor, 1, 8.0))
    job.measures.bends["loss"] = from_step(job, hump(4.0, 1, 12.0))
    job.train(20)
    label.recovered(job.now)
    return job.train(170).end()


@scenario("loss_spike", 1, 1)
def of_a_small_loss(draw: Draw) -> Job:
    """A loss of hundredths jumps by a few hundredths."""
    job = reporting(draw)
    job.shape.learning.loss_first, job.shape.learning.loss_last = 0.06, 0.018
    job.start().train(warm_up(draw))
    spike(job, draw.between(3, 6), 1, draw.between(10, 25))
    return job.train(150).end()


@scenario("loss_spike", 1, 1)
def a_slow_hump(draw: Draw) -> Job:
    """The loss climbs over a dozen steps, none of which is a jump by itself, and recovers."""
    job = reporting(draw).start().train(warm_up(draw, 120))
    rise = draw.whole(8, 16)
    times = {
        "promised": (rise + 8) * job.shape.step_seconds + 30,
        "deadline": (rise + 30) * job.shape.step_seconds + 30,
    }
    label = spike(job, draw.between(2.5, 4), rise, draw.between(15, 30), **times)
    label.also = ("divergence",)
    return job.train(150).end()


@scenario("loss_spike", 1, 1)
def two_spikes(draw: Draw) -> Job:
    """Two spikes with hundreds of healthy steps between: two incidents."""
    job = reporting(draw).start().train(120)
    for _ in range(2):
        spike(job, draw.between(3, 5), 1, 10.0)
        job.train(400)
    return job.end()


@scenario("loss_spike", 1, 1)
def rolled_back(draw: Draw) -> Job:
    """The run restarts from a checkpoint before the spike."""
    job = reporting(draw, checkpoint_every=50).start().train(warm_up(draw))
    label = job.expect("loss_spike", also=["divergence"], tolerance=3)
    job.measures.bends["loss"] = from_step(job, hump(4.0, 2, 200.0))
    job.train(30).end("signal")
    job.restart(60)
    label.recovered(job.restarted_at)
    return job.train(150).end()


@scenario("loss_spike", 2, 2)
def while_it_still_falls(draw: Draw) -> Job:
    """The loss jumps early in training, when its trend is steeper than its noise."""
    job = reporting(draw)
    job.shape.learning.halving_steps = draw.between(20, 60)
    job.start().train(draw.whole(60, 140))
    spike(job, draw.between(1.8, 2.6), 1, draw.between(8, 20))
    return job.train(150).end()


@scenario("loss_spike", 1, 1)
def seen_by_sparse_beats(draw: Draw) -> Job:
    """Beats each ten seconds; the spike lasts minutes."""
    job = several(draw, beat_seconds=10.0, step_seconds=draw.spread(0.3, 1.0)).start().train(seconds=600)
    spike(job, draw.between(3, 5), 1, 60 / job.shape.step_seconds)
    return job.train(seconds=400).end()


def noise_of(draw: Draw, kept: dict[int, float], step: int) -> float:
    """Return the noise of a step, equal for all ranks."""
    if step not in kept:
        kept[step] = draw.gauss(0, 1)
    return kept[step]


@scenario("divergence", 3, 3)
def creeps_up(draw: Draw) -> Job:
    """The loss rises by a little with each step and never falls again."""
    job = reporting(draw).start().train(warm_up(draw, 150, 300))
    rate = draw.between(*draw.either((0.01, 0.03), (0.006, 0.04)))
    doubled = math.log(2.5) / rate
    job.expect(
        "divergence",
        tolerance=int(doubled),
        promised=doubled * job.shape.step_seconds + 30,
        deadline=2.5 * doubled * job.shape.step_seconds + 60,
    )
    base = job.shape.learning.loss(job.step)
    top = base * 12
    noise = job.shape.learning.loss_noise

    kept: dict[int, float] = {}

    def bent(after: int, rank: int, value: float) -> float:
        return min(base * math.exp(rate * after), top) * (1 + noise * noise_of(draw, kept, after))

    job.measures.bends["loss"] = from_step(job, bent)
    return job.train(int(2.6 * doubled) + 60)


@scenario("divergence", 2, 2)
def a_plateau_above(draw: Draw) -> Job:
    """The loss jumps to a much higher level and stays there."""
    job = reporting(draw).start().train(warm_up(draw, 120))
    level = job.shape.learning.loss(job.step) * draw.between(2.5, 5)
    noise = job.shape.learning.loss_noise
    job.expect("divergence", also=["loss_spike"], tolerance=3, deadline=250 * job.shape.step_seconds + 60)
    kept: dict[int, float] = {}
    job.measures.bends["loss"] = from_step(
        job, lambda after, rank, value: level * (1 + noise * noise_of(draw, kept, after))
    )
    return job.train(300)


@scenario("divergence", 1, 1)
def exponential(draw: Draw) -> Job:
    """The loss grows by a tenth or a third with each step: each step's ratio is below that of a jump."""
    job = reporting(draw).start().train(warm_up(draw, 120))
    rate = draw.between(0.1, 0.35)
    job.expect("divergence", also=["loss_spike"], tolerance=int(2 / rate) + 2)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value * math.exp(min(rate * after, 12)))
    return job.train(150)


@scenario("divergence", 1, 1)
def ends_in_nan(draw: Draw) -> Job:
    """The loss creeps up for long and ends in NaN, which may change the incident's kind."""
    job = reporting(draw).start().train(200)
    rate = 0.03
    job.expect("divergence", tolerance=40, promised=45 * job.shape.step_seconds, deadline=115 * job.shape.step_seconds)
    base = job.shape.learning.loss(job.step)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: base * math.exp(rate * after))
    job.train(120)
    job.tolerate("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: math.nan)
    return job.train(30)


@scenario("divergence", 1, 1)
def rises_between_sparse_beats(draw: Draw) -> Job:
    """Beats each ten seconds; the loss climbs for a quarter of an hour."""
    job = several(draw, beat_seconds=10.0, step_seconds=draw.spread(0.4, 1.0)).start().train(seconds=900)
    job.expect(
        "divergence", also=["loss_spike"], tolerance=int(500 / job.shape.step_seconds), promised=500, deadline=1200
    )
    base, step_seconds = job.shape.learning.loss(job.step), job.shape.step_seconds

    def climb(after: int, rank: int, value: float) -> float:
        return base * math.exp(after * step_seconds / 500)

    job.measures.bends["loss"] = from_step(job, climb)
    return job.train(seconds=1300)


@scenario("divergence", 1, 1)
def diverged_and_restarted(draw: Draw) -> Job:
    """The loss rises to a high level until a restart from an earlier checkpoint; afterwards the run is healthy."""
    job = reporting(draw, checkpoint_every=60).start().train(190)
    saved = job.saved_step
    label = job.expect("divergence", also=["loss_spike"], tolerance=15)
    base = job.shape.learning.loss(job.step)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: min(base * (1 + 0.1 * after), base * 6))
    job.train(150).end("signal")
    job.restart(60, step=saved)
    label.recovered(job.restarted_at)
    return job.train(150).end()


def disagreeing(draw: Draw, world: int = 0) -> Job:
    """Return a job whose ranks report values that must be equal on all of them."""
    return reporting(draw, world or draw.one_of(draw.either((4, 8, 16), (3, 6, 12))), loss_from="reduced")


@scenario("rank_disagreement", 3, 3)
def norm_differs(draw: Draw) -> Job:
    """The global norm is equal on all ranks; from one step on one rank's differs."""
    job = disagreeing(draw).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("rank_disagreement", [culprit])
    factor = draw.one_of((1.2, 0.7, 1.6))
    job.measures.bends["grad_norm"] = from_step(
        job, lambda after, rank, value: value * (factor if rank == culprit else 1)
    )
    return job.train(120)


@scenario("rank_disagreement", 2, 2)
def loss_differs(draw: Draw) -> Job:
    """The reduced loss is equal on all ranks; then one rank's diverges."""
    job = disagreeing(draw).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("rank_disagreement", [culprit])

    def bent(after: int, rank: int, value: float) -> float:
        return value * (1.02 + min(0.02 * after, 0.25)) if rank == culprit else value

    job.measures.bends["loss"] = from_step(job, bent)
    return job.train(150)


@scenario("rank_disagreement", 2, 2)
def learning_rate_differs(draw: Draw) -> Job:
    """One rank's scheduler is ahead: its learning rate differs at the same step."""
    job = disagreeing(draw)
    job.shape.reports |= {"lr"}
    job.start().train(warm_up(draw, 100))
    culprit = draw.whole(0, job.world - 1)
    job.expect("rank_disagreement", [culprit])
    job.measures.bends["lr"] = from_step(job, lambda after, rank, value: value * (0.5 if rank == culprit else 1))
    return job.train(120)


@scenario("rank_disagreement", 1, 1)
def one_rank_of_many_heartbeats(draw: Draw) -> Job:
    """Ranks beat at different moments of a long step: values of the same step must be compared."""
    job = new_job(draw, world=draw.either(16, 24), beat_seconds=5.0, step_seconds=8.0, loss_from="reduced")
    job.start().train(60)
    culprit = draw.whole(0, job.world - 1)
    job.expect("rank_disagreement", [culprit])
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * (1.5 if rank == culprit else 1))
    return job.train(40)


@scenario("rank_disagreement", 1, 1)
def sampled_by_beats_of_a_second(draw: Draw) -> Job:
    """Each rank reports about every second step, not all the same ones; one differs permanently."""
    job = new_job(draw, world=16, beat_seconds=1.0, step_seconds=draw.between(0.4, 0.6), loss_from="reduced")
    job.start().train(120)
    culprit = draw.whole(0, job.world - 1)
    job.expect("rank_disagreement", [culprit], tolerance=5)
    job.measures.bends["loss"] = from_step(job, lambda after, rank, value: value * (1.1 if rank == culprit else 1))
    return job.train(150)


@scenario("rank_disagreement", 1, 1)
def agrees_again(draw: Draw) -> Job:
    """After a restart the ranks agree again."""
    job = disagreeing(draw)
    job.shape.checkpoint_every = 50
    job.start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("rank_disagreement", [culprit])
    job.measures.bends["grad_norm"] = from_step(job, lambda after, rank, value: value * (1.4 if rank == culprit else 1))
    job.train(120).end("signal")
    job.restart(60)
    label.recovered(job.restarted_at)
    return job.train(100).end()
