"""Train a small GPT on several processes, watched through one config.json that is edited during the run.

    python examples/ddp.py                                    # starts two processes
    torchrun --nproc-per-node 2 examples/ddp.py               # or starts as a torchrun job

The monitor needs only the process group: the ranks share a run id, only rank 0 reads the config, and an edit takes
effect at the same step on every rank. Without --config, the example edits its config itself after a third of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path

from gpt import VOCABULARY, Gpt, read_text
from torch.nn.parallel import DistributedDataParallel

import stepwatch
import torch
from torch import nn

CONFIG = """{
  "dynamic_on": false,   // <- the switch; it turns itself off after 5 collected steps
  "targets": {"module.layers.0": {}, "module.head": {}},
  "wg_distribution": true,
  "step_interval": 2,
  "collect_times": 5,
  "ops": ["norm", "max", "nans"]
}
"""


def save(path: Path, text: str) -> None:
    """Write a new file and rename it over the old one."""
    fresh = path.with_suffix(".json.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def log(rank: int, text: str) -> None:
    """Print a line in one write; unbuffered print() makes two, and the ranks share stdout."""
    sys.stdout.write(f"rank {rank}: {text}\n")
    sys.stdout.flush()


class Trainer:
    """The training loop of one rank.

    Parameters
    ----------
    rank : int
        Each rank reads different windows of the text.
    options : argparse.Namespace
        The command line.
    """

    def __init__(self, rank: int, options: argparse.Namespace) -> None:
        torch.manual_seed(options.seed)  # the same weights everywhere
        self.model = DistributedDataParallel(Gpt(layers=2, width=32, heads=2, context=options.context))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self._options = options
        self._text = read_text(options.text or ["."])
        self._windows = torch.Generator().manual_seed(options.seed + rank)

    def step(self) -> float:
        """Train one step; return this rank's loss."""
        window = self._options.context + 1
        starts = torch.randint(len(self._text) - window, (self._options.batch,), generator=self._windows).tolist()
        rows = torch.stack([self._text[start : start + window] for start in starts]).long()
        logits = self.model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients over the ranks
        self.optimizer.step()
        time.sleep(self._options.pause)
        return loss.item()


def train(rank: int, options: argparse.Namespace, config: Path) -> None:
    """Train, edit the config if requested, and print the collected steps; torch.distributed is initialised."""
    edit_at = None if options.config else options.steps // 3
    trainer = Trainer(rank, options)
    with stepwatch.watch(
        trainer.model, trainer.optimizer, config=config, dynamic=True, output_dir=options.output
    ) as monitor:
        for step in range(options.steps):
            if rank == 0 and step == edit_at:
                log(rank, f"step {step}: edited the config")
                save(config, CONFIG.replace("false", "true", 1))
            loss = trainer.step()
            if rank == 0 and step % 10 == 0:
                log(rank, f"step {step}  loss {loss:.4f}")
        directory = monitor.status()["output_dir"]
    report(rank, directory)


def report(rank: int, directory: str) -> None:
    """Print the steps that this rank has collected, and their directory."""
    if not directory:
        log(rank, "no steps were collected")
        return
    manifest = json.loads((Path(directory) / "manifest.json").read_text(encoding="utf-8"))
    for plan in manifest["plans"]:
        log(
            rank,
            f"run {manifest['run_id'][:8]}, plan {plan['plan']}: {plan['collected']} steps collected, "
            f"the first was {plan.get('first_step')}, in {directory}",
        )


def run(rank: int, options: argparse.Namespace, config: Path) -> None:
    """Run one rank of the job, with the environment of torchrun."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    train(rank, options, config)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def be_spawned(rank: int, options: argparse.Namespace, config: Path, port: int) -> None:
    """Run one of the processes that this program has started."""
    here = {"RANK": rank, "WORLD_SIZE": options.processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in here.items()})
    run(rank, options, config)


def free_port() -> int:
    """Return an unused port of this host."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    """Parse the command line; train as a rank of a job, or start the processes of one."""
    parser = argparse.ArgumentParser(
        description="Trains a small GPT on several processes, watched through one config.json, edited during the run.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--steps", type=int, default=120, help="optimizer steps")
    parser.add_argument("--processes", type=int, default=2, help="processes to start; torchrun has its own option")
    parser.add_argument("--config", default="", help="a config.json that you edit; without it the example makes one")
    parser.add_argument("--output", default="demo_output/ddp", help="base of the ranks' output directories")
    parser.add_argument("--text", action="append", help="file or directory to train on; may be given several times")
    parser.add_argument("--context", type=int, default=32, help="bytes in a window")
    parser.add_argument("--batch", type=int, default=4, help="windows per rank and step")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and windows")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds to sleep in each step, for edits")
    options = parser.parse_args()
    config = Path(options.config or f"{options.output}/config.json")
    rank = int(os.environ.get("RANK", 0))
    if not options.config and rank == 0:
        config.parent.mkdir(parents=True, exist_ok=True)
        save(config, CONFIG)
    if "RANK" in os.environ:
        run(rank, options, config)
    else:
        torch.multiprocessing.spawn(be_spawned, (options, config, free_port()), nprocs=options.processes)


if __name__ == "__main__":
    main()
