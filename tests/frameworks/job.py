"""A small training of a test: bare, under the eyes of the oracle, or watched by Stepwatch, statically or edited."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from oracle import Oracle

KINDS = [
    "actv",
    "actv_grad",
    "grad_unreduced",
    "grad_reduced",
    "param_origin",
    "param_updated",
    "exp_avg",
    "exp_avg_sq",
]
MODES = ["bare", "oracle", "static", "edited"]

_OPS = {"ops": ["norm", "min", "max", "mean"]}
_ALL = {"xy_distribution": True, "wg_distribution": True, "param_distribution": True, "mv_distribution": True}
CONFIGS = {
    "static": {**_OPS, **_ALL, "monitor_mbs_grad": True},
    "edited": {**_OPS, "dynamic_on": False},
    "first": {**_OPS, "dynamic_on": True, "wg_distribution": True},
    "second": {**_OPS, **_ALL, "dynamic_on": True, "monitor_mbs_grad": True},
}


class Job:
    """One run of a training on one rank.

    Parameters
    ----------
    mode : str
        One of `MODES`.
    rank, ranks, steps, micro_batches : int
    folder : Path
        All runs of the case on all ranks share it.

    Attributes
    ----------
    oracle : Oracle or None
        In its own mode.
    config : dict
        More keys for each config.
    runs_apart : bool
        The other ranks do not wait while an edit is agreed on.
    """

    def __init__(self, mode: str, rank: int, ranks: int, steps: int, micro_batches: int, folder: Path) -> None:
        self.mode, self.rank, self.ranks = mode, rank, ranks
        self.micro_batches = micro_batches
        self.folder = folder
        self.oracle = Oracle() if mode == "oracle" else None
        self.config: dict[str, Any] = {}
        self.runs_apart = False
        self._steps = steps
        self._step = 0
        self._monitor: Any = None
        self._edits = ["first", "second"]  # what the config becomes, each when what was there before has collected
        self._config = folder / f"{mode}.json"
        self._losses: list[float] = []
        self._digest = hashlib.sha256()

    def watch(self, model: Any, optimizer: Any, **options: Any) -> None:
        """Let Stepwatch watch, in the modes in which it does: these are the lines that a user writes."""
        if self.mode not in ("static", "edited"):
            return
        import stepwatch

        if self.rank == 0:
            _save(self._config, {**CONFIGS[self.mode], **self.config})
        self._meet()
        self._monitor = stepwatch.watch(
            model,
            optimizer,
            config=self._config,
            dynamic=self.mode == "edited",
            output_dir=self.folder / self.mode,
            grad_acc_steps=self.micro_batches,
            **options,
        )

    def watch_plainly(
        self, model: Any, optimizer: torch.optim.Optimizer, *, gradients: bool = True, **modules: Any
    ) -> None:
        """Let the oracle watch what torch alone shows, in its mode."""
        if self.oracle is None:
            return
        chunks = list(model) if isinstance(model, (list, tuple)) else [model]
        self.oracle.watch_modules(chunks, **modules)
        for number, chunk in enumerate(chunks):
            if gradients:
                self.oracle.watch_gradients(chunk.named_parameters(), chunk=number)
            self.oracle.watch_optimizer(optimizer, chunk.named_parameters(), chunk=number)

    def batch(self, micro: int, *shape: int, alike: bool = False) -> torch.Tensor:
        """Return the data of a micro-batch of the step that runs; each rank has its own, unless all are alike."""
        seed = ((self._step * 100 + micro) * 10 + (0 if alike else self.rank)) * 2 + 1
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    def tokens(self, micro: int, *shape: int, vocabulary: int = 32, alike: bool = False) -> torch.Tensor:
        """Return token ids likewise."""
        seed = ((self._step * 100 + micro) * 10 + (0 if alike else self.rank)) * 2
        return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))

    def steps(self) -> Iterator[int]:
        """Yield the number of each step; a step ends where the loop comes back."""
        for step in range(self._steps):
            yield step
            self.end_step()

    @property
    def number_of_steps(self) -> int:
        return self._steps

    def micro_steps(self) -> range:
        return range(self.micro_batches)

    def loss(self, loss: Any) -> None:
        self._losses.append(float(loss.detach() if isinstance(loss, torch.Tensor) else loss))

    def end_step(self) -> None:
        """Count the step, and edit the config behind it where the mode wants that."""
        if self.mode == "edited" and self._edits and (self._step == 0 or self._monitor.status()["collected"] > 0):
            self._edit(self._edits.pop(0))
        self._step += 1
        if self.oracle is not None:
            self.oracle.step = self._step

    def _edit(self, config: str) -> None:
        # All ranks wait here until they have agreed, so that training does not run away from the edit.
        if self.rank == 0:
            _save(self._config, {**CONFIGS[config], **self.config})
            outcome = self._monitor.refresh(60)
            assert outcome in ("armed", "unchanged"), f"the edit was {outcome}"
        if not self.runs_apart:
            self._meet()

    def _meet(self) -> None:
        if self.ranks > 1:
            torch.distributed.barrier()

    def weights(self, *tensors: torch.Tensor) -> None:
        """Say what the weights are in the end; this rank's part of each counts."""
        for tensor in tensors:
            tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "dequantize"):
                tensor = tensor.dequantize()
            values = tensor.detach().contiguous().cpu().view(-1)
            self._digest.update(values.view(torch.uint8).numpy().tobytes() if values.numel() else b"")

    def finish(self) -> None:
        """Close what watches, and write what came out."""
        if self._monitor is not None:
            self._monitor.close(30)
        result: dict[str, Any] = {"losses": self._losses, "weights": self._digest.hexdigest(), "steps": self._step}
        if self.oracle is not None:
            self.oracle.close()
            result["rows"] = [[*key, right] for key, right in self.oracle.rows.items()]
        _save(self.folder / f"{self.mode}-{self.rank}.result", result)
        self._meet()


def _save(path: Path, content: Any) -> None:
    fresh = path.with_suffix(".new" + str(os.getpid()))
    fresh.write_text(json.dumps(content))
    shutil.move(fresh, path)
