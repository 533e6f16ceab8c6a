"""Faults derived from the trace format alone, without knowledge of a detector: regular and simple."""

from __future__ import annotations

import math

from simulator.draw import Draw
from simulator.job import Job

from .deaths import OWN_ERRORS, raise_on
from .hardware import Hosts, uuid_of
from .losses import disagreeing
from .no_fault_regular import beating
from .noise_free import exact
from .numbers import constant, from_step, reporting
from .registry import new_job, paced, scenario, several, warm_up
from .speed import OWN_TIME


@scenario("letter", 3, 3)
def stopped_among_coarse_beats(draw: Draw) -> Job:
    """Ranks send beats each five or ten seconds; one of them stops, and no step ends."""
    job = new_job(draw, world=draw.one_of((2, 4, 8)), beat_seconds=draw.one_of((5.0, 10.0)), step_seconds=1.0)
    job.start().train(seconds=300)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit], promised=8 + 2 * (job.shape.beat_seconds or 0))
    return job.hang(200, silent=[culprit])


@scenario("letter", 2, 2)
def stopped_twice(draw: Draw) -> Job:
    """A rank is stopped for a minute and continued; minutes later it is stopped again: two incidents."""
    job = beating(draw).start().train(120)
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("stuck", [culprit])
    job.hang(60, silent=[culprit]).wake([culprit])
    label.recovered(job.now)
    job.train(seconds=200)
    job.expect("stuck", [culprit])
    return job.hang(200, silent=[culprit])


@scenario("letter", 2, 2)
def stopped_after_few_steps(draw: Draw) -> Job:
    """A rank stops some beats after a resume or a restart."""
    job = beating(draw).start().train(seconds=120)
    if draw.chance(0.5):
        job.event("pause", expires_seconds=3600)
        job.hang(120)
        job.event("resume")
    else:
        job.end("signal").restart(60)
    job.train(seconds=35)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit])
    return job.hang(200, silent=[culprit])


@scenario("letter", 1, 1)
def a_paused_run_never_goes_on(draw: Draw) -> Job:
    """Beats report a pause, also after the pause has expired."""
    job = beating(draw).start().train(100)
    job.event("pause", expires_seconds=120)
    job.phase = "paused"
    job.expect("stuck", onset=120, promised=200, deadline=400)
    return job.hang(700)


@scenario("letter", 1, 1)
def a_reported_norm_differs(draw: Draw) -> Job:
    """The norm of the weights, under a custom name, is equal on all ranks; then one rank's differs."""
    job = several(draw, beat_seconds=None).start()
    job.measures.extra["param_norm"] = lambda step, rank: round(120 + 0.01 * step, 4)
    job.train(warm_up(draw))
    culprit, first = draw.whole(0, job.world - 1), job.step + 1
    job.expect("rank_disagreement", [culprit])
    job.measures.extra["param_norm"] = lambda step, rank: round(
        (120 + 0.01 * step) * (1.03 if rank == culprit and step >= first else 1), 4
    )
    return job.train(100)


@scenario("letter", 1, 1)
def a_constant_norm_explodes(draw: Draw) -> Job:
    """A norm of constantly 1 becomes 300."""
    job = exact(draw).start()
    job.measures.bends["grad_norm"] = constant(1.0)
    job.train(draw.whole(40, 100))
    job.expect("grad_explosion", tolerance=2)
    job.measures.bends["grad_norm"] = constant(300.0)
    return job.train(30)


@scenario("letter", 1, 1)
def a_code_soon_after_the_start(draw: Draw) -> Job:
    """A run of some seconds: a fatal code is the first line of a GPU."""
    job = exact(draw, world=4, step_seconds=0.25, init_seconds=2.0).start().train(draw.whole(40, 90))
    culprit = draw.whole(0, 3)
    job.expect("gpu_fault", [culprit])
    job.event("gpu", culprit, uuid=uuid_of(culprit), field="xid", value=draw.one_of((79, 48, 119)))
    return job.hang(60, silent=[culprit])


@scenario("letter", 1, 1)
def lost_and_nan_in_one_second(draw: Draw) -> Job:
    """A rank is killed, and a delayed beat reports a NaN loss: two causes."""
    job = exact(draw, world=4, step_seconds=0.5).start().train(100)
    culprit = draw.whole(1, 3)
    job.expect("process_lost", [culprit])
    job.gone(culprit)
    job.expect("loss_nonfinite")
    job.measures.bends["loss"] = from_step(job, constant(math.nan))
    return job.train(1).hang(60)


