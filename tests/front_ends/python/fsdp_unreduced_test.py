"""Gradients of a model that FSDP shards, before they are reduced: whole, and of the rank's own data."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path

import pytest
from jobs import rows, write_config
from rank_programs import run_ranks

RANKS = 2
MICRO_BATCHES = 2
HAS_FSDP2 = hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard")  # since torch 2.6
KINDS = ["fsdp1", "fsdp1-flat"] + (["fsdp2", "fsdp2-bf16"] if HAS_FSDP2 else [])
SHAPES = {"0.weight": [3, 4], "0.bias": [3], "2.weight": [1, 3], "2.bias": [1], "3.weight": [2, 1], "3.bias": [2]}

# Sizes of which no share is even: padding between parameters, and parameters of which one rank has nothing.
JOB = """
import contextlib, copy

micro_batches = int(sys.argv[3])
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
    texts = run_ranks(base, JOB, str(MICRO_BATCHES), *KINDS)
    assert not any(word in text for text in texts for word in ("[WARNING]", "[ERROR]", "degraded")), "\n".join(texts)
    return base


def norm_of(values: list[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))


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
        assert math.sqrt(square) == pytest.approx(norm_of(right), **tolerance), name


def test_a_line_lists_the_rows_that_are_of_a_shard(folder: Path) -> None:
    counts = [(folder / f"rank{rank}.log").read_text().count("cover this rank's shard") for rank in range(RANKS)]
    assert counts == [4 * len(KINDS), 0]


def check(row: dict[str, str], expected: dict[str, list[float]], kind: str) -> None:
    name = row["name"]
    assert json.loads(row["shape"]) == SHAPES[name]
    tolerance = {"rel": 0.05, "abs": 0.01} if kind == "fsdp2-bf16" else {"rel": 1e-5, "abs": 1e-8}
    assert float(row["norm"]) == pytest.approx(norm_of(expected[name]), **tolerance)


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
