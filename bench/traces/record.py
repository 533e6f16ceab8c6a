"""Record traces of real processes: small trainings whose ranks are stopped, killed, slowed or driven into NaN.

The ranks are processes that train a logistic regression on separate data and average gradients through shared memory.
They send beats through pipes at each step, or from a thread at an interval; this process is the observer. The files in
``recorded/`` were made by

    python3 bench/traces/record.py bench/traces/recorded
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing as mp
import multiprocessing.connection as connection
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulator.label import Label  # noqa: E402
from simulator.measures import as_json  # noqa: E402

FEATURES = 64
ROWS = 512


@dataclass
class Plan:
    """Settings of a recording: size, speed and fault.

    Attributes
    ----------
    step_seconds : float
        Sleep of a rank in each step, in addition to its arithmetic.
    beat_seconds : float
        0: a beat at each step, and each second while no step ends.
    fault : str
        none, stop, kill, nan, raise or slow; it hits ``culprit`` after ``before`` seconds of training.
    """

    fault: str
    world: int = 2
    step_seconds: float = 0.25
    beat_seconds: float = 0.0
    before: float = 20.0
    after: float = 25.0
    culprit: int = 1


class Rank:
    """One training process."""

    def __init__(self, rank: int, plan: Plan, pipe: Any, shared: Any, barrier: Any, fault: Any, over: Any) -> None:
        self.rank, self.plan, self.pipe, self.barrier = rank, plan, pipe, barrier
        self.fault, self.over = fault, over
        self.gradients = np.frombuffer(shared).reshape(plan.world, FEATURES)
        self.state: dict[str, Any] = {"step": 0, "phase": "init"}
        self.lock = threading.Lock()
        random = np.random.default_rng(rank)
        self.x = random.normal(size=(ROWS, FEATURES))
        self.y = (self.x @ np.linspace(-1, 1, FEATURES) + random.normal(size=ROWS) > 0).astype(float)
        self.weights = np.zeros(FEATURES)

    def send_beat(self) -> None:
        """Send a beat."""
        with self.lock:
            self.pipe.send({"beat": dict(self.state)})

    def heartbeats(self) -> None:
        """Send beats at an interval for the life of the process."""
        interval = self.plan.beat_seconds or 1.0
        while True:
            before = self.state["step"]
            time.sleep(interval)
            if self.plan.beat_seconds or self.state["step"] == before:
                self.send_beat()

    def train(self) -> None:
        """Train up to the last step, which the observer sets, equal on all ranks so that none waits for another."""
        self.send_beat()
        threading.Thread(target=self.heartbeats, daemon=True).start()
        while not self.over.value or self.state["step"] < self.over.value:
            self.step()
            if self.plan.fault == "none" and self.state["step"] % 40 == 0:
                self.stand_still("eval", 4.0)
                self.stand_still("checkpoint", 2.0)

    def step(self) -> None:
        """Run one step: own gradient, mean over the ranks, update."""
        begin = time.perf_counter()
        hit = bool(self.fault.value) and self.rank == self.plan.culprit
        time.sleep(self.plan.step_seconds * (2.0 if hit and self.plan.fault == "slow" else 1.0))
        if hit and self.plan.fault == "raise":
            raise ValueError("operands could not be broadcast together with shapes (512,64) (63,)")
        with np.errstate(all="ignore"):
            z = self.x @ self.weights
            p = 1 / (1 + np.exp(-z))
            loss = float(np.mean(np.logaddexp(0, z) - self.y * z))
            self.gradients[self.rank] = self.x.T @ (p - self.y) / ROWS
            if hit and self.plan.fault == "nan":
                self.gradients[self.rank] *= np.inf
            own = time.perf_counter() - begin
            self.barrier.wait()
            mean = self.gradients.mean(axis=0)
            self.barrier.wait()
            self.weights -= 0.3 * mean
        numbers = {"loss": as_json(loss), "grad_norm": as_json(float(np.linalg.norm(mean))), "lr": 0.3, "tokens": ROWS}
        self.state = {"step": self.state["step"] + 1, "phase": "train", **numbers, "step_seconds": round(own, 5)}
        if not self.plan.beat_seconds:
            self.send_beat()

    def stand_still(self, phase: str, seconds: float) -> None:
        """Spend some seconds in another phase."""
        self.state = {**self.state, "phase": phase}
        time.sleep(seconds)
        if phase == "checkpoint" and self.rank == 0:
            with self.lock:
                self.pipe.send({"event": {"kind": "checkpoint", "step": self.state["step"]}})
        self.state = {**self.state, "phase": "train"}


def run_rank(rank: int, plan: Plan, pipe: Any, shared: Any, barrier: Any, fault: Any, over: Any) -> None:
    """Run one rank, and report the exception that ends it."""
    worker = Rank(rank, plan, pipe, shared, barrier, fault, over)
    try:
        worker.train()
    except Exception as error:
        event = {"kind": "exception", "type": type(error).__name__, "message": str(error)}
        # Local paths are useless to a reader.
        stack = traceback.format_exc().replace(str(Path(__file__).resolve().parent) + os.sep, "")
        pipe.send({"event": {**event, "stack": stack}})
        os._exit(1)
    # The launcher reports the end before its processes exit.
    time.sleep(1.0)
    os._exit(0)


class Observer:
    """Starts the ranks of a plan, records their messages, and injects the fault of the plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: list[dict[str, Any]] = []
        self.begin = time.monotonic()
        context = mp.get_context("fork")
        shared = context.RawArray("d", plan.world * FEATURES)
        barrier = context.Barrier(plan.world)
        self.fault, self.over = context.Value("i", 0), context.Value("i", 0)
        self.pipes: dict[Any, int] = {}
        self.ranks: list[Any] = []
        for rank in range(plan.world):
            mine, theirs = context.Pipe(duplex=False)
            given = (rank, plan, theirs, shared, barrier, self.fault, self.over)
            self.ranks.append(context.Process(target=run_rank, args=given, daemon=True))
            self.pipes[mine] = rank
        self.write(None, {"event": {"kind": "start", "world": plan.world, "host": "h1"}})
        for process in self.ranks:
            process.start()
        self.gone: set[int] = set()

    def write(self, rank: int | None, body: dict[str, Any]) -> None:
        """Write a line with the current time."""
        who = {} if rank is None else {"rank": rank}
        self.lines.append({"t": round(time.monotonic() - self.begin, 3), "run": "r1", **who, **body})

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Record all messages of some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            time.sleep(0.01)
            for pipe in connection.wait(list(self.pipes), timeout=0.05):
                self.take(pipe)
            for rank, process in enumerate(self.ranks):
                if rank not in self.gone and not process.is_alive():
                    self.gone.add(rank)
                    self.write(rank, {"event": {"kind": "process_gone"}})

    def take(self, pipe: Any) -> None:
        """Record all pending messages of a rank."""
        try:
            while pipe.poll():
                self.write(self.pipes[pipe], pipe.recv())
        except EOFError:
            del self.pipes[pipe]

    def last_step(self) -> int:
        """Return the last step reported by a rank."""
        return max((line["beat"]["step"] for line in self.lines if "beat" in line), default=0)

    def now(self) -> float:
        """Return seconds since the first line."""
        return time.monotonic() - self.begin - self.lines[0]["t"]

    def label(self, kind: str, promised: float, deadline: float, **more: Any) -> Label:
        """Return the label of a fault that begins now."""
        at = self.now()
        culprits: dict[str, Any] = {"ranks": (self.plan.culprit,), "naming": "first", **more}
        step = self.last_step()
        culprits.setdefault("since_tolerance", 4)
        return Label("r1", kind, at, at + promised, at + deadline, since_step=step, **culprits)

    def record(self) -> Label | None:
        """Run the plan and return the label of its fault."""
        plan, label = self.plan, None
        victim = self.ranks[plan.culprit].pid or 0
        self.watch(plan.before)
        if plan.fault == "stop":
            label = self.label("stuck", 3 * plan.step_seconds + 6, 120)
            os.kill(victim, signal.SIGSTOP)
            self.watch(plan.after)
            os.kill(victim, signal.SIGCONT)
            label.recovered(self.now())
            self.watch(15.0)
        elif plan.fault == "kill":
            label = self.label("process_lost", 3, 30)
            os.kill(victim, signal.SIGKILL)
            self.watch(plan.after)
        elif plan.fault != "none":
            self.fault.value = 1
            label = {
                "nan": lambda: self.label("grad_nonfinite", 4, 30, also=("loss_nonfinite",), naming="any"),
                "raise": lambda: self.label("exception", 3, 30),
                "slow": lambda: self.label("straggler", 120, 240, since_tolerance=25),
            }[plan.fault]()
            self.watch(plan.after)
        else:
            self.watch(plan.after)
        self.finish()
        return label

    def finish(self) -> None:
        """End the run like a launcher, and wait for all processes."""
        lost = self.plan.fault in ("kill", "raise")
        last = self.over.value = self.last_step() + 3
        if not lost:
            self.watch(30.0, until=lambda: self.last_step() >= last)
        self.write(None, {"event": {"kind": "end", "reason": "error" if lost else "ok"}})
        if lost:
            for process in self.ranks:
                process.terminate()
        self.watch(10.0, until=lambda: len(self.gone) == self.plan.world)


