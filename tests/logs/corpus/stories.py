"""How runs of several ranks fail, as the records of all ranks: a root, its consequences, and noise of the end.

Records are in no useful order, clocks of hosts differ, streams without time stamps carry the time at which a collector
read them, and faults from which the run recovered precede.
"""

from __future__ import annotations

import random
from typing import Any

from lines import KNOWN, filled

Story = dict[str, Any]
RANKS_PER_HOST = 4
# Roots with the rank on which they happen, and with the wording of what that rank prints.
OF_RANK = (
    "device_oom", "cuda_illegal_access", "device_assert", "dataloader_dead", "checkpoint_corrupt", "disk_full",
    "io_error", "path_missing", "shape_mismatch", "bad_sample", "host_alloc_fail", "python_exception", "segfault",
    "module_missing", "too_many_files", "permission_denied", "checkpoint_write_fail",
)  # fmt: skip
OF_HOST = ("gpu_lost", "ecc_uncorrectable", "nvlink_error", "host_oom_kill", "cgroup_oom", "link_down", "gpu_hw_fault")
OF_JOB = ("preempted", "time_limit", "node_fail")


class Teller:
    """Collects the records of one story."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.hosts = dice.choice((1, 2, 2, 4))
        self.ranks = self.hosts * RANKS_PER_HOST
        self.skew = [0.0] + [
            dice.choice((0.0, dice.uniform(-2, 2), dice.uniform(-90, 90))) for _ in range(self.hosts - 1)
        ]
        self.all_log_steps = dice.random() < 0.6
        self.step_seconds = dice.choice((2.0, 6.0, 12.0))
        self.records: list[Story] = []
        self.now = 1_795_000_000.0

    def add(self, text: str, rank: int | None = None, host: int | None = None, after: float = 0.0, **more: Any) -> None:
        """Add a record ``after`` seconds from now, of a rank or of a host."""
        host = rank // RANKS_PER_HOST if host is None and rank is not None else host or 0
        record: Story = {"text": text, "host": f"node{host}", "t": self.now + after + self.skew[host], **more}
        if rank is not None:
            record["rank"] = rank
        self.records.append(record)

    def line(self, kind: str, rank: int | None = None, host: int | None = None, after: float = 0.0) -> None:
        """Add a line of a class."""
        text = filled(self.dice.choice(KNOWN[kind]), self.dice)
        kind_of, _, message = text.partition(": ")
        if "Error" in kind_of and " " not in kind_of and rank is not None:
            self.add(f"{text}", rank, host, after, exception={"type": kind_of, "message": message})
        else:
            self.add(text, rank, host, after)

    def steps(self, first: int, count: int) -> int:
        """Add finished steps; return the next step."""
        for step in range(first, first + count):
            self.now += self.step_seconds
            for rank in range(self.ranks) if self.all_log_steps else (0,):
                loss = 2.0 + self.dice.random() / 10
                self.add(
                    f"step {step} loss {loss:.3f}",
                    rank,
                    after=self.dice.uniform(0, 0.05),
                    step=step,
                    numbers={"loss": loss},
                )
        return first + count

    def others(self, rank: int | None) -> list[int]:
        """Return some ranks besides one."""
        ranks = [each for each in range(self.ranks) if each != rank]
        return self.dice.sample(ranks, self.dice.randrange(1, len(ranks) + 1))

    def end(self, rank: int | None, after: float) -> None:
        """Add consequences on other ranks, and noise of the end."""
        dice = self.dice
        for other in self.others(rank):
            text = dice.choice(
                (
                    "[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
                    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
                    "prematurely.",
                    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer "
                    "[{ip}]:{port}",
                    "[c10d] recvValueWithTimeout failed on SocketImpl(fd=9): failed to recv, got 0 bytes",
                )
            )
            self.add(filled(text, dice), other, after=after + dice.uniform(0.1, 4))
        for host in range(self.hosts):
            self.add(filled("Sending process {pid} closing signal SIGTERM", dice), host=host, after=after + 5)
            self.add(
                filled("failed (exitcode: 1) local_rank: {d} (pid: {pid}) of binary: {path}", dice),
                host=host,
                after=after + 9,
            )
            if dice.random() < 0.3:
                self.add(filled("RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Terminated.", dice),
                         rank=host * RANKS_PER_HOST, after=after + dice.uniform(6, 12))  # fmt: skip
            if dice.random() < 0.2:
                self.add("Segmentation fault (core dumped)", host=host, after=after + dice.uniform(6, 14))
        self.add(filled("srun: error: {host}: task {rank}: Exited with exit code 1", dice), host=0, after=after + 15)
        cancelled = "slurmstepd: error: *** STEP {job}.0 ON {host} CANCELLED AT {iso} DUE TO TASK FAILURE ***"
        self.add(filled(cancelled, dice), host=0, after=after + 16)


def _hang(told: Teller, culprit: int | None) -> None:
    """Add timeouts of the collective that the culprit did not enter."""
    sequence = told.dice.randrange(100, 9999)
    for rank in range(told.ranks):
        if rank == culprit and told.dice.random() < 0.5:
            continue
        entered = sequence - 1 if rank == culprit else sequence + 2
        told.add(
            f"[PG 0 Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: "
            f"{min(sequence, entered)},"
            f" last enqueued NCCL work: {entered}, last completed NCCL work: {sequence - 1}.",
            rank,
            after=600 + told.dice.uniform(0, 1),
        )


def story(dice: random.Random) -> Story:
    """Return a random story with its root: class, and rank or host."""
    told = Teller(dice)
    step = told.steps(dice.randrange(1, 1000), dice.randrange(3, 8))
    if dice.random() < 0.35:  # a fault from which the run recovered
        early = dice.choice(
            ("object_store_error", "bad_sample", "grad_nonfinite", "step_skipped", "ecc_repaired", "clock_skew")
        )
        told.line(early, dice.randrange(told.ranks) if told.all_log_steps else 0)
        step = told.steps(step, int(150 / told.step_seconds) + 3)
    form = dice.choice(("rank", "rank", "rank", "host", "host", "job", "named", "hang", "numbers", "killed", "user"))
    rank: int | None = dice.randrange(told.ranks)
    host = rank // RANKS_PER_HOST
    told.now += told.step_seconds * dice.random()
    if form == "rank":
        root = dice.choice(OF_RANK)
        if root == "python_exception":
            told.add("KeyError: 'labels'", rank, exception={"type": "KeyError", "message": "'labels'"})
        else:
            told.line(root, rank)
        if dice.random() < 0.4:
            _hang(told, rank)
            told.end(rank, 601)
        else:
            told.end(rank, 0.5)
    elif form == "host":
        root = dice.choice(OF_HOST)
        told.line(root, host=host)
        consequence = {
            "gpu_lost": "RuntimeError: CUDA error: unspecified launch failure",
            "ecc_uncorrectable": "RuntimeError: CUDA error: an illegal memory access was encountered",
            "nvlink_error": "ncclSystemError: System call or external library call failed or device error. "
            "unhandled system error",
            "host_oom_kill": "failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: /usr/bin/python",
            "cgroup_oom": "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.",
            "link_down": filled(KNOWN["nccl_net_error"][0], dice),
            "gpu_hw_fault": "RuntimeError: CUDA error: unspecified launch failure",
        }[root]
        told.add(consequence, rank, after=dice.uniform(-1, 3))
        told.end(rank, 4)
        rank = None
    elif form == "job":
        root = dice.choice(OF_JOB)
        told.line(root, host=0) if root != "node_fail" else told.add(
            filled("srun: error: Node failure on {host}", dice), host=0
        )
        told.end(None, 1)
        if dice.random() < 0.5:
            told.add("KeyboardInterrupt", 0, after=3)
        rank = None
    elif form == "named":
        root = "python_exception"
        told.add("ValueError: bad item", rank, after=-0.5, exception={"type": "ValueError", "message": "bad item"})
        for other in told.others(rank):
            told.add(f"[PG ID 0 PG GUID 0 Rank {other}] remote error detected from rank: {rank}", other, after=1)
        told.end(rank, 2)
    elif form == "hang":
        root = "nccl_timeout"
        _hang(told, None)
        told.end(None, 601)
        rank = None
    elif form == "numbers":
        root = "loss_nonfinite"
        for late in range(step, step + 3):
            told.now += told.step_seconds
            for each in range(told.ranks) if told.all_log_steps else (0,):
                told.add(
                    f"step {late} loss nan grad_norm nan", each, step=late, numbers={"loss": "nan", "grad_norm": "nan"}
                )
        told.add(
            "AssertionError: loss must be finite",
            0,
            after=1,
            exception={"type": "AssertionError", "message": "loss must be finite"},
        )
        told.end(0, 2)
        rank = None
    elif form == "killed":
        root = "killed_unknown"
        told.add(filled("srun: error: {host}: task {rank}: Killed", dice), host=host)
        told.end(rank, 1)
        rank = None
    else:
        root = "user_cancel"
        told.add("KeyboardInterrupt", rank)
        told.end(None, 0.5)
        rank = None
    dice.shuffle(told.records)
    return {"root": root, "rank": rank, "records": told.records}
