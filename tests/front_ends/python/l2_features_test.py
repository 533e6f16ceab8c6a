"""Features of attention, linear layers and routers: against plainly written formulas and msProbe's published values."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from torch._subclasses import fake_tensor

import torch
from stepwatch.features import l2_features

NAN, INF = math.nan, math.inf


def random(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(columns: torch.Tensor, *expected: float, rel: float = 1e-5) -> None:
    assert columns.dtype == torch.float32
    assert columns.shape == (len(expected),)
    assert columns.tolist() == pytest.approx(expected, rel=rel, abs=1e-6, nan_ok=True)


def entropy(shares: list[float]) -> float:
    return -sum(p * math.log(p) for p in shares if p > 0)


def softmax(scores: list[float]) -> list[float]:
    weights = [math.exp(score - max(scores)) for score in scores]
    return [weight / sum(weights) for weight in weights]


def attention_by_rows(query: torch.Tensor, key: torch.Tensor) -> tuple[float, float]:
    """Take [rows, d] and [keys, d]; the last row sees all keys."""
    scores = (query.double() @ key.double().t() / math.sqrt(query.shape[1])).tolist()
    cached = max(0, len(key) - len(query))
    rows = [softmax(row[: i + 1 + cached]) for i, row in enumerate(scores)]
    return sum(map(entropy, rows)) / len(rows), sum(map(max, rows)) / len(rows)


# --- attention ---


def test_attention_gives_the_published_values_of_msprobe() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    key = torch.eye(3) * math.sqrt(3)
    columns = l2_features.attention((scores.view(3, 1, 1, 3), key.view(3, 1, 1, 3)), batch_first=False)
    close(columns, 0.4715, 0.7988, rel=1e-3)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("rows", "keys"), [(7, 7), (1, 1), (5, 1), (6, 9), (9, 6), (2, 40)])
def test_attention_is_that_of_batch_0_and_head_0(rows: int, keys: int, batch_first: bool) -> None:
    query, key = random(rows, 2, 3, 8), random(keys, 2, 3, 8, seed=4)
    expected = attention_by_rows(query[:, 0, 0], key[:, 0, 0])
    if batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    close(l2_features.attention((query, key, "mask"), batch_first), *expected)


def test_one_row_of_queries_is_repeated_at_every_key_as_msprobe_does() -> None:
    query, key = random(1, 1, 1, 8), random(5, 1, 1, 8, seed=4)
    expected = attention_by_rows(query[:, 0, 0].expand(5, 8), key[:, 0, 0])
    close(l2_features.attention((query, key), batch_first=False), *expected)


def test_attention_of_a_long_sequence_is_summed_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key = random(50, 1, 1, 8), random(70, 1, 1, 8, seed=4)
    whole = l2_features.attention((query, key), batch_first=False)
    monkeypatch.setattr(l2_features, "_SCORES_MAX", 3 * 70)
    close(l2_features.attention((query, key), batch_first=False), *whole.tolist())


@pytest.mark.parametrize(
    "args",
    [
        (),
        (random(3, 1, 1, 8),),
        (random(3, 1, 1, 8), None),
        (None, random(3, 1, 1, 8), random(3, 1, 1, 8)),
        (random(3, 1, 8), random(3, 1, 8)),
        (random(1, 3, 1, 1, 8), random(1, 3, 1, 1, 8)),
        (random(3, 1, 1, 8), random(3, 1, 1, 4)),
        (random(0, 1, 1, 8), random(0, 1, 1, 8)),
        (random(3, 0, 1, 8), random(3, 0, 1, 8)),
    ],
)
@pytest.mark.parametrize("batch_first", [False, True])
def test_inputs_that_are_not_query_and_key_give_zeros(args: tuple[Any, ...], batch_first: bool) -> None:
    close(l2_features.attention(args, batch_first), 0, 0)


def test_attention_shows_a_nan_of_the_inputs() -> None:
    query, key = random(4, 1, 1, 8), random(4, 1, 1, 8)
    key[1, 0, 0, 0] = NAN
    close(l2_features.attention((query, key), batch_first=False), NAN, NAN)


# --- linear ---


def holder(**attributes: Any) -> torch.nn.Module:
    module = torch.nn.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def test_the_matrix_of_a_module_is_its_weight_or_wg_but_no_table() -> None:
    linear = torch.nn.Linear(4, 3)
    assert l2_features.linear_weight(linear) is linear.weight
    gate = torch.nn.Parameter(random(8, 4))
    assert l2_features.linear_weight(holder(weight=torch.nn.Parameter(random(10)), wg=gate)) is gate
    assert l2_features.linear_weight(holder(weight="none", wg=torch.nn.Parameter(random(5)))) is None
    assert l2_features.linear_weight(torch.nn.LayerNorm(4)) is None
    assert l2_features.linear_weight(torch.nn.ReLU()) is None
    assert l2_features.linear_weight(torch.nn.Embedding(10, 5)) is None
    assert l2_features.linear_weight(holder(weight=gate, num_embeddings=10)) is None
    assert l2_features.linear_weight(holder(weight=gate, vocab_start_index=0)) is None


def orthogonal(size: int, seed: int) -> torch.Tensor:
    return torch.linalg.qr(random(size, size, seed=seed))[0]


MATRICES = {
    "square": lambda: random(400, 400),
    "wide": lambda: random(70, 900),
    "tall": lambda: random(900, 70),
    "one row": lambda: random(1, 30),
    "one column": lambda: random(30, 1),
    "one number": lambda: torch.tensor([[-3.0]]),
    "diagonal": lambda: torch.diag(torch.tensor([3.0, 2.0, 1.0])),
    "dense spectrum": lambda: torch.diag(torch.linspace(0, 1, 1000)),
    "all ones": lambda: torch.ones(300, 200),
    "rank 1": lambda: torch.outer(random(500), random(300)),
    "orthogonal": lambda: orthogonal(300, 5),
    "slow decay": lambda: orthogonal(300, 5) @ torch.diag(torch.arange(1, 301.0) ** -0.1) @ orthogonal(300, 6),
    "blocks": lambda: torch.block_diag(torch.ones(10, 10), random(90, 90) * 0.1, torch.eye(50) * 5),
    "small numbers": lambda: random(20, 30) * 1e-15,
    "large numbers": lambda: random(20, 30) * 1e15,
}


@pytest.mark.parametrize("name", MATRICES)
def test_stable_rank_and_largest_singular_value_are_converged(name: str) -> None:
    matrix = MATRICES[name]()
    values = torch.linalg.svdvals(matrix.double())
    stable_rank = float(values.square().sum().sqrt() / values[0])
    close(l2_features.linear(matrix), stable_rank, float(values[0]), rel=1e-4)


def test_a_matrix_of_zeros_or_without_elements_has_no_rank() -> None:
    close(l2_features.linear(torch.zeros(3, 4)), 0, 0)
    close(l2_features.linear(torch.empty(0, 4)), 0, 0)
    close(l2_features.linear(torch.empty(4, 0)), 0, 0)


@pytest.mark.parametrize("value", [NAN, INF])
def test_a_weight_that_is_not_finite_shows(value: float) -> None:
    matrix = random(5, 6)
    matrix[2, 3] = value
    close(l2_features.linear(matrix), NAN, NAN)


# --- routers ---


@pytest.mark.parametrize(("hidden", "experts"), [(64, 8), (9, 2), (8, 8)])
def test_router_weights_are_compared_pair_by_pair(hidden: int, experts: int) -> None:
    columns = random(hidden, experts)
    cosine = torch.nn.functional.cosine_similarity
    pairs = [float(cosine(columns[:, i], columns[:, j], dim=0)) for j in range(experts) for i in range(j)]
    close(l2_features.router_weight(columns), sum(pairs) / len(pairs), rel=1e-4)
    if hidden > experts:
        close(l2_features.router_weight(columns.t()), sum(pairs) / len(pairs), rel=1e-4)


def test_router_weights_without_pairs_are_not_alike() -> None:
    close(l2_features.router_weight(random(1, 8)), 0)
    close(l2_features.router_weight(random(8)), 0)
    close(l2_features.router_weight(torch.empty(0, 8)), 0)
    close(l2_features.router_weight(torch.zeros(8, 4)), 0)


def test_router_logits_give_the_mean_entropy_of_tokens() -> None:
    logits = random(4, 5, 8)
    rows = logits.reshape(-1, 8).tolist()
    expected = sum(entropy(softmax(row)) for row in rows) / len(rows)
    close(l2_features.router_logit(logits), expected)
    close(l2_features.router_logit((None, logits, random(2, 2))), expected)
    close(l2_features.router_logit({"loss": 1.0, "logits": logits}), expected)
    close(l2_features.router_logit(logits.transpose(0, 1)), expected)


def test_masked_experts_and_tokens_count_as_zero() -> None:
    close(l2_features.router_logit(torch.tensor([[0.0, 0.0, -INF]])), math.log(2))
    close(l2_features.router_logit(torch.tensor([[0.0, 0.0, -INF], [-INF, -INF, -INF]])), math.log(2) / 2)
    close(l2_features.router_logit(torch.full((3, 4), NAN)), 0)


@pytest.mark.parametrize("output", [None, "text", (), random(8), torch.empty(0, 8), torch.empty(8, 0)])
def test_outputs_that_are_no_logits_give_zero(output: Any) -> None:
    close(l2_features.router_logit(output), 0)


# --- all ---


def all_features(dtype: torch.dtype) -> list[list[float]]:
    shape = (12, 2, 2, 16)
    query, key = (random(*shape, seed=seed).to(dtype).requires_grad_() for seed in (1, 2))
    weight = torch.nn.Parameter(random(24, 40).to(dtype))
    columns = [
        l2_features.attention((query, key), batch_first=False),
        l2_features.linear(weight),
        l2_features.router_weight(weight),
        l2_features.router_logit(weight),
    ]
    assert not any(column.requires_grad for column in columns)
    return [column.tolist() for column in columns]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_dtype_is_computed_in_float32(dtype: torch.dtype) -> None:
    for columns, expected in zip(all_features(dtype), all_features(torch.float32)):
        assert columns == pytest.approx(expected, rel=2e-2)  # the inputs are rounded, nothing else


def test_autocast_changes_nothing() -> None:
    expected = all_features(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert all_features(torch.float32) == expected


def test_the_random_state_stays_as_it_is() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = all_features(torch.float32)
    assert torch.equal(torch.rand(1), expected)
    assert all_features(torch.float32) == first


def test_no_value_is_read_on_the_host() -> None:
    # A fake tensor has no values: reading one, which would wait for a device, raises.
    with fake_tensor.FakeTensorMode():
        shapes = [
            tuple(columns.shape)
            for columns in [
                l2_features.attention((torch.ones(12, 2, 2, 16), torch.ones(20, 2, 2, 16)), batch_first=False),
                l2_features.linear(torch.ones(24, 40)),
                l2_features.router_weight(torch.ones(24, 40)),
                l2_features.router_logit(torch.ones(2, 5, 8)),
            ]
        ]
    assert shapes == [(2,), (2,), (1,), (1,)]
