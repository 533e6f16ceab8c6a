"""Ranks that hang, in every phase, with and without a second indication."""

from __future__ import annotations

from simulator.draw import Draw
from simulator.job import Job
from simulator.trace import Trace

from .registry import new_job, scenario, several, warm_up

# Without a second indication the learnt deadline of the phase counts, which is at least two minutes.
BY_SILENCE = {"promised": 180.0, "deadline": 420.0}


def beating(draw: Draw) -> dict[str, object]:
    """Return changes that make ranks send beats also while no step ends."""
    return {"beat_seconds": draw.one_of((1.0, 2.0, 5.0)), "step_seconds": draw.spread(0.3, 4.0)}


@scenario("stuck", 2, 2)
def stopped_rank(draw: Draw) -> Job:
    """One rank is stopped; the others send beats and wait for it."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    return job.hang(draw.between(200, 500), silent=[culprit])


@scenario("stuck", 1, 2)
def stopped_rank_goes_on(draw: Draw) -> Job:
    """A stopped rank is continued after a while, and training continues."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    culprit = draw.whole(1, job.world - 1)
    label = job.expect("stuck", [culprit])
    job.hang(draw.between(120, 240), silent=[culprit]).wake([culprit])
    label.recovered(job.now)
    return job.train(80).end()


@scenario("stuck", 1, 1)
def all_wait(draw: Draw) -> Job:
    """Every rank sends beats and none finishes a step: a deadlock without a known culprit."""
    job = several(draw, modules=draw.chance(0.3), **beating(draw)).start().train(warm_up(draw))
    for rank in range(job.world):
        job.place[rank] = "head"
    job.expect("stuck", **BY_SILENCE)
    return job.hang(draw.between(500, 900))


@scenario("stuck", 1, 1)
def one_step_behind(draw: Draw) -> Job:
    """All send beats, but one rank never finished a step that the others have finished."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit], **BY_SILENCE)
    return job.hang(600, behind=[culprit])


@scenario("stuck", 1, 1)
def inside_a_module(draw: Draw) -> Job:
    """All send beats at the same step; one rank is in another module than the rest."""
    job = several(draw, modules=True, **beating(draw)).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    for rank in range(job.world):
        job.place[rank] = f"layers.{draw.whole(1, 3)}.mlp" if rank == culprit else "head"
    job.expect("stuck", [culprit], naming="maybe", **BY_SILENCE)
    return job.hang(600)


@scenario("stuck", 1, 2)
def silence(draw: Draw) -> Job:
    """Beats come only with steps; then none come, and the file ends there."""
    job = new_job(draw, beat_seconds=None, idle_seconds=None, step_seconds=draw.spread(0.3, 3)).start()
    job.train(warm_up(draw))
    job.expect("stuck", promised=180, deadline=550)
    return job


@scenario("stuck")
def last_line_is_a_heartbeat(draw: Draw) -> Job:
    """A single rank's last beat is a heartbeat of a step that ended long before."""
    job = new_job(draw, world=1, beat_seconds=10.0, step_seconds=1.1).start().train(warm_up(draw))
    job.expect("stuck", **BY_SILENCE)
    return job.hang(45)


@scenario("stuck")
def in_evaluation(draw: Draw) -> Job:
    """Evaluations took half a minute each; one does not end."""
    job = several(draw, eval_every=40, eval_seconds=draw.between(15, 30), **beating(draw)).start()
    job.train(40 * 4 + 39)
    job.expect("stuck", onset=60.0, promised=300, deadline=1300)
    job.enter("eval", 1600)
    return job


@scenario("stuck")
def in_checkpoint(draw: Draw) -> Job:
    """Checkpoints took some seconds; one never ends, and no rank leaves it."""
    job = several(draw, checkpoint_every=50, checkpoint_seconds=draw.between(5, 20), **beating(draw)).start()
    job.train(50 * 4 + 49)
    job.expect("stuck", onset=40.0, also=["checkpoint_overdue"], promised=300, deadline=1200)
    job.enter("checkpoint", 1500)
    return job


