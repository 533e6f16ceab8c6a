"""Operators of torch.distributed that DeepSpeed calls by the functions that it has kept since it started."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

import python_programs
from oracle import same

HERE = Path(__file__).parent
RANKS = 2

JOB = """
import json, os, sys, types
from collections import defaultdict
import torch

rank, order, stage = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(1)
init = f"file://{os.getcwd()}/rendezvous"
torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
import stepwatch
from deepspeed.comm.torch import TorchBackend
from deepspeed_jobs import engine_of
from nets import Net, loss_of
from oracle import numbers

seen = defaultdict(list)

def noting(name):
    original = getattr(TorchBackend, name)
    def call(self, output_tensor, input_tensor, *args, **kwargs):
        work = original(self, output_tensor, input_tensor, *args, **kwargs)
        if work is not None:
            work.wait()  # a second time is harmless
        for position, tensor in enumerate((output_tensor, input_tensor)):
            seen[f"{name}.post_{position}"].append(tensor.detach().clone().view(-1))
        return work
    setattr(TorchBackend, name, call)

for name in ("all_gather_into_tensor", "reduce_scatter_tensor"):
    noting(name)
net = Net()
job = types.SimpleNamespace(micro_batches=1)
watch = lambda model, optimizer: stepwatch.watch(model, optimizer, "config.json", dynamic=False, output_dir="out")
if order == "before":
    made = torch.optim.AdamW(net.parameters(), lr=0.01)
    monitor = watch(net, made)
    engine, optimizer = engine_of(job, net, stage, optimizer=made)
else:
    engine, optimizer = engine_of(job, net, stage)
    monitor = watch(engine.module, engine)
right = []
for step in range(4):
    seen.clear()
    engine.backward(loss_of(engine(torch.randn(6, 5))))
    engine.step()
    right.append({name: numbers(torch.cat(tensors)) for name, tensors in seen.items()})
monitor.close(30)
with open(f"right{rank}.json", "w") as file:
    json.dump(right, file)
torch.distributed.barrier()
os._exit(0)
"""


# Watched before DeepSpeed starts, a step ends with that of torch's optimizer: ZeRO 2 gathers weights behind it.
@pytest.mark.parametrize(
    ("stage", "operator", "order", "late"),
    [
        (2, "all_gather_into_tensor", "before", 1),
        (2, "all_gather_into_tensor", "after", 0),
        (3, "reduce_scatter_tensor", "before", 0),
        (3, "reduce_scatter_tensor", "after", 0),
    ],
)
def test_tensors_that_deepspeed_gathers_and_scatters_have_rows(
    tmp_path: Path, stage: int, operator: str, order: str, late: int
) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"ops": ["norm", "min", "max", "mean"], "cc_distribution": {"enable": True}})
    )
    paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    ranks = []
    for rank in range(RANKS):
        places = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "DS_ACCELERATOR": "cpu"}
        arguments = ["-c", JOB, str(rank), order, str(stage)]
        with open(tmp_path / f"rank{rank}.log", "w") as log:
            environment = {**os.environ, **places, "PYTHONPATH": paths, "MASTER_ADDR": "127.0.0.1"}
            ranks.append(python_programs.start(arguments, tmp_path, environment, log, subprocess.STDOUT))
    codes = [process.wait(300) for process in ranks]
    assert codes == [0] * RANKS, "".join((tmp_path / f"rank{rank}.log").read_text() for rank in range(RANKS))
    for rank in range(RANKS):
        steps = json.loads((tmp_path / f"right{rank}.json").read_text())
        for step in range(1, len(steps)):  # the first has what comes with the start as well
            (file,) = (tmp_path / "out").glob(f"*-rank{rank}-*/other_{step}-*.csv")
            with open(file, newline="") as text:
                table = {row["name"]: row for row in csv.DictReader(text)}
            right = {name: numbers for name, numbers in steps[step - late].items() if name.startswith(operator)}
            assert right
            for name, numbers in right.items():
                found = {stat: float(table[name][stat]) for stat in numbers}
                assert same(numbers, found, 1e-4), (name, step, found, numbers)
