"""Programs of tests that run as all ranks of a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import python_programs
import torch

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

FOLDERS = [str(Path(__file__).parent), str(Path(python_programs.__file__).parent)]
RANK = """
import datetime, json, os, sys, torch, torch.distributed as dist
sys.path[:0] = {folders!r}
import stepwatch
from jobs import mlp, train

rank, ranks = map(int, sys.argv[1:3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{{os.getcwd()}}/rendezvous", rank=rank, world_size=ranks,
                        timeout=datetime.timedelta(seconds=150))
"""
# Destroying the process groups of FSDP1 ends the process now and then: "terminate called without ..."
END_OF_RANK = """
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""


def run_ranks(folder: Path, program: str, *arguments: str, ranks: int = 2) -> list[str]:
    """Run a program in a folder as all ranks of a job; return what each has printed.

    It begins in a process group, and finds its arguments from `sys.argv[3]` on.
    """
    text = RANK.format(folders=FOLDERS) + program + END_OF_RANK
    logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
    processes = []
    for rank, log in enumerate(logs):
        with open(log, "w") as out:
            command = ["-c", text, str(rank), str(ranks), *arguments]
            processes.append(python_programs.start(command, folder, stdout=out, stderr=subprocess.STDOUT))
    try:
        codes = [process.wait(200) for process in processes]
    finally:
        for process in processes:
            process.kill()
    printed = [log.read_text() for log in logs]
    assert codes == [0] * ranks, "\n".join(printed)
    return printed
