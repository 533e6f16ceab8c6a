"""Numbers that the front end adds to beats by itself: parts of steps, the CUDA allocator, the peak of the device."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from jobs import lines_of_job, mlp, train, write_config

import stepwatch
import torch
from stepwatch import _core
from stepwatch.reporting.allocator_numbers import AllocatorNumbers, cuda_device_of
from stepwatch.reporting.peak_rate import PeakRate

BURNT = 0.003
PARTS = ("data_seconds", "optimizer_seconds", "compute_seconds")


def opened(folder: Path, optimizer_class: Any = torch.optim.SGD, **options: Any) -> tuple[Any, Any, Any]:
    model = mlp()
    optimizer = optimizer_class(model.parameters(), lr=0.1)
    path = write_config(folder / "config.json", targets={}, dynamic_on=False)
    monitor = stepwatch.watch(model, optimizer, config=path, dynamic=True, output_dir=folder / "out", **options)
    return monitor, model, optimizer


def burn(seconds: float = BURNT) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class SlowData(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        burn()
        return torch.ones(4)


class Burning(torch.optim.SGD):
    """Takes its time, and fails on demand."""

    fails = False

    def step(self, closure: Any = None) -> Any:
        if self.fails:
            raise RuntimeError("no memory")
        burn()
        return super().step(closure)


def beats() -> dict[int, dict[str, Any]]:
    """Return the beats of ends of steps, by step."""
    found = [line["beat"] for line in lines_of_job() if "beat" in line]
    return {beat["step"]: beat for beat in found if "step_seconds" in beat}


def check_sum(beat: dict[str, Any]) -> None:
    parts = [beat[part] for part in PARTS if part in beat]
    assert all(each >= 0 for each in parts)
    assert sum(parts) <= beat["step_seconds"] + 1e-8


def test_the_parts_of_a_step_are_known_without_a_plan_and_without_a_hook_on_modules(
    tmp_path: Path, runtime: Path
) -> None:
    monitor, model, optimizer = opened(tmp_path, Burning)
    with monitor:
        for batch in torch.utils.data.DataLoader(SlowData(), batch_size=2):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            for module in model.modules():
                assert not module._forward_hooks
                assert not module._forward_pre_hooks
                assert not module._backward_hooks
            assert all(not parameter._backward_hooks for parameter in model.parameters())
        found = beats()
        assert len(found) == 31  # the duration of the first step is unknown
        for beat in found.values():
            assert beat["data_seconds"] >= 2 * BURNT
            assert beat["optimizer_seconds"] >= BURNT
            assert beat["compute_seconds"] >= 0
            check_sum(beat)


def test_data_of_micro_batches_is_summed_and_without_data_the_rest_is_unknown(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)

    def batch(step: int) -> torch.Tensor:
        if step == 2:
            return torch.ones(3, 4)
        with stepwatch.part("data"):
            burn()
            return torch.ones(3, 4)

    with monitor:
        for step in range(3):
            for _ in range(3):
                model(batch(step)).sum().backward()
            optimizer.step()
        found = beats()
        assert found[1]["data_seconds"] >= 3 * BURNT
        check_sum(found[1])
        assert "optimizer_seconds" in found[2]
        assert "data_seconds" not in found[2]
        assert "compute_seconds" not in found[2]


@pytest.mark.parametrize("dynamic_on", [False, True])
def test_the_time_of_a_closure_is_none_of_the_optimizer_s(tmp_path: Path, runtime: Path, dynamic_on: bool) -> None:
    monitor, model, optimizer = opened(tmp_path)
    if dynamic_on:
        config = {"targets": {}, "dynamic_on": True, "wg_distribution": True, "collect_times": 100}
        write_config(tmp_path / "config.json", **config)
        assert monitor.refresh(20) == "armed"

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        burn(0.05)
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        return loss

    with monitor:
        for _ in range(4):
            with stepwatch.part("data"):
                pass
            assert optimizer.step(closure) is not None
        for beat in list(beats().values()):
            assert beat["compute_seconds"] >= 0.05
            check_sum(beat)


def test_a_step_in_which_an_update_has_raised_has_no_parts_and_the_next_one_has(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path, Burning)
    with monitor:
        for step in range(4):
            with stepwatch.part("data"):
                pass
            model(torch.ones(3, 4)).sum().backward()
            if step == 2:
                optimizer.fails = True
                with pytest.raises(RuntimeError):
                    optimizer.step()
                burn()
                optimizer.fails = False
            optimizer.step()
        found = beats()
        assert all(part in found[1] for part in PARTS)
        assert not any(part in found[2] for part in PARTS)
        assert all(part in found[3] for part in PARTS)


def test_evaluations_and_checkpoints_are_no_part_of_the_step(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        train(model, optimizer, 1)
        with stepwatch.phase("eval"):
            for _ in torch.utils.data.DataLoader(SlowData(), batch_size=16):
                pass
        with stepwatch.phase("checkpoint"):
            burn()
        train(model, optimizer, 1)
        beat = beats()[1]
        assert "data_seconds" not in beat
        assert beat["checkpoint_seconds"] >= BURNT
        check_sum(beat)


def test_a_loader_of_another_thread_does_not_count(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        train(model, optimizer, 1)
        thread = threading.Thread(target=lambda: list(torch.utils.data.DataLoader(SlowData(), batch_size=32)))
        thread.start()
        thread.join()
        train(model, optimizer, 1)
        assert "data_seconds" not in beats()[1]


def test_the_loader_of_torch_is_as_before_after_the_last_monitor(tmp_path: Path, runtime: Path) -> None:
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    before = iterator.__next__
    monitor, _, _ = opened(tmp_path)
    assert iterator.__next__ is not before
    monitor.close()
    assert iterator.__next__ is before


def test_an_unknown_part_is_reported_once_and_counts_nothing(
    tmp_path: Path, runtime: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with stepwatch.part("data"):  # before there is a monitor
        pass
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for _ in range(2):
            with stepwatch.part("backward"):
                train(model, optimizer, 2)
        assert "data_seconds" not in beats()[1]
    assert "".join(capfd.readouterr()).count("accepted parts") == 1


def test_parts_of_random_loops_never_sum_to_more_than_their_step(tmp_path: Path, runtime: Path) -> None:
    chosen = random.Random(1)
    monitor, model, optimizer = opened(tmp_path, Burning)
    with monitor:
        for _ in range(60):
            for _ in range(chosen.randrange(3)):
                name = chosen.choice(["data", "optimizer", "eval", "checkpoint", "nested"])
                if name == "nested":
                    with stepwatch.part("data"), stepwatch.phase("eval"), stepwatch.part("optimizer"):
                        burn(0.0005)
                else:
                    with stepwatch.phase(name) if name in ("eval", "checkpoint") else stepwatch.part(name):
                        burn(0.0005)
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
        found = beats()
        assert len(found) == 59
        for beat in found.values():
            check_sum(beat)


# --- the allocator and the peak, with a fake torch.cuda ---


def fake_stats(**changed: Any) -> dict[str, Any]:
    sizes = {"all": {"current": 1024, "peak": 4096, "allocated": 1, "freed": 0}}
    return {"allocated_bytes": sizes, "reserved_bytes": sizes, "num_alloc_retries": 3, "num_ooms": 1, **changed}


def test_the_allocator_is_read_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    asked: list[Any] = []
    reported: list[Any] = []
    monkeypatch.setattr(
        torch.cuda, "memory_stats_as_nested_dict", lambda device: asked.append(device) or fake_stats(), raising=False
    )
    numbers = AllocatorNumbers(reported.append, lambda: now[0])
    numbers.device = torch.device("cuda", 1)
    for _ in range(100):
        numbers.look()
    assert asked == [torch.device("cuda", 1)]
    now[0] += 1.5
    numbers.look()
    assert len(asked) == 2
    assert dict(reported[1]) == {
        "cuda_allocated_bytes": 1024.0,
        "cuda_reserved_bytes": 1024.0,
        "cuda_alloc_retries": 3.0,
        "cuda_ooms": 1.0,
    }


@pytest.mark.parametrize("stats", [{}, {"allocated_bytes": 1}, None])
def test_an_allocator_without_numbers_reports_none(monkeypatch: pytest.MonkeyPatch, stats: Any) -> None:
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: stats)
    reported: list[Any] = []
    AllocatorNumbers(reported.append).look()
    assert reported == []


def test_a_model_on_a_device_has_the_allocator_in_its_beats_and_one_on_the_cpu_has_not(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cuda_device_of(mlp().parameters()) is None
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: fake_stats())
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        train(model, optimizer, 2)
        assert "cuda_allocated_bytes" not in str(beats())
        monitor._attachment._allocator.device = torch.device("cuda", 0)
        train(model, optimizer, 2)
        assert beats()[2]["cuda_allocated_bytes"] == 1024
        assert "cuda_allocated_bytes" not in beats()[3]


def test_flops_are_reported_with_the_peak_of_the_device_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    name = ["NVIDIA H100 80GB HBM3"]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name[0])
    rate = PeakRate(None, lambda: torch.device("cuda", 0), lambda: now[0])
    assert rate.numbers() == [("peak_flops", 989.4e12)]
    assert rate.numbers() == []
    now[0], name[0] = 61.0, "Tesla V100-SXM2-16GB"  # no bfloat16
    assert rate.numbers() == [("peak_flops", 125e12)]
    now[0], name[0] = 122.0, "Some Device"
    assert rate.numbers() == []
    assert PeakRate(5e12, lambda: None).numbers() == [("peak_flops", 5e12)]
    assert PeakRate(None, lambda: None).numbers() == []
    assert _core.peak_flops("NVIDIA A100-SXM4-40GB") == (312e12, 312e12)


def test_flops_and_a_given_peak_are_in_the_beats(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path, peak_flops=2e12)
    with monitor:
        train(model, optimizer, 3, before_step=lambda step: stepwatch.report(flops=1e9 * (step + 1)))
        found = beats()
        assert found[1]["flops"] == 2e9
        assert found[2]["flops"] == 3e9
        lines = [line["beat"] for line in lines_of_job() if "beat" in line]
        assert [line["peak_flops"] for line in lines if "peak_flops" in line] == [2e12]