@scenario("stuck", 2, 2)
def pause_expires(draw: Draw) -> Job:
    """A pause expires without a resume; beats in the pause neither end nor prolong it."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    expires = draw.between(100, 300)
    job.event("pause", expires_seconds=round(expires, 1))
    phase = draw.one_of(("train", "paused"))
    job.expect("stuck", onset=expires, promised=200, deadline=450)
    job.phase = phase
    if draw.chance(0.5):
        return job.hang(expires + 500)
    job.hang(expires * 0.6)
    return job.hang(expires * 0.6 + 60, silent=range(job.world))


@scenario("stuck")
def after_resume(draw: Draw) -> Job:
    """A long pause ends by resume; a hang that follows is no longer protected."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    job.event("pause", expires_seconds=7200)
    job.hang(draw.between(200, 900))
    job.event("resume")
    job.train(60)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    return job.hang(400, silent=[culprit])


@scenario("stuck")
def restart_ends_pause(draw: Draw) -> Job:
    """A restart ends a pause of an hour; the new incarnation hangs within that hour."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    job.event("pause", expires_seconds=3600)
    job.hang(100)
    job.restart(20, step=50).train(100)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    return job.hang(400, silent=[culprit])


@scenario("stuck")
def soon_after_restart(draw: Draw) -> Job:
    """A run is preempted, restarted, and hangs after some steps."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    job.event("end", reason="signal")
    job.all_gone()
    job.restart(120, step=60).train(draw.whole(40, 60))
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    return job.hang(500, silent=[culprit])


@scenario("stuck")
def a_host_is_silent(draw: Draw) -> Job:
    """All ranks of one host fall silent at once while the others wait."""
    job = new_job(draw, world=draw.either(64, 32), beat_seconds=5.0, host_ranks=8, step_seconds=2.0)
    job.start().train(70)
    host = draw.whole(0, job.world // 8 - 1)
    ranks = range(8 * host, 8 * host + 8)
    job.expect("stuck", ranks, also=["process_lost"])
    return job.hang(240, silent=ranks)


@scenario("stuck")
def one_of_many(draw: Draw) -> Job:
    """One of 256 ranks is silent."""
    job = new_job(draw, world=draw.either(256, 192), beat_seconds=15.0, step_seconds=draw.between(4, 9))
    job.start(20.0).train(45)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    return job.hang(180, silent=[culprit])


@scenario("stuck")
def while_the_clock_is_set(draw: Draw) -> Trace:
    """The observer's clock is set while a rank hangs; the delay counts in elapsed time."""
    job = several(draw, **beating(draw)).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("stuck", [culprit])
    job.hang(400, silent=[culprit])
    return Trace(job).clock_step(label.onset + 4.0, draw.one_of((-3600.0, -90.0, 86400.0, 45.5)))


@scenario("stuck")
def in_init(draw: Draw) -> Job:
    """A run never reaches its first step; its ranks send beats in init for hours."""
    job = new_job(draw, world=8, beat_seconds=60.0)
    job.event("start", world=job.world, host="h1")
    job.expect("stuck", since=0, promised=3600, deadline=10800)
    return job.init(11000)


@scenario("stuck")
def a_rank_never_joins(draw: Draw) -> Job:
    """One rank of the world never sends a beat; the others wait for it in init."""
    job = new_job(draw, world=8, beat_seconds=30.0)
    job.event("start", world=job.world, host="h1")
    missing = draw.whole(0, job.world - 1)
    job.silent.add(missing)
    job.expect("stuck", [missing], naming="maybe", also=["process_lost"], since=0, promised=3600, deadline=10800)
    return job.init(11000)


@scenario("stuck")
def beside_a_healthy_run(draw: Draw) -> Trace:
    """Two runs in one file; one hangs, the other trains with the same ranks and steps."""
    sick = new_job(draw, world=4, **beating(draw)).start().train(100)
    well = Job(draw, sick.shape.but(run="r2"), at=3.0).start().train(100)
    culprit = draw.whole(0, 3)
    sick.expect("stuck", [culprit])
    sick.hang(300, silent=[culprit])
    well.train(seconds=sick.now - well.now + 5).end()
    return Trace(sick, well)
