"""Wrappers around operators of torch.distributed, without other ranks: what they take, and how they come and go."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

import torch
from stepwatch.distributed import communication
from stepwatch.distributed.communication import CommunicationTap, watchable_operators

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

import torch.distributed as dist
from listing_tap import IN_TORCH, Tap, in_place, ones, tapped
from torch.distributed import distributed_c10d


def test_the_operators_have_a_fixed_order() -> None:
    names = watchable_operators()
    assert names[:7] == ["send", "recv", "isend", "irecv", "batch_isend_irecv", "broadcast", "all_reduce"]
    assert names == [name for name in communication.OPERATORS if name in names]
    assert CommunicationTap(print, print, collecting=bool).operators == names


def test_installing_and_removing_twice_is_harmless() -> None:
    before = in_place()
    tap = Tap()
    tap.remove()
    for _ in range(2):
        tap.install()
        tap.install()
        assert dist.all_reduce is not before[IN_TORCH.index((dist, "all_reduce"))]
        assert dist.all_reduce.__name__ == "all_reduce"
        tap.remove()
        tap.remove()
        assert in_place() == before


def test_any_mixture_of_arguments_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "all_gather", lambda *args, **kwargs: "result")
    with tapped(before=True) as tap:
        lists = [ones(1), None, ones(3)], (), [None], [[ones(1)]], "text", 3
        assert dist.all_gather(*lists, group=None, extra=ones(2)) == "result"
    assert [(when, position, len(values)) for _, when, position, values in tap.seen] == [
        (when, position, length) for when in ("pre", "post") for position, length in enumerate([1, 3, 2])
    ]


def test_an_operator_that_somebody_has_built_on_another_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_c10d, "broadcast", lambda x: None)
    monkeypatch.setattr(dist, "all_reduce", lambda x: distributed_c10d.broadcast(x))
    with tapped() as tap:
        dist.all_reduce(ones())
        distributed_c10d.broadcast(ones())
    assert [name for name, *_ in tap.seen] == ["all_reduce", "broadcast"]


class Done(dist.Work):
    """A Work with a `wait` of its own, as backends in Python have."""

    def wait(self, *_: Any) -> bool:
        return True


@pytest.mark.parametrize("works", [1, 2])
def test_works_shared_by_several_tensors_are_all_waited_for(monkeypatch: pytest.MonkeyPatch, works: int) -> None:
    own_wait = vars(Done)["wait"]
    monkeypatch.setattr(dist, "batch_isend_irecv", lambda tensors: [Done() for _ in range(works)])
    with tapped() as tap:
        for work in dist.batch_isend_irecv([ones(1), ones(2), ones(3)]):
            assert tap.seen == []
            assert work.wait() is True
    assert [(position, len(values)) for _, _, position, values in tap.seen] == [(0, 1), (1, 2), (2, 3)]
    assert vars(Done)["wait"] is own_wait


def test_calls_of_several_threads_do_not_hide_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    both_inside = threading.Barrier(2, timeout=300)
    monkeypatch.setattr(dist, "all_reduce", lambda x: both_inside.wait())
    with tapped() as tap:
        threads = [threading.Thread(target=dist.all_reduce, args=(ones(n),)) for n in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(len(values) for _, _, _, values in tap.seen) == [1, 2]


def test_an_operator_that_deepspeed_keeps_is_seen_whether_it_starts_before_or_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dist, "all_gather_into_tensor", lambda output_tensor, input_tensor: None)
    comm = types.SimpleNamespace(cdb=None)
    monkeypatch.setitem(sys.modules, "deepspeed.comm.comm", comm)

    def gather() -> None:
        comm.cdb.all_gather_function(output_tensor=ones(4), input_tensor=ones(2))

    expected = [("all_gather_into_tensor", "post", 0, [1.0] * 4), ("all_gather_into_tensor", "post", 1, [1.0] * 2)]
    with tapped() as tap:
        comm.cdb = types.SimpleNamespace(all_gather_function=dist.all_gather_into_tensor)
        gather()
    assert tap.seen == expected
    kept = comm.cdb.all_gather_function
    for _ in range(2):
        with tapped() as tap:
            gather()
        assert tap.seen == expected
        assert comm.cdb.all_gather_function is kept
        gather()
        assert tap.seen == expected
