"""Megatron-core's DistributedDataParallel and optimizers, on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from megatron_configs import ddp_config, optimizer_config
from nets import WIDTH, Net, loss_of

OVERFLOWS = 4  # the step in which the gradients of fp16 overflow


def initialize(tensor_parallel: int, context_parallel: int = 1) -> None:
    from megatron.core import parallel_state

    import cuda_on_cpu

    if not parallel_state.is_initialized():
        cuda_on_cpu.pretend()
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=tensor_parallel, context_parallel_size=context_parallel
        )


def transformer_config(tensor_parallel: int = 1, dtype: torch.dtype = torch.float32, sequence: bool = False) -> Any:
    from megatron.core.transformer import TransformerConfig

    return TransformerConfig(
        num_layers=2,
        hidden_size=WIDTH,
        num_attention_heads=2,
        use_cpu_initialization=True,
        tensor_model_parallel_size=tensor_parallel,
        params_dtype=dtype,
        bf16=dtype is torch.bfloat16,
        fp16=dtype is torch.float16,
        sequence_parallel=sequence,
        gradient_accumulation_fusion=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )


def parallel_net(config: Any) -> torch.nn.Module:
    """Return a model whose blocks are split over the ranks of the tensor parallel group."""
    from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear

    net = Net()
    init = torch.nn.init.xavier_normal_
    for block in net.blocks:
        block.up = First(ColumnParallelLinear(WIDTH, 2 * WIDTH, config=config, init_method=init))
        block.down = First(
            RowParallelLinear(
                2 * WIDTH,
                WIDTH,
                config=config,
                init_method=init,
                bias=True,
                input_is_parallel=True,
                skip_bias_add=False,
            )
        )
    if config.sequence_parallel:  # each rank has rows of its own but for what is between these layers
        for name, parameter in net.named_parameters():
            parameter.sequence_parallel = ".layer." not in name or name.endswith("down.layer.bias")
    return net


class First(torch.nn.Module):
    """Megatron's layers return their bias beside the output."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def megatron(
    job: Job,
    dtype: torch.dtype = torch.float32,
    tensor_parallel: int = 1,
    distributed: bool = False,
    overlap: bool = False,
    hands_in: str = "model",
    layer_wise: bool = False,
    context_parallel: int = 1,
    sequence: bool = False,
    hands_in_optimizer: str = "chain",
) -> None:
    initialize(tensor_parallel, context_parallel)
    from megatron.core.distributed import DistributedDataParallel, finalize_model_grads
    from megatron.core.optimizer import get_megatron_optimizer

    config = transformer_config(tensor_parallel, dtype, sequence)
    net = (parallel_net(config) if tensor_parallel > 1 else Net()).to(dtype)
    net.config = config
    model = DistributedDataParallel(config, ddp_config(distributed, overlap), net)
    model.broadcast_params()
    updating = optimizer_config(dtype, 2.0**10, distributed, overlap)
    updating.bf16 &= not layer_wise
    optimizer = get_megatron_optimizer(updating, [model])
    if layer_wise:
        updating.bf16 = dtype is torch.bfloat16
        optimizer = layer_wise_of(optimizer)
    watched = model.module if hands_in == "inside" else model
    if job.oracle is not None:
        job.oracle.watch_modules([watched])
        job.oracle.watch_gradients(watched.named_parameters(), sums=True)
    handed = {"chain": optimizer, "part": chained(optimizer)[0], "torch": chained(optimizer)[0].optimizer}
    job.watch([model] if hands_in == "chunks" else watched, handed[hands_in_optimizer])
    for step in job.steps():
        model.zero_grad_buffer()
        optimizer.zero_grad()
        for micro in job.micro_steps():
            with nullcontext() if micro == job.micro_batches - 1 else model.no_sync():
                loss = loss_of(model(job.batch(micro, 6, 5, alike=tensor_parallel > 1 and not sequence).to(dtype)))
                overflows = dtype is torch.float16 and step == OVERFLOWS
                optimizer.scale_loss(loss * (float("inf") if overflows else 1)).backward()
            job.loss(loss)
        finalize_model_grads([model])
        if job.oracle is not None:
            record_before(job, watched, optimizer)
        updated, _, _ = optimizer.step()
        if job.oracle is not None and updated:
            for name, parameter in watched.named_parameters():
                # The parts of other ranks may come during the next forward pass.
                late = distributed and overlap
                part = part_of(parameter, shard_of(owner_of(optimizer, parameter), parameter)) if late else parameter
                job.oracle.record("param_updated", name, part)
    job.weights(*model.parameters())


