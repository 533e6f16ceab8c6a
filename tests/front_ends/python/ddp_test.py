"""Under DistributedDataParallel an un-reduced gradient is the rank's own, a reduced one the average of all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import rows, value, write_config

import python_programs
import torch

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

RANKS = 2
# The same windows go through a copy of the model that nobody reduces.
JOB = """
import copy, json, os, sys, torch
sys.path.insert(0, {tests!r})
from jobs import mlp
import stepwatch

rank, ranks, view = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "view"
torch.set_num_threads(1)
init = f"file://{{os.getcwd()}}/rendezvous"
torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=ranks)
alone = mlp()
model = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(alone), gradient_as_bucket_view=view)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
generator = torch.Generator().manual_seed(rank)
with stepwatch.watch(model, optimizer, "config.json", dynamic=False, output_dir=f"out{{rank}}"):
    for step in range(2):
        x = torch.randn(5, 4, generator=generator)
        for each in (model, alone):
            each.zero_grad()
            each(x).pow(2).mean().backward()
        optimizer.step()
gradients = {{name: parameter.grad.double().flatten().tolist() for name, parameter in alone.named_parameters()}}
with open(f"alone{{rank}}.json", "w") as file:
    json.dump(gradients, file)
torch.distributed.barrier()
os._exit(0)
"""


@pytest.mark.parametrize("gradients", ["copied", "view"])
def test_unreduced_gradients_are_the_ranks_own_and_reduced_ones_their_average(tmp_path: Path, gradients: str) -> None:
    write_config(tmp_path / "config.json", wg_distribution=True)
    job = JOB.format(tests=str(Path(__file__).parent))
    ranks = [
        python_programs.start(["-c", job, str(rank), str(RANKS), gradients], cwd=tmp_path) for rank in range(RANKS)
    ]
    assert [rank.wait(300) for rank in ranks] == [0] * RANKS
    alone = [json.loads((tmp_path / f"alone{rank}.json").read_text()) for rank in range(RANKS)]
    for rank in range(RANKS):
        unreduced = rows(tmp_path / f"out{rank}", "grad_unreduced", 1)
        reduced = rows(tmp_path / f"out{rank}", "grad_reduced", 1)
        for name, values in alone[rank].items():
            own = torch.tensor(values, dtype=torch.float64)
            average = sum(torch.tensor(each[name], dtype=torch.float64) for each in alone) / RANKS
            assert value(unreduced, f"module.{name}", "norm") == pytest.approx(float(own.norm()), rel=1e-6)
            assert value(reduced, f"module.{name}", "norm") == pytest.approx(float(average.norm()), rel=1e-5)
