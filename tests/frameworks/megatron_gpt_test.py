"""Megatron-core's GPT under its schedules, split in every way that runs on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from cases import Case, CaseTests
from job import Job
from megatron_configs import ddp_config, optimizer_config
from megatron_test import shard_of, state_of

VOCABULARY = 32
LENGTH = 8  # of a sequence


def gpt(
    job: Job,
    dtype: torch.dtype = torch.float32,
    *,
    layers: int = 2,
    virtual: int | None = None,
    experts: int | None = None,
    distributed: bool = False,
    overlap: bool = False,
    recompute: bool = False,
    **parallel: int,
) -> None:
    """Train a GPT of which each rank has chunks."""
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.transformer.moe import moe_utils

    import cuda_on_cpu

    if not parallel_state.is_initialized():
        cuda_on_cpu.pretend()
        moe_utils.te_general_gemm = None  # the name is missing where TransformerEngine is
        parallel_state.initialize_model_parallel(virtual_pipeline_model_parallel_size=virtual, **parallel)
    config = config_of(dtype, layers, virtual, experts, recompute, parallel)
    chunks, optimizer = chunks_and_optimizer(config, virtual, distributed, overlap)
    lead_by_schedule(config, chunks, optimizer, distributed, overlap)
    if job.oracle is not None:
        job.oracle.watch_modules(chunks)
        for number, chunk in enumerate(chunks):
            job.oracle.watch_gradients(chunk.named_parameters(), sums=True, chunk=number)
    job.watch(chunks, optimizer)
    replica = parallel_state.get_data_parallel_rank()
    for _ in job.steps():
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=[batches(job, replica) for _ in chunks] if virtual else batches(job, replica),
            model=chunks if virtual else chunks[0],
            num_microbatches=job.micro_batches,
            seq_length=LENGTH,
            micro_batch_size=2,
            forward_only=False,
        )
        job.loss(torch.stack([each["loss"] for each in losses]).mean() if losses else 0.0)
        record_before(job, chunks, optimizer, distributed)
        updated, _, _ = optimizer.step()
        record_after(job, chunks, optimizer, updated, in_parts=distributed and overlap)
    job.weights(*(parameter for chunk in chunks for parameter in chunk.parameters()))


def config_of(
    dtype: torch.dtype,
    layers: int,
    virtual: int | None,
    experts: int | None,
    recompute: bool,
    parallel: dict[str, int],
) -> Any:
    from megatron.core.transformer import TransformerConfig

    return TransformerConfig(
        num_layers=layers,
        hidden_size=16,
        num_attention_heads=2,
        use_cpu_initialization=True,
        params_dtype=dtype,
        bf16=dtype is torch.bfloat16,
        fp16=dtype is torch.float16,
        pipeline_dtype=dtype,
        batch_p2p_comm=False,  # to and from a rank that is the next and the one before, gloo would mix them up
        autocast_dtype=dtype,
        virtual_pipeline_model_parallel_size=virtual,
        num_moe_experts=experts,
        moe_router_topk=1,
        moe_router_pre_softmax=True,
        moe_token_dispatcher_type="allgather",  # what the other ones hand to gloo it does not take
        add_bias_linear=experts is None,
        recompute_granularity="full" if recompute else None,
        recompute_method="uniform" if recompute else None,
        recompute_num_layers=1 if recompute else None,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        **parallel,
    )


def lead_by_schedule(config: Any, chunks: list[Any], optimizer: Any, distributed: bool, overlap: bool) -> None:
    """Give Megatron's schedules the functions of the chunks that they call."""
    from megatron.core.distributed import finalize_model_grads

    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    if len(chunks) == 1:
        config.no_sync_func = chunks[0].no_sync
        return
    config.no_sync_func = [chunk.no_sync for chunk in chunks]
    if overlap:
        config.grad_sync_func = [chunk.start_grad_sync for chunk in chunks]
    if overlap and distributed:
        config.param_sync_func = [chunk.start_param_sync for chunk in chunks]


