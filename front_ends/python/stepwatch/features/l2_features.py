"""Features of attention, linear layers and routers, as small tensors on the device of their input.

These functions never wait for the device, use a random generator, or record a graph. They compute in float32, with and
without autocast; a NaN or an infinity in the input results in NaN in the columns unless stated otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

# Limit of attention scores held at once: 16 MiB in float32 for any length of sequence.
_SCORES_MAX = 1 << 22

# Steps per singular value. For a square Gaussian matrix, a hard case because its spectrum ends densely, the result is
# then right to 1e-5 for 4096 rows.
_STEPS_MAX = 64
# Relative length below which a remainder of orthogonalisation in float32 has no meaningful direction.
_NOISE = 1e-5


def attention(args: Sequence[Any], batch_first: bool) -> torch.Tensor:
    """Measure the attention distribution of the first head of the first sample.

    S = Q K^T / sqrt(d) under a causal mask, p its softmax by rows. Row i of Q sees the keys up to i. With more keys
    than rows the last row sees all keys, as if the first ones came from a cache; with fewer, the rows past the last key
    see all keys. A single row against several keys is repeated at the position of every key, as in msProbe.

    Parameters
    ----------
    args : sequence
        Positional inputs of a module; the first two are Q and K.
    batch_first : bool
        Shapes are [batch, sequence, head, d], otherwise [sequence, batch, head, d].

    Returns
    -------
    torch.Tensor
        [entropy, softmax_max]: the means over rows of -sum p ln p and of the largest p. [0, 0] if there are no two
        non-empty tensors of four dimensions and equal d.
    """
    tensors = [value for value in args[:2] if isinstance(value, torch.Tensor)]
    if len(tensors) < 2 or not _are_query_and_key(*tensors):
        return _zeros(2, tensors)
    with torch.no_grad(), torch.autocast(tensors[0].device.type, enabled=False):
        query, key = (tensor[0, :, 0] if batch_first else tensor[:, 0, 0] for tensor in tensors)
        if len(query) == 1:
            query = query.expand(len(key), -1)
        return _causal_rows(query.float() / math.sqrt(query.shape[1]), key.float())


def _are_query_and_key(query: torch.Tensor, key: torch.Tensor) -> bool:
    return (
        query.dim() == key.dim() == 4
        and min(query.numel(), key.numel()) > 0
        and query.shape[-1] == key.shape[-1]
        and query.device == key.device
    )


def _causal_rows(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    rows, keys = len(query), len(key)
    cached = max(0, keys - rows)
    sums = query.new_zeros(2)
    block = max(1, _SCORES_MAX // keys)
    for begin in range(0, rows, block):
        end = min(begin + block, rows)
        seen = min(end + cached, keys)
        scores = query[begin:end] @ key[:seen].t()
        later = torch.ones_like(scores, dtype=torch.bool).triu(begin + cached + 1)
        shares = torch.softmax(scores.masked_fill(later, -math.inf), dim=1)
        sums += torch.stack([torch.special.entr(shares).sum(), shares.amax(dim=1).sum()])
    return sums / rows


def linear_weight(module: torch.nn.Module) -> torch.Tensor | None:
    """Return the matrix of a module that maps vectors: its two-dimensional `weight`, else `wg`.

    Parameters
    ----------
    module : torch.nn.Module

    Returns
    -------
    torch.Tensor or None
        The matrix; None for modules without one and for lookup tables: torch.nn.Embedding and modules with
        `num_embeddings` or `vocab_start_index`. A matrix that is computed on access, as by torch's
        parametrizations, is not read: spectral_norm would change its state.
    """
    name = weight_name(module)
    return getattr(module, name) if name else None


def weight_name(module: torch.nn.Module) -> str:
    """Return the name of the attribute that `linear_weight` returns; empty if it returns None."""
    tables = ("num_embeddings", "vocab_start_index")
    if isinstance(module, torch.nn.Embedding) or any(hasattr(module, name) for name in tables):
        return ""
    for name in ("weight", "wg"):
        if isinstance(getattr(type(module), name, None), property):
            continue
        weight = getattr(module, name, None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            return name
    return ""


def linear(weight: torch.Tensor) -> torch.Tensor:
    """Measure the stable rank of a matrix.

    Parameters
    ----------
    weight : torch.Tensor
        Two-dimensional.

    Returns
    -------
    torch.Tensor
        [sr, kernel_norm]: kernel_norm is the largest singular value, accurate to about 1e-4, and sr the Frobenius norm
        divided by it. [0, 0] for a matrix of zeros and for an empty one.
    """
    if weight.dim() != 2 or weight.numel() == 0:
        return _zeros(2, [weight])
    with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):
        matrix = weight.detach().float()
        frobenius = torch.linalg.vector_norm(matrix)
        sigma = torch.where(frobenius > 0, _largest_singular_value(matrix, frobenius), frobenius)
        return torch.stack([torch.where(sigma > 0, frobenius / sigma, sigma), sigma])


def _largest_singular_value(matrix: torch.Tensor, frobenius: torch.Tensor) -> torch.Tensor:
    """Return the largest singular value.

    Lanczos with full reorthogonalisation on W^T W, which is never formed, then Rayleigh and Ritz.
    Power iterations on the same two products per step would need hundreds of steps.
    """
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.t()
    steps = min(_STEPS_MAX, matrix.shape[1])
    basis = matrix.new_zeros(steps, matrix.shape[1])
    images = matrix.new_zeros(steps, matrix.shape[0])
    direction = _start(matrix.shape[1], matrix.device)
    basis[0] = direction / torch.linalg.vector_norm(direction)
    for step in range(steps):
        images[step] = matrix @ basis[step] / frobenius  # so that squares stay in range
        if step + 1 < steps:
            basis[step + 1] = _new_direction(matrix.t() @ images[step], basis[: step + 1])
    return frobenius * _largest_eigenvalue(images @ images.t()).sqrt()


def _new_direction(vector: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Return the unit part of `vector` orthogonal to the basis; zero if that part is rounding noise."""
    noise = torch.linalg.vector_norm(vector) * _NOISE
    for _ in range(2):  # a second pass removes the rounding error of the first
        vector = torch.addmv(vector, basis.t(), basis @ vector, alpha=-1)
    length = torch.linalg.vector_norm(vector)
    return torch.where(length > noise, vector / length, torch.zeros_like(vector))


