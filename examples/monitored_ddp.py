"""Train a small GPT on several processes, in the way of a job that somebody is on call for.

    python examples/monitored_ddp.py                            # starts two processes by torchrun
    torchrun --nproc-per-node 4 examples/monitored_ddp.py       # or starts as a torchrun job
    kill -USR1 PID    # of any rank: a checkpoint after the current step
    kill PID          # a checkpoint, then the end with status 143; the same command then resumes

docs/use/monitored_trainer.md describes it, with the grammar of its lines.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist
from gpt import VOCABULARY, Gpt, learning_rate, read_text
from rank_log import RankLog
from torch.nn.parallel import DistributedDataParallel

import stepwatch
import torch

CHECKPOINT, STOP = 1, 2  # requests; the larger one wins
REQUESTS = {signal.SIGUSR1: CHECKPOINT, signal.SIGTERM: STOP}


class Trainer:
    """The training loop of one rank."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.rank, self.world = options, dist.get_rank(), dist.get_world_size()
        self.path, self.step, self.requests = Path(options.output) / "checkpoint.pt", 0, []
        for number in REQUESTS:  # before the monitor, which records each signal and then calls this handler
            signal.signal(number, lambda number, _: self.requests.append(REQUESTS[number]))
        torch.manual_seed(options.seed)  # the same weights everywhere
        self.model = DistributedDataParallel(Gpt(2, options.width, 2, options.context))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        text = read_text(options.text or ["."])[: options.text_bytes].long()
        windows = text.unfold(0, options.context + 1, options.context)
        split = len(windows) // 10 * 9  # the last tenth is for evaluation
        self.windows, self.held_out = windows[:split], windows[split:]
        self.epoch_steps = split // (options.batch * self.world)
        options.steps = options.epochs * self.epoch_steps  # of the schedule of the learning rate
        self.loss_sum = torch.zeros(())  # of the steps of this epoch, on the device of the model
        if self.path.exists():
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.loss_sum = state["step"], state["loss_sum"]
        self.group = dist.new_group(backend="gloo")  # of requests; beside NCCL too, so that no GPU is waited for
        self.exchange()

    def exchange(self) -> None:
        """Begin to find the largest request of all ranks, behind the next step."""
        requests = [self.requests.pop() for _ in range(len(self.requests))]  # a signal may add one meanwhile
        self.flag = torch.tensor(max(requests, default=0))
        self.agreement = dist.all_reduce(self.flag, dist.ReduceOp.MAX, self.group, async_op=True)

    def agreed(self) -> int:
        """Return the request in which all ranks agree at this step."""
        self.agreement.wait()
        request = int(self.flag)
        self.exchange()
        return request

    def batch(self) -> torch.Tensor:
        """Return this rank's windows of the step: a function of seed and step, so a resumed run repeats none."""
        epoch, place = divmod(self.step, self.epoch_steps)
        order = torch.randperm(len(self.windows), generator=torch.Generator().manual_seed(self.options.seed + epoch))
        begin = (place * self.world + self.rank) * self.options.batch
        return self.windows[order[begin : begin + self.options.batch]]

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of windows."""
        logits = self.model(rows[:, :-1])
        return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))

    def train_step(self) -> dict[str, Any]:
        """Train one step, and return its numbers; those that the model computes are tensors on its device."""
        rows, rate = self.batch(), learning_rate(self.options, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.loss(rows)
        self.optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients over the ranks
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        numbers = {"loss": loss.detach(), "grad_norm": norm, "lr": rate}
        numbers.update(tokens=rows[:, 1:].numel(), samples=len(rows))  # of this rank; stepwatchd adds up the ranks
        stepwatch.report(**numbers)  # never waits for a device; before optimizer.step(), which ends the step
        self.optimizer.step()
        self.loss_sum += numbers["loss"]
        return numbers

    def mean(self, value: torch.Tensor) -> float:
        """Return the mean over all ranks."""
        dist.all_reduce(total := value.clone())
        return float(total) / self.world

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the loss on held-out text; all ranks have equal shares."""
        with stepwatch.phase("eval"):
            share = self.held_out[self.rank :: self.world][: len(self.held_out) // self.world]
            return self.mean(torch.stack([self.loss(rows) for rows in share.split(self.options.batch)]).mean())

    def save(self) -> None:
        """Write a checkpoint, which is whole at any time, and return when it is on the disk."""
        with stepwatch.phase("checkpoint"):
            state = {"step": self.step, "loss_sum": torch.tensor(self.mean(self.loss_sum))}
            if self.rank == 0:
                state.update(model=self.model.state_dict(), optimizer=self.optimizer.state_dict())
                with open(self.path.with_suffix(".new"), "wb") as file:
                    torch.save(state, file)
                    file.flush()
                    os.fsync(file.fileno())
                self.path.with_suffix(".new").replace(self.path)
            dist.barrier()
        self.log.event("checkpoint_completed", f"checkpoint of step {self.step - 1} completed", step=self.step - 1)

    def end_epoch(self, began: float, epoch_began: float) -> None:
        """Evaluate, and write the event of an epoch."""
        epoch, steps = self.step // self.epoch_steps, self.epoch_steps
        loss, eval_loss, ended = self.mean(self.loss_sum) / steps, self.evaluate(), time.monotonic()
        seconds = {"epoch_seconds": round(ended - epoch_began, 3), "total_seconds": round(ended - began, 3)}
        step_tokens = self.options.batch * self.options.context * self.world
        tokens = {"epoch_tokens": steps * step_tokens, "total_tokens": self.step * step_tokens}
        message = f"epoch {epoch} completed: average loss {loss:.4f}, evaluation loss {eval_loss:.4f}"
        numbers = {"average_loss": loss, "eval_loss": eval_loss, "epoch_steps": steps, "total_steps": self.step}
        self.log.event("epoch_completed", message, epoch=epoch, step=self.step - 1, **numbers, **tokens, **seconds)
        self.loss_sum.zero_()

    def run(self) -> int:
        """Train to the end or to a request to stop; return the exit status."""
        options, began = self.options, time.monotonic()
        ids = [next((job.run_id for job in stepwatch.jobs() if job.pid == os.getpid()), None)]
        dist.broadcast_object_list(ids)  # the run id of Stepwatch, by which records of logs and beats belong together
        self.log = RankLog(Path(options.output) / "logs", self.rank, ids[0] or "", options.log_bytes)
        self.log.event("training_started", f"training starts at step {self.step} of {options.steps}")
        epoch_began, timed_from, timed_steps = began, began, 0
        while self.step < options.steps:
            numbers, is_logged = self.train_step(), self.step % options.log_interval == 0
            self.step, timed_steps = self.step + 1, timed_steps + 1
            if is_logged:
                numbers.update(loss=float(numbers["loss"]), grad_norm=float(numbers["grad_norm"]))  # the only waits
                numbers["step_seconds"] = (time.monotonic() - timed_from) / timed_steps
                numbers["tokens_per_second"] = numbers["tokens"] / numbers["step_seconds"]
                self.log.progress(self.step - 1, **numbers)
                timed_from, timed_steps = time.monotonic(), 0
            request, ends_epoch = self.agreed(), self.step % self.epoch_steps == 0
            if ends_epoch:
                self.end_epoch(began, epoch_began)
                epoch_began = time.monotonic()
            if ends_epoch or request:
                self.save()
                timed_from, timed_steps = time.monotonic(), 0
            if request == STOP:
                self.log.event(
                    "training_stopped", f"SIGTERM stopped the training after step {self.step - 1}", step=self.step - 1
                )
                return 128 + signal.SIGTERM  # not 0: a scheduler would count the job as complete
        self.log.event("training_completed", f"training completed after step {self.step - 1}", step=self.step - 1)
        return 0


def main() -> None:
    """Train as a rank of torchrun, or start torchrun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="demo_output/monitored_ddp", help="directory of checkpoint, logs and rows")
    parser.add_argument("--text", action="append", help="file or directory to train on; may be repeated")
    numbers = {"epochs": 2, "batch": 4, "context": 32, "width": 32, "lr": 1e-3, "seed": 1, "log_interval": 10}
    for name, value in {**numbers, "text_bytes": 1 << 17, "log_bytes": 10 << 20}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"default {value}")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        os.execv(sys.executable, [sys.executable, *torchrun, *sys.argv])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    out = Path(options.output)
    if dist.get_rank() == 0 and not (out / "config.json").exists():
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.json").write_text('{"dynamic_on": false, "wg_distribution": true, "collect_times": 100}\n')
    trainer = Trainer(options)
    watched, begin = (trainer.model, trainer.optimizer), trainer.step
    with stepwatch.watch(*watched, config=out / "config.json", dynamic=True, output_dir=out, start_iteration=begin):
        status = trainer.run()
    trainer.agreement.wait()
    dist.destroy_process_group()
    sys.exit(status)


if __name__ == "__main__":
    main()
