"""Run one rank of a small training job that can be made to fail.

    python job.py DIRECTORY RANK WORLD

The job learns a function from noisy samples, each rank from its own, and averages gradients by DDP over gloo. A file in
DIRECTORY switches a fault on until it is removed: `bad_batch` puts a NaN into samples of rank 1, `leak` makes each rank
keep data that it should drop, and process all of it at every step.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from torch.nn.parallel import DistributedDataParallel

import stepwatch
import torch
from torch import nn

FEATURES = 16
SAMPLES = 1024  # of a rank in a step
# Simulated wait for data. A rank that computed all the time would be slowed down by other programs.
DATA_SECONDS = 0.05
KEPT_SAMPLES = 48  # of a step, by the leak
BAD_RANK = 1


def say(text: str) -> None:
    """Print a line into the log of this rank."""
    print(text, flush=True)


class Samples:
    """The training data of a rank: the same noisy function on all ranks, at different points.

    Parameters
    ----------
    rank : int
    """

    def __init__(self, rank: int) -> None:
        teacher = torch.Generator().manual_seed(1)
        self._direction = torch.randn(FEATURES, generator=teacher) / FEATURES**0.5
        self._points = torch.Generator().manual_seed(100 + rank)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return samples and their targets."""
        time.sleep(DATA_SECONDS)
        x = torch.randn(SAMPLES, FEATURES, generator=self._points)
        noise = 0.3 * torch.randn(SAMPLES, generator=self._points)
        return x, torch.sin(2 * x @ self._direction) + noise


class Leak:
    """A naive mean over the whole training: it keeps samples, and sums all of them again."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []

    def step(self, x: torch.Tensor) -> None:
        """Keep some samples of a step."""
        self._kept.extend(x[:KEPT_SAMPLES].unbind())
        _ = sum(float(sample.mean()) for sample in self._kept) / len(self._kept)

    def clear(self) -> None:
        """Drop all samples."""
        self._kept.clear()


class Trainer:
    """The training loop of one rank.

    Parameters
    ----------
    directory : pathlib.Path
        Contains the files that switch faults on.
    rank : int
    """

    def __init__(self, directory: Path, rank: int) -> None:
        torch.manual_seed(0)  # the same weights everywhere
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 1)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self._samples = Samples(rank)
        self._leak = Leak()
        self._bad_batch = directory / "bad_batch" if rank == BAD_RANK else None
        self._leaks = directory / "leak"
        self._was_bad = False

    def step(self, number: int) -> None:
        """Train one step."""
        x, y = self._samples.draw()
        if self._is_bad(number):
            x[0, 0] = float("nan")
        loss = (self.model(x).squeeze(1) - y).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if not torch.isfinite(norm):  # a bad batch must not spoil the weights
            self.optimizer.zero_grad(set_to_none=False)
        if self._leaks.exists():
            self._leak.step(x)
        else:
            self._leak.clear()
        stepwatch.report(loss=loss.detach(), grad_norm=norm)
        self.optimizer.step()

    def _is_bad(self, number: int) -> bool:
        is_bad = self._bad_batch is not None and self._bad_batch.exists()
        if is_bad and not self._was_bad:
            say(f"step {number}: the first bad batch")
        self._was_bad = is_bad
        return is_bad


def main() -> None:
    """Train until the process is ended."""
    directory, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(str(directory / "store"), world)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    trainer = Trainer(directory, rank)
    config = directory / "config.json"
    with stepwatch.watch(trainer.model, trainer.optimizer, config=config, dynamic=True, output_dir=directory):
        number = 0
        while True:
            trainer.step(number)
            number += 1


if __name__ == "__main__":
    main()
