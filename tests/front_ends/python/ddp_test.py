"""Under DistributedDataParallel an un-reduced gradient is the rank's own, a reduced one the average of all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import WG, norms, write_config
from rank_programs import run_ranks

import torch

RANKS = 2
# The same windows go through a copy of the model that nobody reduces.
JOB = """
import copy

alone = mlp()
model = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(alone), gradient_as_bucket_view=sys.argv[3] == "view")
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
generator = torch.Generator().manual_seed(rank)
with stepwatch.watch(model, optimizer, "config.json", dynamic=False, output_dir=f"out{rank}"):
    for step in range(2):
        x = torch.randn(5, 4, generator=generator)
        for each in (model, alone):
            each.zero_grad()
            each(x).pow(2).mean().backward()
        optimizer.step()
gradients = {name: parameter.grad.double().flatten().tolist() for name, parameter in alone.named_parameters()}
with open(f"alone{rank}.json", "w") as file:
    json.dump(gradients, file)
"""


@pytest.mark.parametrize("gradients", ["copied", "view"])
def test_unreduced_gradients_are_the_ranks_own_and_reduced_ones_their_average(tmp_path: Path, gradients: str) -> None:
    write_config(tmp_path / "config.json", **WG)
    run_ranks(tmp_path, JOB, gradients)
    directories = [path.name for path in tmp_path.glob("out*/*-rank*-*")]
    assert len(directories) == RANKS and len({name.rpartition("-")[2] for name in directories}) == 1, "another run id"
    alone = [json.loads((tmp_path / f"alone{rank}.json").read_text()) for rank in range(RANKS)]
    for rank in range(RANKS):
        own = {name: torch.tensor(each, dtype=torch.float64) for name, each in alone[rank].items()}
        average = {name: sum(torch.tensor(each[name], dtype=torch.float64) for each in alone) / RANKS for name in own}
        for kind, right in (("grad_unreduced", own), ("grad_reduced", average)):
            expected = {f"module.{name}": float(each.norm()) for name, each in right.items()}
            assert norms(tmp_path / f"out{rank}", kind, 1) == pytest.approx(expected, rel=1e-5)
