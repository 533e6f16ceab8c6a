"""Forward, backward and communication as parts of collected steps."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from jobs import lines_of_job, mlp, write_config

import stepwatch
import torch
from stepwatch.reporting.device_parts import DeviceParts
from stepwatch.reporting.step_parts import BACKWARD, COMMUNICATION, FORWARD

FORWARD_KEY, BACKWARD_KEY, COMMUNICATION_KEY = "forward_seconds", "backward_seconds", "communication_seconds"
INNER = (FORWARD_KEY, BACKWARD_KEY, COMMUNICATION_KEY)
ENGINE = torch.autograd.Variable._execution_engine


class Slow(torch.autograd.Function):
    """Sleeps in its backward."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return gradient.clone()


class Sleeps(torch.nn.Module):
    """Sleeps in its forward, and for as long in its backward."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.fails = False
        self.checkpoints = False

    def part(self, value: torch.Tensor) -> torch.Tensor:
        time.sleep(0.03)
        return self.fc(value)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        if self.fails:
            raise ValueError("bad sample")
        if self.checkpoints:
            value = torch.utils.checkpoint.checkpoint(self.part, value, use_reentrant=False)
        else:
            value = self.part(value)
        return Slow.apply(value)


class Nested(torch.nn.Module):
    """Calls one module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.inner(value)


def opened(folder: Path, model: Any = None, optimizers: Any = None, **config: Any) -> tuple[Any, Any, Any]:
    model = Sleeps() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if optimizers is None else optimizers
    given = {"targets": {}, "dynamic_on": True, "collect_times": 100, "wg_distribution": True, **config}
    folder.mkdir(exist_ok=True)
    path = write_config(folder / "config.json", **given)
    monitor = stepwatch.watch(model, optimizer, config=path, dynamic=True, output_dir=folder / "out")
    if given["dynamic_on"]:
        assert monitor.refresh(20) in ("armed", "unchanged")  # it may be armed already
    return monitor, model, optimizer


def step(model: Any, optimizer: Any, micro_batches: int = 1) -> None:
    for _ in range(micro_batches):
        model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def beats() -> dict[int, dict[str, Any]]:
    """Return the beats of ends of steps with a known duration, by step."""
    found = [line["beat"] for line in lines_of_job() if "beat" in line]
    return {beat["step"]: beat for beat in found if "step_seconds" in beat}


def check_sum(beat: dict[str, Any]) -> None:
    assert sum(beat.get(key, 0) for key in (*INNER, "data_seconds", "optimizer_seconds")) <= beat["step_seconds"] + 1e-8


def hooks_of(model: torch.nn.Module) -> int:
    return len(model._forward_hooks) + len(model._forward_pre_hooks)


