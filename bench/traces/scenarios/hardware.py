"""Out-of-memory errors on device, host or cgroup, and GPU faults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simulator.draw import Draw
from simulator.job import Job

from .deaths import one_raises, peers_follow, raise_on
from .registry import new_job, scenario, several, warm_up

DEVICE_OOM = (
    (
        "OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79 GiB of which 1 GiB is free",
    ),
    ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 128.00 MiB"),
    ("torch.cuda.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB"),
    ("RuntimeError", "CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 31.75 GiB total capacity)"),
    ("RuntimeError", "CUDA error: out of memory"),
    ("RuntimeError", "HIP out of memory. Tried to allocate 1.00 GiB"),
)
HOST_OOM = (
    ("MemoryError", ""),
    (
        "RuntimeError",
        "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried to allocate",
    ),
    ("OSError", "[Errno 12] Cannot allocate memory"),
)
FATAL_XIDS = (79, 48, 74, 95, 119, 64)


def uuid_of(rank: int) -> str:
    """Return the name of a rank's GPU."""
    return f"GPU-{rank:08x}-1f2e-4c3d-9b8a-{rank * 7919:012x}"


class Gpus:
    """Samples of each rank's GPU, with codes and counters that a script sets.

    Parameters
    ----------
    job : Job
        The job, with one GPU per rank.
    every : float
        Seconds between samples.
    ranks : iterable of int
        Ranks whose GPU is sampled, all by default.
    ranked : bool
        Whether samples contain the rank.
    """

    def __init__(self, job: Job, every: float = 15.0, ranks: Iterable[int] = (), ranked: bool = True) -> None:
        self.job = job
        self.ranks = list(ranks) or list(range(min(job.world, 16)))
        self.ranked = ranked
        self.values: dict[tuple[int, str], float] = {}
        self.fields = ["xid"]
        job.sample(every, self._sample)

    def watch(self, field: str, value: float = 0) -> Gpus:
        """Sample a field from now on, with the same value on all GPUs."""
        if field not in self.fields:
            self.fields.append(field)
        for rank in self.ranks:
            self.values[rank, field] = value
        return self

    def set(self, rank: int, field: str, value: float) -> None:
        """Change a value and sample it at once."""
        self.values[rank, field] = value
        line = self._line(rank, field)
        self.job.event(line.pop("kind"), line.pop("rank", None), **line)

    def _line(self, rank: int, field: str) -> dict[str, Any]:
        value = self.values.get((rank, field), 0)
        if field == "temperature_celsius":
            value = round(value + self.job.draw.gauss(0, 1.2))
        line: dict[str, Any] = {"kind": "gpu", "uuid": uuid_of(rank), "field": field, "value": value}
        return {**line, "rank": rank} if self.ranked else line

    def _sample(self, job: Job) -> list[dict[str, Any]]:
        return [self._line(rank, field) for rank in self.ranks for field in self.fields]


class Hosts:
    """Samples of one host: out-of-memory kills since boot, and memory pressure."""

    def __init__(self, job: Job, every: float = 10.0, oom_kill: int = 0, psi: float = 0.0, name: str = "") -> None:
        self.job = job
        self.oom_kill = oom_kill
        self.psi = psi
        self.name = name
        job.sample(every, lambda _: [self._line()])

    def _line(self) -> dict[str, Any]:
        psi = round(max(0.0, self.psi * (1 + 0.1 * self.job.draw.gauss(0, 1))), 2)
        line: dict[str, Any] = {"kind": "host", "oom_kill": self.oom_kill, "psi": psi}
        return {**line, "host": self.name} if self.name else line

    def kill(self, by: int = 1, now: bool = True) -> None:
        """Count a kill, and sample it at once or with the next sample."""
        self.oom_kill += by
        if now:
            line = self._line()
            self.job.event(line.pop("kind"), **line)


@scenario("out_of_memory", 2, 2)
def device(draw: Draw) -> Job:
    """A rank runs out of device memory; its peers fail because of it; the run ends with an error."""
    return one_raises(draw, "out_of_memory", DEVICE_OOM)


