"""Lost processes, and exceptions, fatal or not."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.draw import Draw
from simulator.job import Job
from simulator.trace import Trace

from .registry import new_job, scenario, several, warm_up

PEER_ERRORS = (
    (
        "DistBackendError",
        "NCCL error in: ProcessGroupNCCL.cpp:2027, remote process exited or there was a network error",
    ),
    ("RuntimeError", "Connection closed by peer [10.0.0.7]:34817"),
    ("RuntimeError", "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer"),
    ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
)
OWN_ERRORS = (
    ("ValueError", "expected sequence of length 2048 at dim 1 (got 1024)"),
    ("KeyError", "'input_ids'"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/shard-00417.tar'"),
    ("RuntimeError", "The size of tensor a (1024) must match the size of tensor b (2048) at non-singleton dimension 1"),
    ("AssertionError", "loss scale is out of room at its floor"),
    ("ZeroDivisionError", "float division by zero"),
)


def stack(draw: Draw) -> str:
    """Return a traceback."""
    line = draw.whole(20, 900)
    return f'Traceback (most recent call last):\n  File "train.py", line {line}, in <module>\n    main()\n'


def raise_on(job: Job, rank: int, error: tuple[str, str], after: float = 0.0) -> None:
    """Write an exception of a rank."""
    job.event("exception", rank, after=after, type=error[0], message=error[1], stack=stack(job.draw))


def peers_follow(job: Job, first: int, within: float = 8.0) -> None:
    """Let the other ranks fail because of it, each a little later."""
    error = job.draw.one_of(PEER_ERRORS)
    for rank in range(job.world):
        if rank != first and job.draw.chance(0.85):
            raise_on(job, rank, error, after=job.draw.between(0.4, within))


def one_raises(draw: Draw, kind: str, errors: Sequence[tuple[str, str]]) -> Job:
    """Train, let one rank raise and its peers fail because of that, and end the run with an error."""
    job = several(draw).start().train(warm_up(draw, 10))
    culprit = draw.whole(0, job.world - 1)
    job.expect(kind, [culprit])
    raise_on(job, culprit, draw.one_of(errors))
    peers_follow(job, culprit)
    job.hang(9)
    return job.end("error")


@scenario("process_lost", 2, 2)
def killed(draw: Draw) -> Job:
    """One rank is killed; the others wait for it until the file ends."""
    job = several(draw, beat_seconds=draw.one_of((1.0, 5.0))).start().train(warm_up(draw, 30))
    culprit = draw.whole(0, job.world - 1)
    job.wait(0.3)
    job.expect("process_lost", [culprit])
    job.gone(culprit)
    return job.hang(draw.between(60, 400))


@scenario("process_lost", 1, 1)
def others_follow(draw: Draw) -> Job:
    """One rank is killed, and its peers exit within seconds; no end is reported."""
    job = several(draw).start().train(warm_up(draw, 10))
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit])
    job.gone(culprit)
    job.wait(draw.between(1.5, 6))
    return job.all_gone(within=4.0)


@scenario("process_lost", 1, 1)
def killed_and_restarted(draw: Draw) -> Job:
    """A rank is killed; the run restarts from a checkpoint and continues."""
    job = several(draw, checkpoint_every=40).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("process_lost", [culprit])
    job.gone(culprit).hang(5)
    job.all_gone().restart(draw.between(20, 200))
    label.recovered(job.restarted_at)
    return job.train(120).end()


@scenario("process_lost", 1, 1)
def end_with_error(draw: Draw) -> Job:
    """The run ends with an error without an exception."""
    job = several(draw).start().train(warm_up(draw, 20))
    job.expect("process_lost")
    return job.end("error")


@scenario("process_lost", 1, 1)
def fatal_signal(draw: Draw) -> Job:
    """A rank receives a fatal signal and exits; its peers report no end."""
    job = several(draw, beat_seconds=draw.one_of((None, 2.0))).start().train(warm_up(draw, 20))
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit])
    job.event("signal", culprit, number=draw.one_of((11, 7, 6, 4)))
    job.wait(0.4)
    job.gone(culprit)
    return job.hang(90)


@scenario("process_lost", 1, 1)
def in_another_phase(draw: Draw) -> Job:
    """A rank is lost while the run evaluates, writes a checkpoint or initialises."""
    phase = draw.one_of(("eval", "checkpoint", "init"))
    job = several(draw, beat_seconds=2.0)
    if phase == "init":
        job.event("start", world=job.world, host="h1")
        job.enter("init", 30)
    else:
        job.start().train(warm_up(draw))
        job.enter(phase, 10)
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit], since=job.step)
    job.gone(culprit)
    job.wait(100)
    return job


@scenario("process_lost", 1, 1)
def a_host_is_gone(draw: Draw) -> Job:
    """All processes of a host exit within a second."""
    job = new_job(draw, world=draw.either(64, 48), step_seconds=1.5, beat_seconds=draw.one_of((None, 10.0)))
    job.start().train(60)
    host = draw.whole(0, job.world // 8 - 1)
    ranks = list(range(8 * host, 8 * host + 8))
    draw.shuffle(ranks)
    job.expect("process_lost", ranks[:1])
    for rank in ranks:
        job.gone(rank, after=0.1 * ranks.index(rank))
    return job.hang(120)


@scenario("process_lost", 1, 1)
def in_a_pause(draw: Draw) -> Job:
    """A pause suspends deadlines, but not the detection of a lost process."""
    job = several(draw, beat_seconds=2.0).start().train(warm_up(draw))
    job.event("pause", expires_seconds=3600)
    job.hang(draw.between(30, 300))
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit])
    return job.gone(culprit).hang(60)


@scenario("process_lost", 1, 1)
def a_single_rank(draw: Draw) -> Job:
    """The only process of a run exits; no further line follows."""
    job = new_job(draw, world=1).start().train(warm_up(draw, 3))
    job.expect("process_lost", [0])
    return job.gone(0)


@scenario("process_lost", 1, 1)
def its_beats_come_late(draw: Draw) -> Trace:
    """Beats of the lost rank still arrive afterwards and do not revive it."""
    job = several(draw, beat_seconds=1.0).start().train(warm_up(draw, 30))
    culprit = draw.whole(1, job.world - 1)
    job.expect("process_lost", [culprit])
    last = [line for _, line in job.lines if line.get("rank") == culprit and "beat" in line][-3:]
    job.gone(culprit)
    for number, line in enumerate(last):
        job.lines.append((job.now + 0.8 + number, line))
    job.hang(100)
    return Trace(job)


@scenario("process_lost", 1, 1)
def twice(draw: Draw) -> Job:
    """A rank is lost, the run restarts, and another is lost: two causes, two incidents."""
    job = several(draw, checkpoint_every=30, beat_seconds=2.0).start().train(100)
    for _ in range(2):
        culprit = draw.whole(0, job.world - 1)
        label = job.expect("process_lost", [culprit])
        job.gone(culprit).hang(8)
        job.all_gone().restart(60)
        label.recovered(job.restarted_at)
        job.train(80)
    return job.end()


@scenario("process_lost", 1, 1)
def after_an_end_by_signal(draw: Draw) -> Job:
    """A run is preempted and restarted: the earlier end does not protect the new incarnation."""
    job = several(draw, beat_seconds=2.0).start().train(100)
    job.end("signal")
    job.restart(300, step=80).train(60)
    culprit = draw.whole(0, job.world - 1)
    job.expect("process_lost", [culprit])
    return job.gone(culprit).hang(50)


@scenario("exception", 2, 2)
def one_fails_and_all_follow(draw: Draw) -> Job:
    """One rank raises; its peers fail of the lost connection; the run ends with an error."""
    return one_raises(draw, "exception", OWN_ERRORS)


@scenario("exception", 1, 1)
def nobody_tells_an_end(draw: Draw) -> Job:
    """After the exceptions the processes exit one by one, without an end."""
    job = several(draw, beat_seconds=draw.one_of((None, 1.0))).start().train(warm_up(draw, 10))
    culprit = draw.whole(0, job.world - 1)
    job.expect("exception", [culprit])
    raise_on(job, culprit, draw.one_of(OWN_ERRORS))
    job.gone(culprit, after=0.7)
    peers_follow(job, culprit)
    job.hang(9)
    return job.all_gone()


@scenario("exception", 1, 1)
def the_same_on_two(draw: Draw) -> Job:
    """Two ranks fail on the same bad batch at once."""
    job = several(draw).start().train(warm_up(draw, 30))
    first, second = draw.sample(range(job.world), 2)
    job.expect("exception", [first])
    error = draw.one_of(OWN_ERRORS)
    raise_on(job, first, error)
    raise_on(job, second, error, after=0.15)
    job.hang(3)
    return job.end("error")


@scenario("exception", 1, 1)
def failed_and_restarted(draw: Draw) -> Job:
    """A rank raises; the run restarts and continues."""
    job = several(draw, checkpoint_every=40).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("exception", [culprit])
    raise_on(job, culprit, draw.one_of(OWN_ERRORS))
    peers_follow(job, culprit)
    job.hang(9)
    if draw.chance(0.5):
        job.end("error")
    else:
        job.all_gone()
    job.restart(60)
    label.recovered(job.restarted_at)
    return job.train(100).end()


@scenario("exception", 1, 1)
def nobody_says_which_rank(draw: Draw) -> Job:
    """The launcher reports an exception without its rank."""
    job = several(draw).start().train(warm_up(draw, 30))
    job.expect("exception")
    error = draw.one_of(OWN_ERRORS)
    job.event("exception", None, type=error[0], message=error[1], stack=stack(draw))
    job.hang(1)
    return job.end("error")


@scenario("exception", 1, 1)
def words_of_memory(draw: Draw) -> Job:
    """Messages that only resemble memory errors: a model named BLOOM, a room, a file named oom."""
    job = several(draw).start().train(warm_up(draw, 30))
    culprit = draw.whole(0, job.world - 1)
    text = draw.one_of(("BLOOM config has no key n_head", "meeting room 4 not found", "cannot open zoom_oom.bin"))
    job.expect("exception", [culprit])
    raise_on(job, culprit, ("ValueError", text))
    job.hang(4)
    return job.end("error")


@scenario("exception", 1, 1)
def at_the_beginning(draw: Draw) -> Job:
    """A single rank, or all of them, fails before the first step."""
    job = new_job(draw, world=draw.one_of((1, 4)), beat_seconds=2.0)
    job.event("start", world=job.world, host="h1")
    job.enter("init", 12)
    job.expect("exception", [0], since=0)
    raise_on(job, 0, ("ModuleNotFoundError", "No module named 'flash_attn'"))
    for rank in range(1, job.world):
        raise_on(job, rank, ("ModuleNotFoundError", "No module named 'flash_attn'"), after=0.2 * rank)
    job.wait(2)
    return job.end("error")


@scenario("exception", 1, 1)
def training_goes_on(draw: Draw) -> Job:
    """An exception is caught by the training loop, which skips the batch and continues."""
    job = several(draw).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("exception", [culprit])
    raise_on(job, culprit, draw.one_of(OWN_ERRORS))
    label.recovered(job.now + 0.1)
    return job.train(200).end()


@scenario("exception", 1, 1)
def again_after_a_restart(draw: Draw) -> Job:
    """The same exception twice, with a restart between them: two incidents."""
    job = several(draw, checkpoint_every=40).start().train(100)
    culprit, error = draw.whole(0, job.world - 1), draw.one_of(OWN_ERRORS)
    for number in range(2):
        label = job.expect("exception", [culprit])
        raise_on(job, culprit, error)
        job.hang(3).all_gone()
        if number == 0:
            job.restart(60)
            label.recovered(job.restarted_at)
            job.train(70)
    return job


@scenario("exception", 1, 1)
def gone_before_it_is_told(draw: Draw) -> Job:
    """The process exits some tenths of a second before its exception is read."""
    job = several(draw, beat_seconds=2.0).start().train(warm_up(draw, 30))
    culprit = draw.whole(0, job.world - 1)
    job.expect("exception", [culprit], also=["process_lost"])
    job.gone(culprit)
    raise_on(job, culprit, draw.one_of(OWN_ERRORS), after=0.4)
    return job.hang(60)