PLANS = {
    "healthy": Plan("none", after=35.0),
    "stopped": Plan("stop", after=25.0),
    "killed": Plan("kill", world=3, step_seconds=0.4, after=15.0),
    "nan": Plan("nan", after=8.0),
    "raised": Plan("raise", world=3, step_seconds=0.4, after=4.0),
    "slow": Plan("slow", world=4, step_seconds=0.3, beat_seconds=3.0, before=60.0, after=180.0, culprit=2),
}


def main() -> None:
    """Record all plans, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--only", default="", help="only plans whose name contains this")
    arguments = parser.parse_args()
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    path = arguments.out_dir / "labels.json"
    document = json.loads(path.read_text()) if path.exists() else {"set": "recorded", "traces": {}}
    for name, plan in PLANS.items():
        if arguments.only not in name:
            continue
        observer = Observer(plan)
        label = observer.record()
        texts = [json.dumps(line, separators=(",", ":")) for line in observer.lines]
        (arguments.out_dir / f"{name}.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
        labels = [asdict(label)] if label else []
        for item in labels:
            item.update({k: round(v, 3) for k, v in item.items() if isinstance(v, float) and math.isfinite(v)})
        document["traces"][name] = {"guise": f"recorded/{name}", "incidents": labels, "tolerated": []}
        print(f"{name}: {len(texts)} lines", flush=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
