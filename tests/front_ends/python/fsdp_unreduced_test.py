"""Gradients of a model that FSDP shards, before they are reduced: whole, and of the rank's own data."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import rows, write_config

import python_programs
import torch

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

RANKS = 2
MICRO_BATCHES = 2
HAS_FSDP2 = hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard")  # since torch 2.6
KINDS = ["fsdp1", "fsdp1-flat"] + (["fsdp2", "fsdp2-bf16"] if HAS_FSDP2 else [])
SHAPES = {"0.weight": [3, 4], "0.bias": [3], "2.weight": [1, 3], "2.bias": [1], "3.weight": [2, 1], "3.bias": [2]}

# Sizes of which no share is even: padding between parameters, and parameters of which one rank has nothing.
JOB = """
import contextlib, copy, json, os, sys, torch
import stepwatch

rank, ranks, micro_batches = map(int, sys.argv[1:4])
torch.set_num_threads(1)
init = f"file://{os.getcwd()}/rendezvous"
torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=ranks)
torch.manual_seed(1)
plain = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1), torch.nn.Linear(1, 2))

def fsdp1(model, use_orig_params):
    from torch.distributed.fsdp import FullyShardedDataParallel
    options = {"use_orig_params": use_orig_params, "device_id": torch.device("cpu")}
    model[0] = FullyShardedDataParallel(model[0], **options)
    return FullyShardedDataParallel(model, **options)

