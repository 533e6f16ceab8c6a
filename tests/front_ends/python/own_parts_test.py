"""Ranks that share parameters: each writes the rows of its parts, and none reports that those of others are missing."""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs import PARAMETERS, names, rows, write_config
from rank_programs import run_ranks

import python_programs

HAS_FSDP2 = hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard")  # since torch 2.6
COPIED = ["fsdp1-NO_SHARD", "fsdp1-flat-NO_SHARD", "fsdp1-HYBRID_SHARD", "fsdp1-flat-HYBRID_SHARD"]
SHARDED = ["fsdp1", "fsdp1-flat", *(["fsdp2", "fsdp2-over-tp"] if HAS_FSDP2 else [])]

# If two ranks share it, the second one has no element of the last layer, and each has some of every other layer.
JOB = """
from torch.distributed import fsdp
from torch.distributed.device_mesh import init_device_mesh

kind, optimizer = sys.argv[3:5]
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 4), torch.nn.Linear(4, 1, bias=False))
group = torch.distributed.group.WORLD
if kind.startswith("fsdp1"):
    options = {"use_orig_params": "flat" not in kind, "device_id": torch.device("cpu")}
    options["sharding_strategy"] = getattr(fsdp.ShardingStrategy, kind.rpartition("-")[2], None)
    if kind.endswith("HYBRID_SHARD"):
        mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("copies", "parts"))
        options["process_group"] = mesh.get_group("parts"), mesh.get_group("copies")
    model = fsdp.FullyShardedDataParallel(model, **options)
elif kind == "fsdp2":
    fsdp.fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
elif kind == "fsdp2-over-tp":
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    fsdp.fully_shard(model, mesh=mesh["dp"])
    group = mesh["dp"].get_group()
else:
    model = torch.nn.parallel.DistributedDataParallel(model)
if optimizer == "ZeroRedundancyOptimizer":
    from torch.distributed.optim import ZeroRedundancyOptimizer
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1)
else:
    optimizer = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
monitor = stepwatch.watch(model, optimizer, "config.json", dynamic=False, output_dir=f"out{rank}", dp_group=group)
for step in range(4):
    model(torch.ones(5, 4)).pow(2).mean().backward()
    if os.path.exists("loses-gradients"):
        for parameter in model.parameters():
            parameter.grad = None
    optimizer.step()
    optimizer.zero_grad()
monitor.close()
"""


@pytest.fixture(scope="module", autouse=True)
def forking() -> Iterator[None]:
    """Fork the many ranks in every run, which is much faster than to start them."""
    with tempfile.TemporaryDirectory(prefix="sw") as directory, python_programs.serve(Path(directory)):
        yield


Runs = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Runs:
    """Return a function that trains on several ranks, and returns the output of each."""

    def run(kind: str, ranks: int = 2, optimizer: str = "AdamW", **config: Any) -> list[str]:
        write_config(tmp_path / "config.json", **{"ops": ["norm"], **PARAMETERS, **config})
        return run_ranks(tmp_path, JOB, kind, optimizer, ranks=ranks)

    return run


def missing(log: str) -> list[str]:
    return re.findall(r"\S+ has no rows for .*|\S+ keeps no .*", log)


@pytest.mark.parametrize("kind", SHARDED)
def test_every_rank_writes_the_reduced_gradients_of_its_parts(run: Runs, tmp_path: Path, kind: str) -> None:
    ranks = 4 if kind == "fsdp2-over-tp" else 2
    logs = run(kind, ranks)
    written = [names(tmp_path / f"out{rank}", "grad_reduced") for rank in range(ranks)]
    assert written == [names(tmp_path / f"out{rank}", "param_origin") for rank in range(ranks)], "".join(logs)
    assert all(written)
    assert [missing(log) for log in logs] == [[]] * ranks


def test_a_gradient_that_is_the_same_on_all_ranks_is_written_by_the_first(run: Runs, tmp_path: Path) -> None:
    run("ddp")
    assert [len(rows(tmp_path / f"out{rank}", "grad_reduced", 0)) for rank in range(2)] == [5, 0]


@pytest.mark.parametrize("kind", COPIED)
def test_a_part_that_several_ranks_hold_is_written_by_the_first_of_them(run: Runs, tmp_path: Path, kind: str) -> None:
    ranks, writers = (4, 2) if kind.endswith("HYBRID_SHARD") else (2, 1)
    logs = run(kind, ranks)
    written, held = (
        [names(tmp_path / f"out{rank}", table) for rank in range(ranks)] for table in ("grad_reduced", "param_origin")
    )
    assert written == [*held[:writers], *[set()] * (ranks - writers)], "".join(logs)
    assert held == held[:writers] * (ranks // writers) and len(set().union(*written)) == 5
    assert [missing(log) for log in logs] == [[]] * ranks
    if kind.endswith("NO_SHARD"):
        assert "cover this rank's shard" not in logs[0]


@pytest.mark.parametrize("kind", [kind for kind in SHARDED if kind != "fsdp2-over-tp"])
def test_a_rank_that_has_no_part_of_the_selection_reports_nothing(run: Runs, tmp_path: Path, kind: str) -> None:
    logs = run(kind, targets={"2": {}})
    present = [len(rows(tmp_path / f"out{rank}", "grad_reduced", 1)) for rank in range(2)]
    assert sorted(present) == [0, 1], "".join(logs)
    assert [missing(log) for log in logs] == [[], []]


def test_moments_that_other_ranks_keep_are_not_missing(run: Runs, tmp_path: Path) -> None:
    logs = run("ddp", optimizer="ZeroRedundancyOptimizer")
    kept = [names(tmp_path / f"out{rank}", "exp_avg") for rank in range(2)]
    assert not kept[0] & kept[1] and len(kept[0] | kept[1]) == 5
    assert [missing(log) for log in logs] == [[], []]


@pytest.mark.parametrize("kind", SHARDED[:3])
def test_gradients_that_no_rank_gives_are_reported_where_a_part_should_be(run: Runs, tmp_path: Path, kind: str) -> None:
    (tmp_path / "loses-gradients").touch()
    reported = [line for log in run(kind, targets={"2": {}}) for line in missing(log)]
    assert [line for line in reported if "grad_reduced has no rows for 1 of 1 parameters" in line] == reported[:1]
    assert reported


@pytest.mark.parametrize("kind", SHARDED[:3])
def test_moments_that_no_rank_keeps_are_reported_where_a_part_should_be(run: Runs, kind: str) -> None:
    reported = [line for log in run(kind, optimizer="SGD", targets={"2": {}}) for line in missing(log)]
    assert [line for line in reported if "SGD keeps no exp_avg and exp_avg_sq for 1 parameters" in line] == reported
    assert len(reported) == 1
