"""A tap on communication that lists what it observes, and looks whether torch is as before when it is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

import torch
from stepwatch.distributed import communication
from stepwatch.distributed.communication import CommunicationTap

IN_TORCH = [
    (place, name) for place in (dist, distributed_c10d) for name in [*communication.OPERATORS, "_coalescing_manager"]
]
ON_CLASSES = [(dist.Work, "wait"), (dist.P2POp, "__new__"), (dist.P2POp, "__init__")]


class Tap(CommunicationTap):
    """Lists what is observed as (operator, "pre" or "post", position, values), and what is caught."""

    def __init__(self, **options: Any) -> None:
        self.seen: list[tuple[str, str, int, list[float]]] = []
        self.failures: list[tuple[str, str]] = []
        self.on = True
        options = {"collecting": lambda: self.on, **options}
        super().__init__(self.take, lambda *what: self.failures.append(what), **options)

    def take(self, operator: int, is_post: bool, position: int, tensor: torch.Tensor) -> None:
        self.seen.append((self.operators[operator], "post" if is_post else "pre", position, tensor.tolist()))


def in_place() -> list[Any]:
    return [vars(owner).get(name) for owner, name in IN_TORCH + ON_CLASSES]


@contextlib.contextmanager
def tapped(**options: Any) -> Iterator[Tap]:
    """Install a tap; after its removal torch is as it was, and nothing failed inside of it."""
    before = in_place()
    tap = Tap(**options)
    tap.install()
    try:
        yield tap
    finally:
        tap.remove()
    assert in_place() == before
    assert tap.failures == []


def ones(count: int = 2) -> torch.Tensor:
    return torch.ones(count)
