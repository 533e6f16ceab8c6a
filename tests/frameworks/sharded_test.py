"""Models that FSDP1 and FSDP2 shard, and tensor parallel ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from nets import Net, loss_of
from oracle import Replica, clean

LR = 0.01


def train(job: Job, model: Any, optimizer: Any, replica: Replica | None, full: Callable[[], dict[str, Any]]) -> None:
    """Train; the replica sees each micro-batch as well, at the weights that the step begins with."""
    for _ in job.steps():
        if replica is not None:
            replica.take(full())
        for micro in job.micro_steps():
            x = job.batch(micro, 6, 5)
            if hasattr(model, "set_requires_gradient_sync"):
                model.set_requires_gradient_sync(micro == job.micro_batches - 1)
            loss = loss_of(model(x))
            loss.backward()
            job.loss(loss)
            if replica is not None:
                loss_of(replica.model(x.to(next(replica.model.parameters()).dtype))).backward()
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


def fsdp2(job: Job, dtype: torch.dtype | None = None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = Net()
    plain = copy.deepcopy(model)
    options: dict[str, Any] = {"mesh": init_device_mesh("cpu", (job.ranks,))}
    if dtype is not None:
        plain = plain.to(dtype)
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    job.watch_plainly(model, optimizer, gradients=False)
    replica = Replica(job.oracle, plain) if job.oracle is not None else None
    job.watch(model, optimizer)
    train(job, model, optimizer, replica, lambda: {n: p.full_tensor().detach() for n, p in model.named_parameters()})


def fsdp1(job: Job, use_orig_params: bool, strategy: str = "FULL_SHARD") -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    model = Net()
    plain = copy.deepcopy(model)
    options: dict[str, Any] = {"use_orig_params": use_orig_params, "device_id": torch.device("cpu")}
    options["sharding_strategy"] = ShardingStrategy[strategy]
    if strategy == "HYBRID_SHARD":
        mesh = init_device_mesh("cpu", (job.ranks // 2, 2), mesh_dim_names=("copies", "parts"))
        options["process_group"] = mesh.get_group("parts"), mesh.get_group("copies")
    for number, block in enumerate(model.blocks):
        model.blocks[number] = FullyShardedDataParallel(block, **options)
    model = FullyShardedDataParallel(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    replica = None
    if job.oracle is not None:
        replica = Replica(job.oracle, plain)
        if use_orig_params:
            job.watch_plainly(model, optimizer, gradients=False)
        else:
            job.oracle.watch_modules([model])
            record_parts(job, model, optimizer)
    job.watch(model, optimizer)

    def full() -> dict[str, Any]:
        with FullyShardedDataParallel.summon_full_params(model, writeback=False):
            if use_orig_params:
                return {clean(name): p.detach().clone() for name, p in model.named_parameters()}
            # Within this context the modules hold their own parameters as plain attributes.
            return {clean(name): p.detach().clone() for name, p in plain_parameters(model)}

    train(job, model, optimizer, replica, full)


def plain_parameters(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    found = []
    for name, module in model.named_modules():
        for key in ("weight", "bias"):
            value = getattr(module, key, None)
            if isinstance(value, torch.Tensor) and not hasattr(value, "_param_infos"):
                found.append((f"{name}.{key}", value))
    return found


def record_parts(job: Job, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Record this rank's part of each parameter inside of flat ones."""
    assert job.oracle is not None
    oracle = job.oracle
    flat = [(name, p) for name, p in model.named_parameters() if hasattr(p, "_param_infos")]
    assert flat

    def each(kind: str, of: Callable[[Any], Any]) -> None:
        for name, parameter in flat:
            values = of(parameter)
            if values is None:
                continue
            prefix = name.rpartition("_flat_param")[0]
            for info, shard in zip(parameter._param_infos, parameter._shard_param_infos):
                if shard.in_shard:
                    path = f"{prefix}{info.module_name}." if info.module_name else prefix
                    part = values.detach()[shard.offset_in_shard : shard.offset_in_shard + shard.numel_in_shard]
                    oracle.record(kind, f"{path}{info.param_name}", part)

    def before(*_: Any) -> None:
        each("param_origin", lambda p: p)
        each("grad_reduced", lambda p: p.grad)
        each("exp_avg", lambda p: optimizer.state.get(p, {}).get("exp_avg"))
        each("exp_avg_sq", lambda p: optimizer.state.get(p, {}).get("exp_avg_sq"))

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda *_: each("param_updated", lambda p: p))


def tensor_parallel(job: Job, shard: bool = False) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = Net()
    plain = copy.deepcopy(model)
    mesh = init_device_mesh("cpu", (job.ranks // 2, 2), mesh_dim_names=("dp", "tp"))
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    if shard:
        for block in model.blocks:
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    job.watch_plainly(model, optimizer, gradients=not shard)
    replica = None
    if job.oracle is not None and shard:
        tp_rank = mesh["tp"].get_local_rank()
        replica = Replica(job.oracle, plain, lambda name, whole: tensor_parallel_part(name, whole, tp_rank))
    job.watch(model, optimizer)
    for _ in job.steps():
        x = job.batch(0, 6, 5, alike=True) * (1 + mesh["dp"].get_local_rank())
        if replica is not None:
            replica.take({name: each.full_tensor().detach() for name, each in model.named_parameters()})
            loss_of(replica.model(x)).backward()
        loss = loss_of(model(x))
        loss.backward()
        job.loss(loss)
        optimizer.step()
        optimizer.zero_grad()
    job.weights(*model.parameters())


def tensor_parallel_part(name: str, whole: torch.Tensor, rank: int) -> torch.Tensor:
    """Return what a rank of two has of a gradient before FSDP2 shards it: rows above, columns below."""
    if ".up." in name:
        return whole.chunk(2, 0)[rank]
    return whole.chunk(2, 1)[rank] if name.endswith(".down.weight") else whole


CASES = [
    Case("fsdp2", fsdp2),
    Case("fsdp2-accumulating", fsdp2, micro_batches=2),
    Case("fsdp2-bf16", lambda job: fsdp2(job, torch.bfloat16)),
    Case("fsdp1", lambda job: fsdp1(job, True)),
    Case("fsdp1-flat", lambda job: fsdp1(job, False)),
    Case("fsdp1-no-shard", lambda job: fsdp1(job, True, "NO_SHARD")),
    Case("fsdp1-flat-no-shard", lambda job: fsdp1(job, False, "NO_SHARD")),
    Case("fsdp1-hybrid", lambda job: fsdp1(job, True, "HYBRID_SHARD"), ranks=4),
    Case("fsdp1-flat-hybrid", lambda job: fsdp1(job, False, "HYBRID_SHARD"), ranks=4),
    Case("tensor-parallel", tensor_parallel),
    Case("tensor-parallel-and-fsdp2", lambda job: tensor_parallel(job, shard=True), ranks=4),
]


class TestSharded(CaseTests):
    cases = CASES