@scenario("out_of_memory")
def device_in_first_step(draw: Draw) -> Job:
    """All ranks run out of memory in the first step."""
    job = new_job(draw, world=draw.either(4, 6)).start()
    job.wait(2.0)
    job.expect("out_of_memory", [0], since=0)
    for rank in range(job.world):
        raise_on(job, rank, DEVICE_OOM[1], after=0.1 * rank)
    job.wait(2.0)
    return job.end("error")


@scenario("out_of_memory")
def host_exception(draw: Draw) -> Job:
    """A rank gets an exception because the host has no memory left."""
    job = several(draw).start().train(warm_up(draw, 10))
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit])
    raise_on(job, culprit, draw.one_of(HOST_OOM))
    job.hang(2)
    return job.end("error")


@scenario("out_of_memory", 2, 1)
def killed_by_the_kernel(draw: Draw) -> Job:
    """The kernel's count rises, and the killed rank exits within seconds."""
    job = several(draw, beat_seconds=draw.one_of((1.0, 5.0)))
    host = Hosts(job, psi=draw.between(0, 3), oom_kill=draw.one_of((0, 0, 7)))
    job.start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit])
    host.kill()
    job.wait(draw.between(0.05, 1.5))
    return job.gone(culprit).hang(90)


@scenario("out_of_memory", 1, 2)
def count_comes_after(draw: Draw) -> Job:
    """The rank exits first; the sample that explains it comes seconds later."""
    job = several(draw, beat_seconds=2.0)
    host = Hosts(job, every=draw.between(4, 12))
    job.start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit], also=["process_lost"])
    host.kill(now=False)
    job.gone(culprit)
    return job.hang(90)


@scenario("out_of_memory")
def pressure_first(draw: Draw) -> Job:
    """Memory pressure climbs for minutes, then the kernel kills; the run restarts and continues."""
    job = several(draw, beat_seconds=5.0, checkpoint_every=30)
    host = Hosts(job, psi=1.0)
    job.start().train(80)
    for psi in (12.0, 35.0, 60.0):
        host.psi = psi
        job.train(seconds=20)
    culprit = draw.whole(0, job.world - 1)
    label = job.expect("out_of_memory", [culprit])
    host.kill()
    job.gone(culprit, after=0.5)
    host.psi = 1.0
    job.hang(6).all_gone().restart(60)
    label.recovered(job.restarted_at)
    return job.train(100).end()


@scenario("out_of_memory")
def killed_without_a_trace(draw: Draw) -> Job:
    """The exit of the process is not reported: the count rises, the rank is silent, the others wait."""
    job = several(draw, beat_seconds=2.0)
    host = Hosts(job)
    job.start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.silent.add(culprit)
    job.expect("out_of_memory", [culprit], naming="maybe", also=["stuck"])
    host.kill()
    return job.hang(200)


@scenario("out_of_memory")
def a_loader_is_killed(draw: Draw) -> Job:
    """The kernel kills a loader worker; its rank raises, and the peers follow."""
    job = several(draw)
    host = Hosts(job, oom_kill=draw.whole(0, 4))
    job.start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("out_of_memory", [culprit], naming="maybe")
    host.kill()
    raise_on(job, culprit, ("RuntimeError", "DataLoader worker (pid 4711) is killed by signal: Killed."), after=0.9)
    peers_follow(job, culprit)
    job.hang(9)
    return job.end("error")


@scenario("out_of_memory")
def again(draw: Draw) -> Job:
    """Out of memory, restart, out of memory again: two incidents."""
    job = several(draw, checkpoint_every=30).start().train(100)
    for number in range(2):
        culprit = draw.whole(0, job.world - 1)
        label = job.expect("out_of_memory", [culprit])
        raise_on(job, culprit, draw.one_of(DEVICE_OOM))
        job.hang(2).all_gone()
        if number == 0:
            job.restart(60)
            label.recovered(job.restarted_at)
            job.train(80)
    return job


@scenario("gpu_fault", 2, 2)
def falls_off_the_bus(draw: Draw) -> Job:
    """A GPU fails with a fatal code; its rank hangs or exits, and the others wait."""
    job = several(draw, beat_seconds=2.0)
    gpus = Gpus(job, 10.0)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "xid", draw.one_of(FATAL_XIDS))
    if draw.chance(0.5):
        job.gone(culprit, after=draw.between(0.5, 6))
    return job.hang(draw.between(60, 200), silent=[culprit])


