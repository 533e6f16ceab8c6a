"""One rank of a case: runs its training in each mode, one behind the other."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    module, name, rank, ranks, folder = sys.argv[1:6]
    import torch

    torch.set_num_threads(1)
    from job import MODES, Job

    (case,) = [case for case in importlib.import_module(module).CASES if case.name == name]
    if case.ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/rendezvous", rank=int(rank), world_size=int(ranks)
        )
    for mode in MODES:
        print(f"--- {mode}", flush=True)
        torch.manual_seed(1)
        job = Job(mode, int(rank), int(ranks), case.steps, case.micro_batches, Path(folder))
        job.config, job.runs_apart = case.config, case.runs_apart
        case.train(job)
        job.finish()


try:
    main()
    code = 0
except BaseException:
    traceback.print_exc()
    code = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # destroying process groups of FSDP1 ends the process now and then: "terminate called without ..."
