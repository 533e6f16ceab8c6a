"""Communication of two ranks: what the operators do is observed once, when it is there, and they go on doing it."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

import torch.distributed as dist
from listing_tap import Tap, in_place, ones, tapped
from rank_programs import run_ranks
from torch.distributed import distributed_c10d
from torch.distributed import isend as early_isend

import torch
from stepwatch.distributed.communication import CommunicationTap, watchable_operators

# --- run by both ranks ---

SCENARIOS: dict[str, Callable[[int], None]] = {}


def on_two_ranks(scenario: Callable[[int], None]) -> Callable[[int], None]:
    SCENARIOS[scenario.__name__] = scenario
    return scenario


@on_two_ranks
def an_operator_is_observed_after_it_ran(rank: int) -> None:
    x = ones() * (rank + 1)
    with tapped() as tap:
        assert dist.all_reduce(x) is None
        distributed_c10d.broadcast(tensor=x, src=0)
    assert tap.seen == [("all_reduce", "post", 0, [3, 3]), ("broadcast", "post", 0, [3, 3])]


@on_two_ranks
def keyword_arguments_none_and_empty_lists_are_taken(rank: int) -> None:
    x = ones(1) * (rank + 1)
    with tapped() as tap:
        dist.gather(x, gather_list=[torch.zeros(1), torch.zeros(1)] if rank == 0 else None, dst=0)
        dist.scatter(x, scatter_list=[ones(1), ones(1) * 5] if rank == 0 else [], src=0)
        for wrong in ([], [None, None]):
            with contextlib.suppress(Exception):
                dist.all_gather(wrong, x)  # torch refuses it, with and without us
    gather = [values for name, _, _, values in tap.seen if name == "gather"]
    scatter = [values for name, _, _, values in tap.seen if name == "scatter"]
    assert gather == ([[1], [1], [2]] if rank == 0 else [[2]])
    assert scatter == ([[1], [1], [5]] if rank == 0 else [[5]])


@on_two_ranks
def an_operator_that_calls_another_counts_once(rank: int) -> None:
    for name in ("all_gather_into_tensor", "_all_gather_base", "all_gather_single"):
        if name in watchable_operators():
            output = torch.zeros(2)
            with tapped() as tap:
                getattr(dist, name)(output, ones(1) * rank)
            assert tap.seen == [(name, "post", 0, [0, 1]), (name, "post", 1, [rank])]


@on_two_ranks
def an_asynchronous_call_is_observed_after_its_wait(rank: int) -> None:
    x = ones() * (rank + 1)
    with tapped() as tap:
        work = dist.all_reduce(x, async_op=True)
        assert tap.seen == []
        assert work.wait() is True
        assert tap.seen == [("all_reduce", "post", 0, [3, 3])]
        work.wait()
    assert len(tap.seen) == 1


@on_two_ranks
def a_work_that_is_never_waited_for_keeps_no_tensor(rank: int) -> None:
    with tapped() as tap:
        x = ones()
        work = dist.all_reduce(x, async_op=True)
        work.is_completed()
        alive = weakref.ref(x)
        dist.barrier()
        del x, work
        deadline = time.monotonic() + 60
        while alive() is not None:  # a thread of gloo may hold it for a moment
            assert time.monotonic() < deadline
            gc.collect()
            time.sleep(0.01)
    assert tap.seen == []


@on_two_ranks
def a_wait_after_removal_observes_nothing(rank: int) -> None:
    x = ones(1)
    with tapped() as tap:
        work = dist.all_reduce(x, async_op=True)
    assert work.wait() is True
    assert tap.seen == []
    assert x.tolist() == [2]


@on_two_ranks
def send_and_recv_count_once(rank: int) -> None:
    x = ones(1) * rank
    with tapped() as tap:
        if rank == 0:
            dist.send(ones(1) * 7, dst=1)
        else:
            assert dist.recv(x, src=0) == 0
    assert tap.seen == [("send" if rank == 0 else "recv", "post", 0, [7])]


@on_two_ranks
def isend_and_irecv_are_observed_after_their_wait(rank: int) -> None:
    x = ones(1) * 7 if rank == 0 else torch.zeros(1)
    with tapped() as tap:
        work = dist.isend(x, dst=1) if rank == 0 else dist.irecv(x, src=0)
        assert tap.seen == []
        assert work.wait() is True
    assert tap.seen == [("isend" if rank == 0 else "irecv", "post", 0, [7])]


def exchange(rank: int, isend: Any = None, *, count: int = 1) -> tuple[list[dist.P2POp], torch.Tensor]:
    """Return a send of `rank` to the other, and a receive."""
    received = torch.full((count,), -1.0)
    operations = [
        dist.P2POp(isend or dist.isend, torch.full((2 - rank,), float(rank)), 1 - rank),
        dist.P2POp(op=dist.irecv, tensor=received, peer=1 - rank),
    ]
    return operations, received


@on_two_ranks
def a_batch_is_observed_once_for_each_of_its_tensors(rank: int) -> None:
    with tapped(before=True) as tap:
        operations, received = exchange(rank, count=1 + rank)
        for work in dist.batch_isend_irecv(operations):
            assert work.wait() is True
    assert received.tolist() == [1 - rank] * (1 + rank)
    mine, other = [float(rank)] * (2 - rank), [float(1 - rank)] * (1 + rank)
    posts = [("batch_isend_irecv", "post", 0, mine), ("batch_isend_irecv", "post", 1, other)]
    assert [row for row in tap.seen if row[1] == "post"] == posts
    assert [position for _, when, position, _ in tap.seen if when == "pre"] == [0, 1]


@on_two_ranks
def point_to_point_operations_outlive_installing_and_removing(rank: int) -> None:
    before, received_before = exchange(rank, count=1 + rank)
    with tapped() as tap:
        within, received_within = exchange(rank, early_isend, count=1 + rank)
        within_wrapped, received_wrapped = exchange(rank, count=1 + rank)
        assert [operation.op for operation in within_wrapped] == [early_isend, distributed_c10d.irecv]
        for work in dist.batch_isend_irecv(before) + dist.batch_isend_irecv(within):
            work.wait()
        assert len(tap.seen) == 4
    for work in dist.batch_isend_irecv(within_wrapped):
        work.wait()
    for received in (received_before, received_within, received_wrapped):
        assert received.tolist() == [1 - rank] * (1 + rank)


@on_two_ranks
def a_wrapper_kept_by_name_stays_usable_after_removal(rank: int) -> None:
    before = in_place()
    tap = Tap()
    tap.install()
    isend, all_reduce = dist.isend, dist.all_reduce
    tap.remove()
    operations, received = exchange(rank, isend, count=1 + rank)
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert received.tolist() == [1 - rank] * (1 + rank)
    x = ones(1)
    all_reduce(x)
    assert x.tolist() == [2]
    assert tap.seen == []
    del isend
    assert in_place() == before


@on_two_ranks
def coalesced_calls_are_observed_after_their_common_wait(rank: int) -> None:
    x, y = ones(1) * (rank + 1), ones(1) * 10
    with tapped() as tap:
        with dist._coalescing_manager(async_ops=True) as manager:
            dist.all_reduce(x)
            dist.all_reduce(y)
        assert tap.seen == []
        manager.wait()
        assert tap.seen == [("all_reduce", "post", 0, [3]), ("all_reduce", "post", 0, [20])]
        with dist._coalescing_manager():
            dist.all_reduce(x, async_op=True)
        assert tap.seen[2:] == [("all_reduce", "post", 0, [6])]


@on_two_ranks
def coalesced_calls_of_a_manager_imported_before_are_not_observed_too_early(rank: int) -> None:
    manager, x = dist._coalescing_manager, ones(1)
    with tapped() as tap, manager():
        dist.all_reduce(x)
    assert x.tolist() == [2]
    assert tap.seen == []


@on_two_ranks
def object_collectives_do_not_count(rank: int) -> None:
    with tapped() as tap:
        objects = [None, None]
        dist.all_gather_object(objects, {"rank": rank})
        dist.broadcast_object_list(objects, src=0)
    assert objects == [{"rank": 0}, {"rank": 1}]
    assert tap.seen == []


@on_two_ranks
def a_rank_outside_of_the_group_observes_nothing(rank: int) -> None:
    group = dist.new_group([0])
    with tapped(before=True) as tap:
        dist.all_reduce(ones(1), group=group)
    assert len(tap.seen) == (2 if rank == 0 else 0)


@on_two_ranks
def nothing_is_observed_in_steps_that_are_not_collected(rank: int) -> None:
    x = ones(1)
    with tapped(before=True, codelines=["."]) as tap:
        tap.on = False
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        tap.on = True
        work.wait()
        work = dist.all_reduce(x, async_op=True)
        tap.on = False
        assert work.wait() is True
    assert [when for _, when, _, _ in tap.seen] == ["pre"]
    assert x.tolist() == [8]


@on_two_ranks
def only_calls_from_wanted_lines_are_observed(rank: int) -> None:
    def gradients(x: torch.Tensor) -> None:
        dist.all_reduce(x)

    def losses(x: torch.Tensor) -> None:
        dist.all_reduce(x)

    with tapped(codelines=["nowhere", r"communication_test\.py\[\d+\]   gradients;"]) as tap:
        gradients(ones(1))
        losses(ones(2))
    assert [len(values) for _, _, _, values in tap.seen] == [1]


@on_two_ranks
def with_log_only_stacks_are_kept_and_nothing_else(rank: int) -> None:
    with tapped(log_only=True, before=True, codelines=["nowhere"]) as tap:
        for _ in range(3):
            dist.all_reduce(ones(1))
        dist.broadcast(ones(1), 0)
    assert tap.seen == []
    stacks = tap.stacks()
    assert sorted(stacks) == ["all_reduce", "broadcast"]
    (stack,) = stacks["all_reduce"]
    assert stack[0].startswith(__file__ + "[")
    assert stack[0].endswith("]   with_log_only_stacks_are_kept_and_nothing_else")
    assert not any("/stepwatch/" in frame or "/multiprocessing/" in frame for frame in stack)


@on_two_ranks
def what_fails_in_the_observer_does_not_reach_the_caller(rank: int) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no room")

    x, reported = ones(1), []
    tap = CommunicationTap(fail, lambda *what: reported.append(what), collecting=lambda: True, before=True)
    tap.install()
    try:
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        assert work.wait() is True
    finally:
        tap.remove()
    assert x.tolist() == [4]
    assert set(reported) == {("watching communication", "RuntimeError: no room")}


@on_two_ranks
def what_torch_raises_reaches_the_caller(rank: int) -> None:
    with tapped() as tap:
        for _ in range(2):
            with pytest.raises((TypeError, ValueError)):
                dist.all_reduce("no tensor")
        dist.all_reduce(ones(1))
    assert len(tap.seen) == 1


@on_two_ranks
def a_later_patch_of_somebody_else_stays(rank: int) -> None:
    original = dist.all_reduce
    tap = Tap()
    tap.install()
    ours = dist.all_reduce

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    dist.all_reduce = theirs
    try:
        dist.all_reduce(ones(1))
        tap.remove()
        assert dist.all_reduce is theirs
        assert distributed_c10d.all_reduce is original
        x = ones(1)
        dist.all_reduce(x)
        assert x.tolist() == [2]
        assert len(tap.seen) == 1
    finally:
        dist.all_reduce = original


@on_two_ranks
def a_compiled_region_stays_one_graph(rank: int) -> None:
    @torch.compile(backend="eager", fullgraph=True)
    def double(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        dist.all_reduce(x)
        return x

    with tapped() as tap:
        assert double(ones(1)).tolist() == [4]
    assert tap.seen == []
    assert distributed_c10d.all_reduce in torch.distributed._functional_collectives.traceable_collective_remaps


def run_scenarios(rank: int) -> None:
    failures = {}
    for name, scenario in SCENARIOS.items():
        try:
            scenario(rank)
        except BaseException:
            failures[name] = traceback.format_exc()
    Path(f"rank{rank}.json").write_text(json.dumps(failures))
    os._exit(0)  # a rank that failed may have left the other waiting, and neither is to wait at the end


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(folder, "from communication_test import run_scenarios\nrun_scenarios(rank)\n")
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.xdist_group("communication")  # whose scenarios are played once
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_two_ranks(scenario: str, failures: list[dict[str, str]]) -> None:
    for failed in failures:
        assert scenario not in failed, failed[scenario]