def layer_wise_of(optimizer: Any) -> Any:
    from megatron.core.optimizer.layer_wise_optimizer import LayerWiseDistributedOptimizer
    from megatron.core.process_groups_config import ProcessGroupCollection

    groups = ProcessGroupCollection.use_mpu_process_groups(["dp_cp", "expt_dp"])
    optimizer = LayerWiseDistributedOptimizer(chained(optimizer), optimizer.config, groups)
    # Gloo gathers no tensors of different sizes. Megatron keeps this as its reference.
    optimizer.allgather_params = optimizer.broadcast_params
    return optimizer


def record_before(job: Job, model: torch.nn.Module, optimizer: Any) -> None:
    """Record what the step finds: of a distributed optimizer the whole of a tensor, or this rank's part of it."""
    from megatron.core import parallel_state

    assert job.oracle is not None
    group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    for name, parameter in model.named_parameters():
        owner = owner_of(optimizer, parameter)
        job.oracle.record("param_origin", name, parameter)
        whole = job.oracle.sum_of(name).clone()
        torch.distributed.all_reduce(whole, group=group)
        whole /= group.size()
        if getattr(parameter, "sequence_parallel", False):
            torch.distributed.all_reduce(whole, group=parallel_state.get_tensor_model_parallel_group())
        job.oracle.record("grad_reduced", name, [whole, part_of(whole, shard_of(owner, parameter))])
        state = state_of(owner, parameter)
        for kind in ("exp_avg", "exp_avg_sq"):
            if kind in state:
                job.oracle.record(kind, name, state[kind])


def part_of(whole: torch.Tensor, shard: slice | None) -> torch.Tensor | None:
    return None if shard is None else whole.detach().view(-1)[shard]


def chained(optimizer: Any) -> list[Any]:
    return list(getattr(optimizer, "chained_optimizers", [optimizer]))


def owner_of(optimizer: Any, parameter: torch.Tensor) -> Any:
    owners = chained(optimizer)
    return next((each for each in owners if state_of(each, parameter)), owners[0])


def shard_of(owner: Any, parameter: torch.Tensor) -> slice | None:
    if not hasattr(owner, "_get_model_param_range_map"):
        return None
    if parameter not in owner.model_param_gbuf_map or parameter not in owner.model_param_group_index_map:
        return slice(0, 0)
    part = owner._get_model_param_range_map(parameter)["param"]
    return slice(part.start, part.end)


def state_of(owner: Any, parameter: torch.Tensor) -> Any:
    """Return the state of the parameter's fp32 copy, or of this rank's part of it."""
    if hasattr(owner, "_get_model_param_range_map"):
        if parameter not in owner.model_param_group_index_map:
            return {}
        group, order = owner.model_param_group_index_map[parameter]
        return owner.optimizer.state.get(owner.optimizer.param_groups[group]["params"][order], {})
    return owner.optimizer.state.get(getattr(parameter, "main_param", parameter), {})


CASES = [
    Case("megatron", megatron, micro_batches=2),
    Case("megatron-bf16", partial(megatron, dtype=torch.bfloat16, hands_in_optimizer="torch"), micro_batches=2),
    Case(
        "megatron-fp16-distributed-overlap",
        partial(megatron, dtype=torch.float16, distributed=True, overlap=True),
        micro_batches=2,
    ),
    Case("megatron-sequence-parallel", partial(megatron, tensor_parallel=2, sequence=True), micro_batches=2),
    Case("megatron-context-parallel", partial(megatron, context_parallel=2, distributed=True), micro_batches=2),
    Case("megatron-overlap", partial(megatron, overlap=True), micro_batches=2),
    Case("megatron-tensor-parallel", partial(megatron, tensor_parallel=2)),
    Case(
        "megatron-distributed",
        partial(megatron, distributed=True, hands_in="chunks", hands_in_optimizer="part"),
        micro_batches=2,
    ),
    Case(
        "megatron-distributed-bf16-overlap",
        partial(megatron, dtype=torch.bfloat16, distributed=True, overlap=True),
        micro_batches=2,
    ),
    Case("megatron-overlap-inside", partial(megatron, overlap=True, hands_in="inside"), micro_batches=2),
    Case("megatron-layer-wise", partial(megatron, layer_wise=True), micro_batches=2),
    Case("megatron-layer-wise-bf16", partial(megatron, dtype=torch.bfloat16, layer_wise=True), micro_batches=2),
]


class TestMegatron(CaseTests):
    cases = CASES