@scenario("gpu_fault")
def first_sample_is_the_fault(draw: Draw) -> Job:
    """The first sample of the GPU, during the run, is the fault."""
    job = several(draw, beat_seconds=2.0).start().train(warm_up(draw))
    culprit = draw.whole(0, job.world - 1)
    job.expect("gpu_fault", [culprit])
    job.event("gpu", culprit, uuid=uuid_of(culprit), field="xid", value=79)
    return job.hang(60, silent=[culprit])


@scenario("gpu_fault")
def uncorrected_errors(draw: Draw) -> Job:
    """The count of uncorrected memory errors rises, from a non-zero value."""
    job = several(draw)
    gpus = Gpus(job, 15.0)
    gpus.watch("ecc_uncorrected_total", draw.one_of((0, 2, 31))).watch("ecc_corrected_total", 5)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "ecc_uncorrected_total", gpus.values[culprit, "ecc_uncorrected_total"] + 1)
    return job.train(60).end()


@scenario("gpu_fault")
def rows_cannot_be_remapped(draw: Draw) -> Job:
    """A GPU has no spare memory row left."""
    job = several(draw)
    gpus = Gpus(job, 15.0).watch("row_remap_failure", 0).watch("temperature_celsius", 61)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "row_remap_failure", 1)
    return job.train(60).end()


@scenario("gpu_fault")
def code_and_exceptions(draw: Draw) -> Job:
    """A fatal code, then an exception of CUDA on its rank, then all others fail: one incident."""
    job = several(draw)
    gpus = Gpus(job, 15.0)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "xid", draw.one_of((79, 119, 95)))
    raise_on(job, culprit, ("RuntimeError", "CUDA error: unspecified launch failure"), after=0.6)
    job.hang(1)
    peers_follow(job, culprit)
    job.hang(9)
    return job.end("error")


@scenario("gpu_fault")
def another_code(draw: Draw) -> Job:
    """A code present from the beginning is replaced by a fatal one."""
    job = several(draw)
    gpus = Gpus(job, 10.0)
    gpus.watch("xid", 43)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "xid", draw.one_of((79, 48, 95)))
    return job.hang(100, silent=[culprit])


@scenario("gpu_fault")
def fault_and_restart(draw: Draw) -> Job:
    """A GPU fails, the run restarts on another one and continues; the old code stays in the samples."""
    job = several(draw, checkpoint_every=40)
    gpus = Gpus(job, 10.0)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    label = job.expect("gpu_fault", [culprit])
    gpus.set(culprit, "xid", 79)
    job.gone(culprit, after=1.0).hang(5).all_gone().restart(90)
    label.recovered(job.restarted_at)
    return job.train(100).end()


@scenario("gpu_fault")
def known_by_its_uuid(draw: Draw) -> Job:
    """The fault contains no rank, but earlier samples of the same GPU did."""
    job = several(draw, beat_seconds=2.0)
    gpus = Gpus(job, 10.0).watch("power_watts", 550)
    job.start().train(warm_up(draw))
    culprit = draw.one_of(gpus.ranks)
    job.expect("gpu_fault", [culprit], naming="maybe")
    job.event("gpu", uuid=uuid_of(culprit), field="xid", value=79)
    return job.hang(60, silent=[culprit])


@scenario("gpu_fault")
def two_gpus(draw: Draw) -> Job:
    """Two GPUs fail, minutes apart, each followed by a restart."""
    job = several(draw, checkpoint_every=40)
    gpus = Gpus(job, 20.0)
    job.start().train(90)
    for culprit in draw.sample(gpus.ranks, 2):
        label = job.expect("gpu_fault", [culprit])
        gpus.set(culprit, "xid", draw.one_of(FATAL_XIDS))
        job.gone(culprit, after=0.5).hang(4).all_gone()
        job.restart(100)
        label.recovered(job.restarted_at)
        job.train(80)
    return job.end()
