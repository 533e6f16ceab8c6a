"""Run one process of bench/peers.py: a training loop, bare or watched, that runs blocks of steps on command.

Commands are lines of JSON on standard input. Answers are lines of JSON on the file descriptor in the first argument,
since the monitor may use standard output.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

WARM_STEPS = 5
Now = time.perf_counter_ns


class Residual(nn.Module):
    """A block of small layers, where a monitor's cost is per module and per tensor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width)
        self.activation = nn.SiLU()
        self.contract = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to the residual stream."""
        return x + self.contract(self.activation(self.expand(self.norm(x))))


def toy() -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    """Return 501 modules with 600 parameters, and its loss."""
    width = 32
    model = nn.Sequential(*[Residual(width) for _ in range(100)])
    inputs, wanted = torch.randn(16, width), torch.randn(16, width)
    return model, lambda: nn.functional.mse_loss(model(inputs), wanted)


def gpt() -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    """Return the GPT of the examples, 3.3 million parameters: fewer, larger tensors, where the cost is per byte."""
    from gpt import VOCABULARY, Gpt

    batch, context = 8, 128
    model = Gpt(layers=4, width=256, heads=4, context=context)
    text = torch.randint(VOCABULARY, (batch, context + 1))
    inputs, wanted = text[:, :-1].contiguous(), text[:, 1:].flatten()
    return model, lambda: nn.functional.cross_entropy(model(inputs).flatten(0, 1), wanted)


MODELS = {"toy": toy, "gpt": gpt}


class Loop:
    """Trains, and times each step and the part of it around the optimizer's own step.

    A wrapper around the optimizer's own step times it. The bare process has the wrapper as well, so that all processes
    have the same cost.
    """

    def __init__(self, model: str) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.model, self._loss = MODELS[model]()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self._own_step = self.optimizer.step
        self._own_ns = 0
        self.optimizer.step = types.MethodType(self._timed_step, self.optimizer)  # type: ignore[method-assign]

    def _timed_step(self, _: torch.optim.Optimizer) -> None:
        began = Now()
        self._own_step()
        self._own_ns = Now() - began

    def step(self) -> tuple[int, int]:
        """Train one step; return nanoseconds of the whole step, and of the part around the optimizer's own step."""
        began = Now()
        self._loss().backward()
        update = Now()
        self.optimizer.step()
        around = Now() - update - self._own_ns
        self.optimizer.zero_grad()
        return Now() - began, around

    def block(self, steps: int, seconds: float) -> dict[str, float]:
        """Train some steps, of which the first one warms the caches; end early after `seconds`."""
        self.step()
        wall, processor = time.perf_counter(), time.process_time()
        taken: list[tuple[int, int]] = []
        while len(taken) < steps and (len(taken) < 2 or time.perf_counter() - wall < seconds):
            taken.append(self.step())
        return {
            "step_ms": statistics.median(step for step, _ in taken) / 1e6,
            "around_update_us": statistics.median(around for _, around in taken) / 1e3,
            # The time of all threads: work moved off the step thread counts as well.
            "processor_ms": (time.process_time() - processor) / len(taken) * 1e3,
        }


class Bare:
    """A loop without a monitor."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def block(self, steps: int, seconds: float) -> dict[str, Any]:
        """Run a block."""
        return self.loop.block(steps, seconds)

    def close(self) -> None:
        """Do nothing."""


class Watched(Bare):
    """A loop watched by a TrainerMon with a fixed config.

    Parameters
    ----------
    loop : Loop
    monitor_class : type
        TrainerMon of either package.
    config : Path
    """

    def __init__(self, loop: Loop, monitor_class: Any, config: Path) -> None:
        super().__init__(loop)
        self.monitor = monitor_class(str(config), params_have_main_grad=False)
        self.monitor.set_monitor(loop.model, loop.optimizer, grad_acc_steps=1)

    def close(self) -> None:
        """Write the collected data."""
        writer = getattr(self.monitor, "summary_writer", None)  # closes a TrainerMon without a close method
        close = getattr(self.monitor, "close", None) or getattr(writer, "close", None)
        if close is not None:
            close()


class Switched(Watched):
    """A watched loop whose config is edited between blocks, so that one process is compared with itself.

    Two processes differ by their memory layout, which changes a small step by some percent; one process does not differ
    from itself.
    """

    def __init__(self, loop: Loop, monitor_class: Any, config: Path) -> None:
        self._config = config
        self._text = config.read_text()
        self._on_first = True
        super().__init__(loop, monitor_class, config)
        self._switch(on=True)

    def _switch(self, on: bool) -> None:
        new = self._config.with_suffix(".new")
        new.write_text(self._text.replace('"dynamic_on": false', f'"dynamic_on": {str(on).lower()}'))
        new.replace(self._config)
        outcome = self.monitor.refresh()
        if outcome not in ("armed", "stopping", "unchanged"):
            raise RuntimeError(f"the edit of {self._config} did not arrive: {outcome}")
        for _ in range(2):  # the swap, and the removal of hooks
            self.loop.step()

    def block(self, steps: int, seconds: float) -> dict[str, Any]:
        """Run a block with collection, and before or after it one without."""
        found: dict[str, Any] = {}
        for on in (True, False) if self._on_first else (False, True):
            self._switch(on)
            block = self.loop.block(steps, seconds)
            found.update(block if on else {"off_ms": block["step_ms"]})
        self._on_first = not self._on_first
        return found


def attach(loop: Loop, spec: dict[str, Any]) -> Bare:
    """Return the object that runs the blocks."""
    if spec["package"] is None:
        return Bare(loop)
    if spec["package"] == "msprobe":
        from msprobe.pytorch import TrainerMon
    else:
        from stepwatch import TrainerMon
    return (Switched if spec["switched"] else Watched)(loop, TrainerMon, Path(spec["config"]))


def peak_mb() -> float:
    """Return the peak memory of this process; `getrusage` would include its parent's."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Train on command until the end command."""
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    spec = json.loads(sys.argv[2])
    # A process with one thread uses shortcuts in malloc and in locks (glibc), and is up to two percent faster. A real
    # job has several threads, so every process here has a second one, which only waits.
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    loop = Loop(spec["model"])
    job = attach(loop, spec)
    for _ in range(WARM_STEPS):
        loop.step()
    model = loop.model
    facts = {"modules": len(list(model.modules())), "parameters": len(list(model.parameters()))}
    answers.write(json.dumps({**facts, "torch": torch.__version__}) + "\n")
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "end":
            job.close()
            answers.write(json.dumps({"peak_mb": peak_mb()}) + "\n")
            return
        if command["do"] == "memory":
            answers.write(json.dumps({"peak_mb": peak_mb()}) + "\n")
        else:
            answers.write(json.dumps(job.block(command["steps"], command["seconds"])) + "\n")


if __name__ == "__main__":
    main()