OOM_WORDS = (
    ("RuntimeError", "CUDA OOM while allocating activations"),
    ("std::bad_alloc", "std::bad_alloc"),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
    ("OSError", "[Errno 12] Cannot allocate memory"),
    ("RuntimeError", "DefaultCPUAllocator: not enough memory: you tried to allocate 8589934592 bytes."),
    ("numpy.core._exceptions._ArrayMemoryError", "Unable to allocate 12.0 GiB for an array"),
)


@scenario("letter", 3, 3)
def words_for_no_memory(draw: Draw) -> Job:
    """Different messages that all mean out of memory."""
    job = several(draw).start().train(warm_up(draw, 20))
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit])
    raise_on(job, culprit, draw.one_of(OOM_WORDS))
    job.hang(3)
    return job.end("error")


@scenario("letter", 1, 1)
def caught_and_raised_again(draw: Draw) -> Job:
    """A rank raises, the loop continues; minutes later it raises again: two incidents."""
    job = several(draw, beat_seconds=2.0).start().train(100)
    culprit = draw.whole(0, job.world - 1)
    for _ in range(2):
        label = job.expect("exception", [culprit])
        raise_on(job, culprit, draw.one_of(OWN_ERRORS))
        label.recovered(job.now + 0.1)
        job.train(seconds=200)
    return job.end()


@scenario("letter", 2, 2)
def a_third_slower(draw: Draw) -> Job:
    """One rank takes a third longer than its peers."""
    job = paced(draw, step_seconds=draw.spread(0.5, 2), **OWN_TIME).start().train(warm_up(draw, 120))
    culprit = draw.whole(0, job.world - 1)
    job.expect("straggler", [culprit], tolerance=20)
    job.slow[culprit] = draw.between(1.33, 1.45)
    return job.train(seconds=900)


@scenario("letter", 2, 2)
def a_third_less(draw: Draw) -> Job:
    """All ranks take half as long again, in steps of a fraction of a second."""
    job = exact(draw, step_seconds=draw.one_of((0.1, 0.25)), world=2).start().train(draw.whole(150, 300))
    job.expect("throughput_drop", tolerance=20)
    job.pace = lambda step: 1.5
    return job.train(seconds=150)


@scenario("letter", 1, 1)
def stuck_in_a_long_evaluation(draw: Draw) -> Job:
    """Evaluations of a minute; one falls silent after some beats."""
    job = beating(draw, eval_every=60, eval_seconds=60.0).start().train(60 * 3 + 59)
    job.expect("stuck", onset=80.0, promised=400, deadline=800)
    job.enter("eval", 30)
    return job.hang(900, silent=range(job.world))


@scenario("letter", 1, 1)
def two_ranks_disagree_on_a_rate(draw: Draw) -> Job:
    """One of four ranks has another learning rate, with beats each second."""
    job = disagreeing(draw, 4)
    job.shape.reports |= {"lr"}
    job.shape.beat_seconds = 1.0
    job.start().train(warm_up(draw, 100))
    culprit = draw.whole(0, 3)
    job.expect("rank_disagreement", [culprit])
    job.measures.bends["lr"] = from_step(job, lambda after, rank, value: value * (2 if rank == culprit else 1))
    return job.train(100)


@scenario("letter", 1, 1)
def killed_by_a_cgroup(draw: Draw) -> Job:
    """The count of kills rises in the sample of the rank's host; the rank exits a second later, the run ends."""
    job = several(draw, beat_seconds=2.0)
    host = Hosts(job, psi=50.0, name="h1")
    job.start().train(100)
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit])
    host.kill()
    job.wait(1.0)
    job.gone(culprit).hang(20)
    return job.end("error")


@scenario("letter", 1, 1)
def scale_stays_where_it_is(draw: Draw) -> Job:
    """All beats carry the same loss scale; the norm is NaN from a step on."""
    job = reporting(draw)
    job.shape.reports |= {"loss_scale"}
    job.start().train(warm_up(draw))
    job.expect("grad_nonfinite", promised=3 * job.shape.step_seconds + 2)
    job.measures.bends["grad_norm"] = from_step(job, constant(math.nan))
    return job.train(30)


@scenario("letter", 1, 1)
def stopped_in_whole_seconds(draw: Draw) -> Job:
    """The observer writes whole seconds; a rank is stopped while steps are shorter than one."""
    job = beating(draw, beat_seconds=1.0, step_seconds=draw.one_of((0.3, 0.43))).start().train(200)
    culprit = draw.whole(0, job.world - 1)
    job.expect("stuck", [culprit], promised=10)
    job.hang(100, silent=[culprit])
    job.lines = [(float(round(at)), line) for at, line in job.lines]
    return job