def test_collected_steps_have_the_parts_summed_over_micro_batches(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for _ in range(4):
            step(model, optimizer, micro_batches=2)
        beat = beats()[3]
    assert beat[FORWARD_KEY] >= 2 * 0.03
    assert beat[BACKWARD_KEY] >= 2 * 0.05
    assert COMMUNICATION_KEY not in beat
    check_sum(beat)
    assert torch.autograd.Variable._execution_engine is ENGINE
    assert hooks_of(model) == 0


def test_a_step_that_is_not_collected_has_neither_parts_nor_hooks(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path, step_interval=2)
    with monitor:
        for _ in range(12):
            is_collected = monitor._session.collecting
            assert hooks_of(model) == (2 if is_collected else 0)
            assert (torch.autograd.Variable._execution_engine is ENGINE) != is_collected
            number = monitor.status()["step"]
            step(model, optimizer)
            if number in beats():
                assert all((key in beats()[number]) == is_collected for key in (FORWARD_KEY, BACKWARD_KEY))
        found = beats().values()
    assert {FORWARD_KEY in beat for beat in found} == {True, False}


def test_without_a_plan_nothing_is_measured_and_nothing_is_replaced(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path, dynamic_on=False)
    with monitor:
        for _ in range(3):
            step(model, optimizer)
            assert hooks_of(model) == 0
            assert torch.autograd.Variable._execution_engine is ENGINE
        assert not any(key in beat for beat in beats().values() for key in INNER)


def test_a_forward_that_a_checkpoint_repeats_is_part_of_the_backward(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    model.checkpoints = True
    with monitor:
        for _ in range(4):
            step(model, optimizer)
        beat = beats()[3]
    assert beat[FORWARD_KEY] >= 0.03
    assert beat[BACKWARD_KEY] >= 0.05 + 0.03
    check_sum(beat)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_root_that_is_checkpointed_as_a_whole_has_its_forward_once(
    tmp_path: Path, runtime: Path, reentrant: bool
) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for _ in range(4):
            given = torch.ones(2, 4, requires_grad=True)
            torch.utils.checkpoint.checkpoint(model, given, use_reentrant=reentrant).sum().backward()
            optimizer.step()
        beat = beats()[3]
    assert beat[FORWARD_KEY] >= 0.03
    assert beat[BACKWARD_KEY] >= 0.08
    check_sum(beat)


def test_a_forward_that_raises_ends_there(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for number in range(4):
            if number == 3:
                model.fails = True
                with pytest.raises(ValueError, match="bad sample"):
                    model(torch.ones(2, 4))
                model.fails = False
                time.sleep(0.2)
            step(model, optimizer)
        beat = beats()[3]
    assert 0.03 <= beat[FORWARD_KEY] <= beat["step_seconds"] - 0.25
    check_sum(beat)


def test_a_pass_that_raises_ends_there(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)

    def fail(_: torch.Tensor) -> None:
        raise ValueError("no memory")

    with monitor:
        for number in range(4):
            if number == 3:
                output = model(torch.ones(2, 4))
                output.register_hook(fail)
                with pytest.raises(ValueError, match="no memory"):
                    output.sum().backward()
                time.sleep(0.2)
            step(model, optimizer)
        beat = beats()[3]
    assert 0.05 <= beat[BACKWARD_KEY] <= beat["step_seconds"] - 0.26
    check_sum(beat)


def test_gradients_by_autograd_grad_are_backward_also_inside_a_forward(tmp_path: Path, runtime: Path) -> None:
    class Penalised(Sleeps):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            value = value.requires_grad_()
            result = super().forward(value)
            (gradient,) = torch.autograd.grad(result.sum(), value, create_graph=True)
            return result + gradient

    monitor, model, optimizer = opened(tmp_path, Penalised())
    with monitor:
        for _ in range(3):
            step(model, optimizer)
        beat = beats()[2]
    assert beat[FORWARD_KEY] >= 0.03
    assert beat[BACKWARD_KEY] >= 2 * 0.05
    check_sum(beat)


def test_an_evaluation_in_the_middle_of_a_step_is_no_forward(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for _ in range(3):
            model.eval()
            for _ in range(3):
                model(torch.ones(2, 4))
            model.train()
            step(model, optimizer)
        beat = beats()[2]
    assert 0.03 <= beat[FORWARD_KEY] <= beat["step_seconds"] - 0.09 - 0.05
    check_sum(beat)


def test_updates_in_the_pass_are_not_its_time(tmp_path: Path, runtime: Path) -> None:
    class Slowly(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            time.sleep(0.05)
            return super().step(closure)

    model = Sleeps()
    optimizers = {parameter: Slowly([parameter], lr=0.1) for parameter in model.parameters()}
    monitor, _, _ = opened(tmp_path, model, list(optimizers.values()))
    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(lambda given: optimizers[given].step())
    with monitor:
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
        beat = beats()[3]
    assert beat["optimizer_seconds"] >= 2 * 0.05
    assert beat[BACKWARD_KEY] >= 0.05
    check_sum(beat)


def test_the_number_of_the_program_holds(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for _ in range(3):
            stepwatch.report(backward_seconds=7.0)
            step(model, optimizer)
        beat = beats()[2]
    assert beat[BACKWARD_KEY] == 7.0
    assert beat[FORWARD_KEY] >= 0.03


@pytest.mark.parametrize("compiles", ["module.compile", "torch.compile"])
def test_compiled_models_are_timed_from_outside_and_not_compiled_again(
    tmp_path: Path, runtime: Path, compiles: str
) -> None:
    model: Any = mlp()
    if compiles == "module.compile":
        model.compile(backend="eager")
    else:
        model = torch.compile(model, backend="eager")
    monitor, _, optimizer = opened(tmp_path, model, step_interval=3)
    with monitor, torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(10):
            step(model, optimizer)
        found = [beat for beat in beats().values() if FORWARD_KEY in beat]
    assert found
    for beat in found:
        assert beat[BACKWARD_KEY] > 0
        check_sum(beat)


def test_a_model_compiled_while_a_step_is_collected_is_not_compiled_again(tmp_path: Path, runtime: Path) -> None:
    torch._dynamo.reset()  # other tests have left compiled code
    model = Nested()  # of a class of the user: see docs/formats/beats.md for those of torch.nn
    monitor, _, optimizer = opened(tmp_path, model, step_interval=3)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with monitor:
        while not monitor._session.collecting:
            step(model, optimizer)
        step(compiled, optimizer)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for _ in range(9):
                step(compiled, optimizer)


def test_several_monitors_measure_side_by_side_and_leave_the_engine_as_it_was(tmp_path: Path, runtime: Path) -> None:
    first, model, optimizer = opened(tmp_path / "first", step_interval=2)
    second, other, others = opened(tmp_path / "second", step_interval=3)
    for _ in range(8):
        step(model, optimizer)
        step(other, others)
    engine = torch.autograd.Variable._execution_engine
    assert engine is ENGINE or type(engine).__mro__[1] is type(ENGINE)
    first.close()
    second.close()
    assert torch.autograd.Variable._execution_engine is ENGINE


def test_weights_are_those_without_the_monitor(tmp_path: Path, runtime: Path) -> None:
    def trained(folder: Path | None) -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        monitor = opened(folder, model, optimizer)[0] if folder is not None else None
        for _ in range(20):
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        if monitor is not None:
            monitor.close()
        return list(model.parameters())

    assert all(torch.equal(one, other) for one, other in zip(trained(None), trained(tmp_path)))


# --- devices, with a fake torch.cuda: its clock is the number of milliseconds that a test has let pass ---


class FakeCuda:
    """Streams that have executed everything up to a time, which the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.executed = -1.0
        self.stream = "training"
        self.captures = False
        self.waited = 0
        cuda = self

        class Event:
            made = 0

            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing
                Event.made += 1

            def record(self, stream: str) -> None:
                self.at = cuda.now

            def query(self) -> bool:
                return self.at <= cuda.executed

            def elapsed_time(self, other: Any) -> float:
                return other.at - self.at

            def synchronize(self) -> None:
                cuda.waited += 1

        self.Event = Event

    def current_stream(self, device: Any) -> str:
        return self.stream

    def is_current_stream_capturing(self) -> bool:
        return self.captures


def parts_on(cuda: FakeCuda) -> DeviceParts:
    parts = DeviceParts(cuda)
    parts.set_device("cuda:0")
    return parts


def put_on_device(monitor: Any, cuda: FakeCuda) -> None:
    parts = monitor._attachment._parts
    parts.device._cuda = cuda
    parts.device.set_device("cuda:0")
    parts._way_to_measure = lambda devices: parts.device.enter if devices else None


def spend(parts: DeviceParts, cuda: FakeCuda, part: int, milliseconds: float) -> None:
    before = parts.enter(part)
    cuda.now += milliseconds
    parts.enter(before)


def test_times_of_a_device_are_read_when_it_has_come_so_far(tmp_path: Path) -> None:
    cuda = FakeCuda()
    parts = parts_on(cuda)
    for number in range(2):
        for _ in range(2):
            spend(parts, cuda, FORWARD, 10)
            outer = parts.enter(BACKWARD)
            cuda.now += 20
            spend(parts, cuda, COMMUNICATION, 5)
            cuda.now += 1
            parts.enter(outer)
            cuda.now += 100
        parts.end_step(number)
        assert parts.take() == []
    cuda.executed = cuda.now
    expected = {"forward_seconds": 0.02, "backward_seconds": 0.042, "communication_seconds": 0.01}
    assert [(number, pytest.approx(expected)) for number in range(2)] == [
        (number, dict(found)) for number, found in parts.take()
    ]
    assert parts.take() == []
    assert cuda.waited == 0


def test_events_are_used_again(tmp_path: Path) -> None:
    cuda = FakeCuda()
    parts = parts_on(cuda)
    for number in range(20):
        spend(parts, cuda, FORWARD, 1)
        parts.end_step(number)
        cuda.executed = cuda.now
        assert len(parts.take()) == 1
    assert cuda.Event.made == 2


def test_a_device_that_falls_behind_loses_the_oldest_times(tmp_path: Path) -> None:
    cuda = FakeCuda()
    parts = parts_on(cuda)
    for number in range(100):
        spend(parts, cuda, FORWARD, 1)
        parts.end_step(number)
    assert len(parts.under_way) < 20
    cuda.executed = cuda.now
    assert parts.take()[-1][0] == 99


def test_communication_on_a_stream_of_its_own_is_unknown_and_the_rest_is_known(tmp_path: Path) -> None:
    cuda = FakeCuda()
    parts = parts_on(cuda)
    before = parts.enter(FORWARD)
    spend(parts, cuda, COMMUNICATION, 1)
    cuda.stream = "communication"
    spend(parts, cuda, COMMUNICATION, 1)
    cuda.stream = "training"
    parts.enter(before)
    parts.end_step(0)
    cuda.executed = cuda.now
    assert dict(parts.take()[0][1]) == pytest.approx({"forward_seconds": 0.001})


@pytest.mark.parametrize("what", ["capture", "stream", "cut", "spoilt", "error"])
def test_a_step_whose_times_cannot_be_known_has_none_and_a_later_one_has(what: str) -> None:
    cuda = FakeCuda()
    parts = parts_on(cuda)
    cuda.captures = what == "capture"
    before = parts.enter(FORWARD)
    cuda.now += 1
    if what == "stream":
        cuda.stream = "another"
    if what == "error":
        cuda.current_stream = None  # type: ignore[assignment,method-assign]
    if what == "spoilt":
        parts.spoil()
    if what != "cut":
        parts.enter(before)
    parts.end_step(0)
    if what == "error":
        del cuda.current_stream
    cuda.captures, cuda.stream = False, "training"
    if what == "cut":
        parts.enter(before)
        spend(parts, cuda, FORWARD, 1)
        parts.end_step(1)
    spend(parts, cuda, FORWARD, 1)
    parts.end_step(2)
    cuda.executed = cuda.now
    assert [number for number, _ in parts.take()] == [2]


def test_a_model_on_a_device_is_timed_by_its_events_and_reported_late(tmp_path: Path, runtime: Path) -> None:
    cuda = FakeCuda()
    monitor, model, optimizer = opened(tmp_path)
    put_on_device(monitor, cuda)
    with monitor:
        for _ in range(4):
            step(model, optimizer)
            cuda.now += 1
        assert not any(key in beat for beat in beats().values() for key in INNER)
        cuda.executed = cuda.now
        step(model, optimizer)
        late = [line["beat"] for line in lines_of_job() if FORWARD_KEY in line.get("beat", {})]
    assert {beat["step"] for beat in late} >= {2, 3}
    assert all("step_seconds" not in beat and BACKWARD_KEY in beat for beat in late)


def test_an_update_in_a_pass_on_a_device_leaves_its_step_without_parts(tmp_path: Path, runtime: Path) -> None:
    cuda = FakeCuda()
    monitor, model, optimizer = opened(tmp_path)
    put_on_device(monitor, cuda)
    with monitor:
        for number in range(4):
            is_inside = number == 2
            output = model(torch.ones(2, 4))
            if is_inside:
                output.register_hook(lambda _: optimizer.step())
            output.sum().backward()
            if not is_inside:
                optimizer.step()
            cuda.executed = cuda.now
        late = [line["beat"]["step"] for line in lines_of_job() if FORWARD_KEY in line.get("beat", {})]
    assert 1 in late
    assert 2 not in late


# --- communication of two ranks ---

RANKS_JOB = """
import tempfile, time
from jobs import lines_of_job
from torch.distributed import distributed_c10d

with tempfile.TemporaryDirectory(prefix="sw") as directory:
    os.environ["STEPWATCH_RUNTIME_DIR"] = directory
    untouched = dist.all_reduce
    store = distributed_c10d._get_default_store()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = stepwatch.watch(model, optimizer, config="config.json", dynamic=False, output_dir="out")
    for step in range(4):
        output = model(torch.ones(5, 4)).pow(2).mean()
        if step == 3:
            if rank == 1:
                store.wait(["waits"])
                time.sleep(0.5)
            else:
                store.set("waits", "")
            if sys.argv[3] == "async":
                dist.all_reduce(torch.ones(3), async_op=True).wait()
            else:
                dist.all_reduce(torch.ones(3))
        output.backward()
        optimizer.step()
        optimizer.zero_grad()
    beats = [line["beat"] for line in lines_of_job() if "step_seconds" in line.get("beat", {})]
    print("beats", json.dumps({beat["step"]: beat for beat in beats}), flush=True)
    monitor.close()
    print("restored", dist.all_reduce is untouched, flush=True)
"""


@pytest.mark.parametrize("operator", ["blocking", "async"])
@pytest.mark.parametrize("observes", [False, True])
def test_the_wait_for_another_rank_is_communication(tmp_path: Path, operator: str, observes: bool) -> None:
    from rank_programs import run_ranks

    write_config(tmp_path / "config.json", targets={}, wg_distribution=True, cc_distribution={"enable": observes})
    printed = run_ranks(tmp_path, RANKS_JOB, operator)
    assert all("restored True" in text for text in printed), printed
    found = [json.loads(line[6:]) for text in printed for line in text.splitlines() if line.startswith("beats ")]
    waiting = found[0]
    assert waiting["3"][COMMUNICATION_KEY] >= 0.1
    assert COMMUNICATION_KEY not in waiting["2"]
    for beat in waiting.values():
        assert beat[BACKWARD_KEY] > 0
        check_sum(beat)


PLAN_JOB = """
untouched = dist.all_reduce
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = stepwatch.watch(model, optimizer, config="config.json", dynamic=False, output_dir="out")
seen = []
for _ in range(12):
    seen.append((monitor._session.collecting, dist.all_reduce is untouched))
    model(torch.ones(5, 4)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("seen", json.dumps(seen), flush=True)
monitor.close()
"""


def test_operators_are_wrapped_from_the_first_collected_step_to_the_end_of_the_plan(tmp_path: Path) -> None:
    from rank_programs import run_ranks

    write_config(tmp_path / "config.json", targets={}, wg_distribution=True, step_interval=2, collect_times=3)
    for text in run_ranks(tmp_path, PLAN_JOB):
        (line,) = (line for line in text.splitlines() if line.startswith("seen "))
        seen = json.loads(line[5:])
        collected = [number for number, (collecting, _) in enumerate(seen) if collecting]
        assert len(collected) == 3
        wrapped = [number for number, (_, untouched) in enumerate(seen) if not untouched]
        assert wrapped == list(range(collected[0], collected[-1] + 1))