def _start(size: int, device: torch.device) -> torch.Tensor:
    """Return an unstructured vector, equal on every device: two rounds of a congruential generator."""
    numbers = torch.arange(size, device=device, dtype=torch.int64)
    for _ in range(2):
        numbers = (numbers * 1103515245 + 12345) % 2147483647
        numbers = numbers ^ (numbers >> 13)
    return (numbers % 65536).float() - 32767.5


def _largest_eigenvalue(gram: torch.Tensor) -> torch.Tensor:
    # Squaring twenty times equals a million power iterations for a small positive matrix, without a library call that
    # would wait for the device to report convergence.
    power = gram
    for _ in range(20):
        power = power / torch.linalg.vector_norm(power)
        power = power @ power
    return (gram * power).sum() / power.diagonal().sum()


def router_weight(weight: torch.Tensor) -> torch.Tensor:
    """Measure the similarity of the experts of a router.

    Parameters
    ----------
    weight : torch.Tensor
        Two-dimensional; the smaller dimension is the experts, of a square matrix the columns.

    Returns
    -------
    torch.Tensor
        [similarity]: the mean cosine similarity over pairs of experts; [0] with fewer than two of them.
    """
    if weight.dim() != 2 or min(weight.shape) < 2:
        return _zeros(1, [weight])
    with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):
        columns = weight.detach().float()
        if columns.shape[0] < columns.shape[1]:
            columns = columns.t()
        experts = columns.shape[1]
        directions = torch.nn.functional.normalize(columns, dim=0)
        # The product has every pair twice, and each row with itself: keep each pair once.
        everyone = directions.sum(dim=1).square().sum()
        itself = directions.square().sum()
        return ((everyone - itself) / (experts * (experts - 1))).reshape(1)


def router_logit(output: Any) -> torch.Tensor:
    """Measure the entropy of the routing decision.

    Parameters
    ----------
    output : object
        The output of a module: logits with the experts in the last dimension, or a sequence or mapping whose first
        tensor contains them.

    Returns
    -------
    torch.Tensor
        [entropy]: the mean over tokens of -sum p ln p, p being the softmax over experts; terms that are NaN count as 0,
        so experts masked by -inf, and tokens whose experts are all masked, do not make the mean NaN. [0] without
        tokens, or without a tensor of at least two dimensions.
    """
    logits = _first_tensor(output)
    if logits is None or logits.dim() < 2 or logits.numel() == 0:
        return _zeros(1, [] if logits is None else [logits])
    with torch.no_grad(), torch.autocast(logits.device.type, enabled=False):
        tokens = logits.detach().float().reshape(-1, logits.shape[-1])
        shares = torch.softmax(tokens, dim=1)
        return (torch.special.entr(shares).nansum() / len(tokens)).reshape(1)


def _first_tensor(output: Any) -> torch.Tensor | None:
    if isinstance(output, torch.Tensor):
        return output
    values = output.values() if isinstance(output, Mapping) else output if isinstance(output, (list, tuple)) else ()
    return next((value for value in values if isinstance(value, torch.Tensor)), None)


def _zeros(columns: int, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.zeros(columns, device=tensors[0].device if tensors else None)