def chunks_and_optimizer(config: Any, virtual: int | None, distributed: bool, overlap: bool) -> tuple[list[Any], Any]:
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import get_megatron_optimizer
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer.module import Float16Module

    torch.manual_seed(7)
    model_parallel_cuda_manual_seed(7, te_rng_tracker=False, force_reset_rng=True)
    pipeline = parallel_state.get_pipeline_model_parallel_world_size()
    stage = parallel_state.get_pipeline_model_parallel_rank()
    chunks = []
    for number in range(virtual or 1):
        model = GPTModel(
            config,
            get_gpt_layer_local_spec(num_experts=config.num_moe_experts),
            VOCABULARY,
            LENGTH,
            pre_process=stage == 0 and number == 0,
            post_process=stage == pipeline - 1 and number == (virtual or 1) - 1,
            position_embedding_type="rope",
            share_embeddings_and_output_weights=True,
            vp_stage=number if virtual else None,
        )
        if config.params_dtype is not torch.float32:
            model = Float16Module(config, model)
        reducing = ddp_config(distributed, overlap)
        chunks.append(DistributedDataParallel(config, reducing, model, disable_bucketing=number > 0))
    for chunk in chunks:
        chunk.broadcast_params()
    updating = optimizer_config(config.params_dtype, 2.0**14, distributed, overlap)
    return chunks, get_megatron_optimizer(updating, chunks)


def batches(job: Job, replica: int) -> Iterator[torch.Tensor]:
    for micro in job.micro_steps():
        yield job.tokens(micro * 10 + replica, 2, LENGTH + 1, vocabulary=VOCABULARY, alike=True)


def forward_step(data: Iterator[torch.Tensor], model: torch.nn.Module) -> Any:
    tokens = next(data)
    positions = torch.arange(LENGTH).expand(2, -1)
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)[None, None]
    output = model(tokens[:, :-1], positions, mask, labels=tokens[:, 1:])
    return output, loss_of_output


def loss_of_output(output: torch.Tensor) -> Any:
    loss = output.float().mean()
    return loss, {"loss": loss.detach()}


def own_part(optimizer: Any, parameter: torch.Tensor, whole: torch.Tensor, in_parts: bool) -> torch.Tensor:
    """Return the part of a tensor that this rank updates."""
    if not in_parts:
        return whole
    owner = owner_of(optimizer, parameter)
    return whole.detach().view(-1)[slice(0, 0) if owner is None else shard_of(owner, parameter)]


def owner_of(optimizer: Any, parameter: torch.Tensor) -> Any:
    """Return the distributed optimizer in a chain that updates a part of a parameter."""
    return next(
        (each for each in optimizer.chained_optimizers if parameter in each.model_param_group_index_map),
        None,
    )


def record_before(job: Job, chunks: list[torch.nn.Module], optimizer: Any, distributed: bool) -> None:
    """Record what the step finds: after a reduce-scatter only this rank's part of a gradient is reduced."""
    if job.oracle is None:
        return
    for number, chunk in enumerate(chunks):
        for name, parameter in chunk.named_parameters():
            job.oracle.record("param_origin", name, parameter, chunk=number)
            gradient: Any = parameter.main_grad
            job.oracle.record("grad_reduced", name, own_part(optimizer, parameter, gradient, distributed), chunk=number)
            for each in optimizer.chained_optimizers:
                if getattr(each, "is_stub_optimizer", False):
                    continue
                state = state_of(each, parameter)
                for kind in {"exp_avg", "exp_avg_sq"} & set(state):
                    job.oracle.record(kind, name, state[kind], chunk=number)


def record_after(job: Job, chunks: list[torch.nn.Module], optimizer: Any, updated: bool, in_parts: bool) -> None:
    """Record what the step leaves; the parts of other ranks may come during the next forward pass."""
    if job.oracle is None or not updated:
        return
    for number, chunk in enumerate(chunks):
        for name, parameter in chunk.named_parameters():
            job.oracle.record("param_updated", name, own_part(optimizer, parameter, parameter, in_parts), chunk=number)


PIPELINE = {"pipeline_model_parallel_size": 2}
CASES = [
    Case("megatron-gpt-tensor", partial(gpt, tensor_model_parallel_size=2, recompute=True), micro_batches=2),
    Case("megatron-gpt-pipeline", partial(gpt, **PIPELINE, dtype=torch.bfloat16), micro_batches=4),
    Case(
        "megatron-gpt-virtual",
        partial(gpt, **PIPELINE, virtual=2, layers=4, overlap=True),
        micro_batches=4,
    ),
    Case(
        "megatron-gpt-experts",
        partial(gpt, expert_model_parallel_size=2, experts=4, distributed=True, overlap=True),
        micro_batches=2,
    ),
]


class TestMegatronGpt(CaseTests):
    cases = CASES
