"""Train a small GPT on text, byte by byte, monitored according to config.json with --config.

    python examples/gpt.py --text src --steps 200 --config config.json

The C++ example has the same model, names and output. With DYNAMIC_MONITOR=true in the environment, edits of the config
file take effect during training.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
from torch import nn

VOCABULARY = 256
TEXT_BYTES_MAX = 32 << 20
SUFFIXES = {".py", ".md", ".txt", ".h", ".cc", ".c", ".rst"}


class Attention(nn.Module):
    """Causal self-attention: (batch, length, width) in and out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix the positions."""
        batch, length, width = x.shape
        parts = [
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        ]
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add attention and MLP to the residual stream."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A GPT over bytes with learned positions: (batch, length) of int64 in, logits (batch, length, 256) out."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(context, width)
        self.layers = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith(("projection.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the logits of each next byte."""
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.norm(self.layers(self.tokens(text) + self.positions(places))))


def read_text(paths: list[str]) -> torch.Tensor:
    """Read files, and source code and prose below directories, in the order of their names."""
    files: list[Path] = []
    for path in map(Path, paths):
        files += (
            [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        )
    text = bytearray()
    for file in files:
        if len(text) >= TEXT_BYTES_MAX:
            break
        try:
            text += file.read_bytes()
        except OSError:  # not readable
            continue
    if len(text) < 4096:
        raise SystemExit(f"gpt.py: only {len(text)} bytes of text were found; name files or directories with --text")
    return torch.frombuffer(text, dtype=torch.uint8)


def learning_rate(options: argparse.Namespace, step: int) -> float:
    """Return the learning rate: a linear warm-up over a twentieth of the run, then a cosine down to a tenth."""
    warm_up = max(1.0, options.steps / 20)
    if step < warm_up:
        return options.lr * (step + 1) / warm_up
    progress = min((step - warm_up) / max(1.0, options.steps - warm_up), 1.0)
    return options.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


class Trainer:
    """The training loop; two of its lines are for the monitor."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.text = read_text(options.text)
        self.split = len(self.text) // 10 * 9  # the last tenth is for evaluation
        self.model = Gpt(options.layers, options.width, options.heads, options.context)
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.95)
        )
        if options.config:
            from stepwatch import TrainerMon

            self.monitor = TrainerMon(options.config)
            self.monitor.set_monitor(self.model, self.optimizer, grad_acc_steps=options.grad_acc)

    def loss(self, training: bool) -> torch.Tensor:
        """Return the loss on random windows."""
        begin, end = (0, self.split) if training else (self.split, len(self.text))
        window = self.options.context + 1
        starts = torch.randint(begin, end - window, (self.options.batch,)).tolist()
        rows = torch.stack([self.text[start : start + window] for start in starts]).long()
        logits = self.model(rows[:, :-1])
        return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))

    def step(self, number: int) -> float:
        """Train one step; return its loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.options, number)
        self.optimizer.zero_grad()
        total = 0.0
        for _ in range(self.options.grad_acc):
            loss = self.loss(training=True) / self.options.grad_acc
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the loss on held-out text."""
        self.model.eval()
        loss = sum(self.loss(training=False).item() for _ in range(4)) / 4
        self.model.train()
        return loss

    def run(self) -> None:
        """Train and print a line for each step."""
        options = self.options
        tokens = options.batch * options.context * options.grad_acc
        parameters = sum(p.numel() for p in self.model.parameters())
        print(f"{parameters} parameters, {len(self.text)} bytes of text, {tokens} tokens a step", flush=True)
        for number in range(options.steps):
            start = time.perf_counter()
            loss = self.step(number)
            took = time.perf_counter() - start
            print(
                f"step {number}  loss {loss:.4f}  lr {learning_rate(options, number):.2e}  "
                f"{tokens / took:.0f} tokens/s  {took * 1e3:.1f} ms",
                flush=True,
            )
            if options.eval_every and (number + 1) % options.eval_every == 0:
                print(f"step {number}  eval loss {self.evaluate():.4f}", flush=True)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description="Trains a small GPT on text, byte by byte, watched and steered by config.json.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--text", action="append", help="file or directory to train on; may be given several times")
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps")
    parser.add_argument("--config", default="", help="the monitor's config.json; without it, the monitor is off")
    parser.add_argument("--layers", type=int, default=4, help="blocks")
    parser.add_argument("--width", type=int, default=192, help="features")
    parser.add_argument("--heads", type=int, default=4, help="attention heads of a block")
    parser.add_argument("--context", type=int, default=128, help="bytes in a window")
    parser.add_argument("--batch", type=int, default=8, help="windows in a micro-batch")
    parser.add_argument("--grad-acc", type=int, default=1, help="micro-batches in a step")
    parser.add_argument("--lr", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and batches")
    parser.add_argument("--eval-every", type=int, default=50, help="steps between evaluations; 0: none")
    options = parser.parse_args()
    options.text = options.text or ["."]
    torch.manual_seed(options.seed)
    Trainer(options).run()


if __name__ == "__main__":
    main()
