"""A training job of one or two ranks that stepwatchd is to find: it only attaches a monitor and reports its loss.

python stepwatchd_job.py DIRECTORY STEPS [NAN_FROM [RANK WORLD]]
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import stepwatch
import torch


def main() -> None:
    """Train."""
    directory, steps = Path(sys.argv[1]), int(sys.argv[2])
    nan_from = int(sys.argv[3]) if len(sys.argv) > 3 else steps
    rank, world = (int(sys.argv[4]), int(sys.argv[5])) if len(sys.argv) > 5 else (0, 1)
    if world > 1:
        store = torch.distributed.FileStore(str(directory / "store"), world)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    torch.manual_seed(0)  # replicas that begin apart would pull each other's loss up
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    config = directory / "config.json"
    if rank == 0:
        config.with_suffix(".new").write_text(json.dumps({"dynamic_on": False, "targets": {}, "format": "csv"}))
        config.with_suffix(".new").rename(config)
    if world > 1:
        torch.distributed.barrier()
    os.environ["DYNAMIC_MONITOR"] = "true"
    with stepwatch.watch(model, optimizer, config=config, output_dir=directory / "out"):
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(torch.ones(3, 4)).square().mean()
            loss.backward()
            if world > 1:
                for parameter in model.parameters():
                    torch.distributed.all_reduce(parameter.grad)
            stepwatch.report(loss=float("nan") if step >= nan_from else loss.detach())
            optimizer.step()
            time.sleep(0.02)


if __name__ == "__main__":
    main()
