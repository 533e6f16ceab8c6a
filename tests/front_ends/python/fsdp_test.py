"""Two ranks of a model that FSDP shards: training keeps its bits, and rows are those of the rank's own shards."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jobs import TENSORS, rows, write_config
from rank_programs import run_ranks

from stepwatch.frameworks.names import as_written

STEPS = 3
RANKS = 2
HAS_FSDP2 = hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard")  # since torch 2.6
KINDS = ["fsdp1", "fsdp2"] if HAS_FSDP2 else ["fsdp1"]

# Sizes of which no share is even: padding between parameters, and parameters of which one rank has nothing.
JOB = """
from torch.distributed.device_mesh import init_device_mesh

kind, steps, is_watched = sys.argv[3], *map(int, sys.argv[4:6])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1), torch.nn.Linear(1, 2))
if kind == "fsdp1":
    from torch.distributed.fsdp import FullyShardedDataParallel
    options = {"use_orig_params": True, "device_id": torch.device("cpu")}
    model[0] = FullyShardedDataParallel(model[0], **options)
    model = FullyShardedDataParallel(model, **options)
else:
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (ranks,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
monitor = None
if is_watched:
    monitor = stepwatch.watch(model, optimizer, "config.json", dynamic=False, output_dir=f"out{rank}")

def shard(tensor):
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return {"shape": list(tensor.shape), "values": tensor.detach().flatten().tolist()}

def parameters():
    return {name: shard(parameter) for name, parameter in model.named_parameters()}

def gradients():
    return {name: shard(p.grad) for name, p in model.named_parameters() if p.grad is not None}

def moments(key):
    return {n: shard(optimizer.state[p][key]) for n, p in model.named_parameters() if key in optimizer.state.get(p, {})}

seen = []
generator = torch.Generator().manual_seed(rank)
for step in range(steps):
    for micro_batch in range(2):
        model(torch.randn(5, 4, generator=generator)).pow(2).mean().backward()
    kinds = {"grad_reduced": gradients(), "param_origin": parameters(), "exp_avg": moments("exp_avg")}
    kinds["exp_avg_sq"] = moments("exp_avg_sq")
    optimizer.step()
    optimizer.zero_grad()
    seen.append({**kinds, "param_updated": parameters()})
if monitor is not None:
    monitor.close()
with open(f"seen{rank}.json", "w") as file:
    json.dump(seen, file)
"""


@dataclass
class Run:
    """Values of its own shards that each rank has noted, and its output."""

    folder: Path
    seen: list[list[dict[str, Any]]]
    logs: list[str]


def run(folder: Path, kind: str, is_watched: bool) -> Run:
    folder.mkdir()
    write_config(folder / "config.json", **{"ops": ["norm", "min", "max"], **TENSORS})
    logs = run_ranks(folder, JOB, kind, str(STEPS), str(int(is_watched)))
    return Run(folder, [json.loads((folder / f"seen{rank}.json").read_text()) for rank in range(RANKS)], logs)


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=pytest.mark.xdist_group(f"fsdp-{kind}")) for kind in KINDS]
)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Return the same job bare and watched."""
    folder = tmp_path_factory.mktemp(request.param)
    return run(folder / "bare", request.param, False), run(folder / "watched", request.param, True)


def test_training_keeps_its_bits_and_meets_no_error(runs: tuple[Run, Run]) -> None:
    bare, watched = runs
    assert watched.seen == bare.seen
    for log in watched.logs:
        assert "ERROR" not in log and "Traceback" not in log and "degraded" not in log, log
        assert "stepwatch::" not in log, "advice for C++ programs"
        assert "exp_avg" not in log, "moments of parameters that a rank does not update are not missing"


@pytest.mark.parametrize("kind", ["grad_reduced", "param_origin", "param_updated", "exp_avg", "exp_avg_sq"])
def test_rows_show_shape_and_values_of_the_local_shard(runs: tuple[Run, Run], kind: str) -> None:
    watched = runs[1]
    for rank in range(RANKS):
        found = {(int(row["step"]), row["name"]): row for row in rows(watched.folder / f"out{rank}", kind)}
        for step, seen in enumerate(watched.seen[rank]):
            held = {as_written(name) or name: shard for name, shard in seen[kind].items() if shard["values"]}
            assert held.keys() == {name for at, name in found if at == step}, "an empty shard gives no row"
            for name, shard in held.items():
                row = found[step, name]
                assert json.loads(row["shape"]) == shard["shape"], (rank, row)
                norm = math.sqrt(math.fsum(value * value for value in shard["values"]))
                assert float(row["norm"]) == pytest.approx(norm, rel=1e-12)
                assert float(row["min"]) == min(shard["values"])
                assert float(row["max"]) == max(shard["values"])


def test_activations_and_their_gradients_are_watched(runs: tuple[Run, Run]) -> None:
    watched = runs[1]
    for rank in range(RANKS):
        for kind in ("actv", "actv_grad"):
            found = rows(watched.folder / f"out{rank}", kind)
            assert {row["name"] for row in found} >= {"0.output", "1.output", "2.input", "2.output", "3.output"}
            assert {(int(row["step"]), int(row["micro_step"])) for row in found} == {
                (step, micro) for step in range(STEPS) for micro in range(2)
            }