def fsdp2(model, bf16):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh("cpu", (ranks,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if bf16 else MixedPrecisionPolicy()
    fully_shard(model[0], mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)

def of_torch(kind):
    if kind.startswith("fsdp1"):
        import torch.distributed.fsdp._runtime_utils as place
        return [place._post_backward_hook]
    import torch.distributed.fsdp._fully_shard._fsdp_param_group as place
    return [place.foreach_reduce, place.FSDPParamGroup.post_backward]

def run(kind, mode):
    reference = copy.deepcopy(plain)
    model = inside = copy.deepcopy(plain)
    if mode == "inside" and kind.startswith("fsdp2"):
        model = torch.nn.Sequential(torch.nn.Sequential(model))
    model = fsdp1(model, kind == "fsdp1") if kind.startswith("fsdp1") else fsdp2(model, kind == "fsdp2-bf16")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = of_torch(kind)
    handed_over = inside if mode == "inside" else model
    monitor = stepwatch.watch(handed_over, optimizer, f"{mode}.json", dynamic=False, grad_acc_steps=micro_batches,
                              output_dir=f"{kind} {mode}/out{rank}")
    assert all(ours is not theirs for ours, theirs in zip(of_torch(kind), before))
    expected = []
    generator = torch.Generator().manual_seed(rank)
    for micro_batch in range(micro_batches):
        data = torch.randn(5, 4, generator=generator)
        waits = mode != "synced" and micro_batch + 1 < micro_batches
        if kind.startswith("fsdp2"):
            model.set_requires_gradient_sync(not waits)
        with model.no_sync() if waits and kind.startswith("fsdp1") else contextlib.nullcontext():
            model(data).float().pow(2).mean().backward()
        if mode == "synced":
            reference.zero_grad()
        reference(data).pow(2).mean().backward()
        expected.append({name: parameter.grad.flatten().tolist() for name, parameter in reference.named_parameters()})
    optimizer.step()
    monitor.close()
    assert of_torch(kind) == before
    with open(f"{kind} {mode}/expected{rank}.json", "w") as file:
        json.dump(expected, file)
    with open(f"weights{rank}.json", "w") as file:
        json.dump({name: parameter.flatten().tolist() for name, parameter in plain.named_parameters()}, file)

for kind in sys.argv[4:]:
    for mode in ("synced", "accumulated", "last", "inside"):
        run(kind, mode)
torch.distributed.barrier()
os._exit(0)  # destroying the process groups of FSDP1 ends the process now and then: "terminate called without ..."
"""


pytestmark = pytest.mark.xdist_group("fsdp-unreduced")  # one worker trains for all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where two ranks have trained each kind of model for a step in each mode."""
    base = tmp_path_factory.mktemp("unreduced")
    for mode in ("synced", "accumulated", "last", "inside"):
        write_config(
            base / f"{mode}.json",
            ops=["norm", "shape"],
            wg_distribution=True,
            param_distribution=True,
            monitor_mbs_grad=mode != "last",
        )
    logs = [base / f"rank{rank}.log" for rank in range(RANKS)]
    processes = []
    for rank, log in enumerate(logs):
        command = ["-c", JOB, str(rank), str(RANKS), str(MICRO_BATCHES), *KINDS]
        with open(log, "w") as out:
            processes.append(python_programs.start(command, cwd=base, stdout=out, stderr=subprocess.STDOUT))
    try:
        codes = [process.wait(180) for process in processes]
    finally:
        for process in processes:
            process.kill()
    texts = [log.read_text() for log in logs]
    assert codes == [0] * RANKS, "\n".join(texts)
    assert not any(word in text for text in texts for word in ("[WARNING]", "[ERROR]", "degraded")), "\n".join(texts)
    return base


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["param_origin", "param_updated", "grad_reduced"])
def test_the_parts_of_all_ranks_make_up_each_parameter(folder: Path, kind: str, what: str) -> None:
    squares = dict.fromkeys(SHAPES, 0.0)
    for rank in range(RANKS):
        for row in rows(folder / f"{kind} last/out{rank}", what):
            squares[row["name"]] += float(row["norm"]) ** 2
    weights = json.loads((folder / "weights0.json").read_text())
    gradients = [json.loads((folder / f"{kind} last/expected{rank}.json").read_text())[-1] for rank in range(RANKS)]
    for name, square in squares.items():
        reduced = [sum(of_ranks) / RANKS for of_ranks in zip(*(gradient[name] for gradient in gradients))]
        updated = [weight - 0.1 * gradient for weight, gradient in zip(weights[name], reduced)]
        right = {"param_origin": weights[name], "param_updated": updated, "grad_reduced": reduced}[what]
        tolerance = {"rel": 0.05, "abs": 0.01} if kind == "fsdp2-bf16" else {"rel": 1e-5, "abs": 1e-7}
        assert math.sqrt(square) == pytest.approx(norm(right), **tolerance), name


def test_it_is_said_which_rows_are_of_a_shard(folder: Path) -> None:
    said = [(folder / f"rank{rank}.log").read_text().count("cover this rank's shard") for rank in range(RANKS)]
    assert said == [4 * len(KINDS), 0]


def norm(values: list[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))


def check(row: dict[str, str], expected: dict[str, list[float]], kind: str) -> None:
    name = row["name"]
    assert json.loads(row["shape"]) == SHAPES[name]
    tolerance = {"rel": 0.05, "abs": 0.01} if kind == "fsdp2-bf16" else {"rel": 1e-5, "abs": 1e-8}
    assert float(row["norm"]) == pytest.approx(norm(expected[name]), **tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["synced", "accumulated", "inside"])
def test_each_micro_batch_gives_a_row_whatever_it_does_and_whatever_is_handed_over(
    folder: Path, kind: str, mode: str
) -> None:
    for rank in range(RANKS):
        expected = json.loads((folder / f"{kind} {mode}/expected{rank}.json").read_text())
        found = rows(folder / f"{kind} {mode}/out{rank}", "grad_unreduced")
        assert [int(row["micro_step"]) for row in found] == [i for i in range(MICRO_BATCHES) for _ in SHAPES]
        for row in found:
            check(row, expected[int(row["micro_step"])], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_without_rows_of_micro_batches_it_is_what_the_last_one_hands_to_the_reduction(folder: Path, kind: str) -> None:
    for rank in range(RANKS):
        expected = json.loads((folder / f"{kind} last/expected{rank}.json").read_text())
        found = rows(folder / f"{kind} last/out{rank}", "grad_unreduced")
        assert len(found) == len(SHAPES)
        for row in found:
            check(row, expected[-1], kind)
