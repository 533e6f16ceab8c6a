"""Two ranks of a model that FSDP shards: training keeps its bits, and rows are those of the rank's own shards."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import rows, write_config

import python_programs
import torch
from stepwatch.frameworks.names import as_written

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

STEPS = 3
RANKS = 2
HAS_FSDP2 = hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard")  # since torch 2.6
KINDS = ["fsdp1", "fsdp2"] if HAS_FSDP2 else ["fsdp1"]

# Sizes of which no share is even: padding between parameters, and parameters of which one rank has nothing.
JOB = """
import json, os, sys, torch
from torch.distributed.device_mesh import init_device_mesh
import stepwatch

kind, rank, ranks, steps, watched = sys.argv[1], *map(int, sys.argv[2:6])
torch.set_num_threads(1)
init = f"file://{os.getcwd()}/rendezvous"
torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=ranks)
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
if watched:
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
torch.distributed.barrier()
os._exit(0)  # destroying the process groups of FSDP1 ends the process now and then: "terminate called without ..."
"""


@dataclass
class Run:
    """What the ranks of a run have seen of their own shards, and what they have printed."""

    folder: Path
    seen: list[list[dict[str, Any]]]
    logs: list[str]


def run(folder: Path, kind: str, watched: bool) -> Run:
    folder.mkdir()
    write_config(
        folder / "config.json",
        ops=["norm", "min", "max"],
        xy_distribution=True,
        wg_distribution=True,
        param_distribution=True,
        mv_distribution=True,
    )
    logs = [folder / f"rank{rank}.log" for rank in range(RANKS)]
    processes = []
    for rank, log in enumerate(logs):
        command = ["-c", JOB, kind, *map(str, (rank, RANKS, STEPS, int(watched)))]
        with open(log, "w") as out:
            processes.append(python_programs.start(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT))
    try:
        codes = [process.wait(120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    texts = [log.read_text() for log in logs]
    assert codes == [0] * RANKS, "\n".join(texts)
    return Run(folder, [json.loads((folder / f"seen{rank}.json").read_text()) for rank in range(RANKS)], texts)


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=pytest.mark.xdist_group(f"fsdp-{kind}")) for kind in KINDS]
)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Return the same job bare and watched."""
    folder = tmp_path_factory.mktemp(request.param)
    return run(folder / "bare", request.param, False), run(folder / "watched", request.param, True)


def table(watched: Run, rank: int, kind: str) -> list[dict[str, str]]:
    return rows(watched.folder / f"out{rank}", kind)


def test_training_keeps_its_bits_and_meets_no_error(runs: tuple[Run, Run]) -> None:
    bare, watched = runs
    assert watched.seen == bare.seen
    for log in watched.logs:
        assert "ERROR" not in log and "Traceback" not in log and "degraded" not in log, log
        assert "stepwatch::" not in log, "advice for C++ programs"


@pytest.mark.parametrize("kind", ["grad_reduced", "param_origin", "param_updated", "exp_avg", "exp_avg_sq"])
def test_rows_show_shape_and_values_of_the_local_shard(runs: tuple[Run, Run], kind: str) -> None:
    watched = runs[1]
    for rank in range(RANKS):
        found = {(int(row["step"]), row["name"]): row for row in table(watched, rank, kind)}
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
            found = table(watched, rank, kind)
            names = {row["name"] for row in found}
            assert names >= {"0.output", "1.output", "2.input", "2.output", "3.output"}
            assert {(int(row["step"]), int(row["micro_step"])) for row in found} == {
                (step, micro) for step in range(STEPS) for micro in range(2)
            }


def test_parameters_that_a_rank_does_not_update_are_not_said_to_lack_moments(runs: tuple[Run, Run]) -> None:
    assert not any("exp_avg" in log for log in runs[1].logs)
