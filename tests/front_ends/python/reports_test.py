"""Reports of a training loop: numbers, phases, exceptions and signals, as the control socket returns them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from jobs import lines_of_job, mlp, sgd_job, train, write_config

import python_programs
import stepwatch
import torch

ROOT = Path(__file__).resolve().parents[3]


def opened(folder: Path, **config: Any) -> tuple[stepwatch.Watch, torch.nn.Module, torch.optim.Optimizer]:
    model, optimizer = sgd_job(lr=0.125)
    path = write_config(folder / "config.json", **{"targets": {}, "dynamic_on": False, **config})
    monitor = stepwatch.watch(model, optimizer, config=path, dynamic=True, output_dir=folder / "out")
    return monitor, model, optimizer


def beats() -> list[dict[str, Any]]:
    return [line["beat"] for line in lines_of_job() if "beat" in line]


def of_step(step: int) -> dict[str, Any]:
    """Return all that was reported in a step."""
    found: dict[str, Any] = {}
    for beat in beats():
        if beat["step"] == step:
            found.update(beat)
    return found


def test_numbers_belong_to_the_step_in_which_they_are_reported(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:

        def report(step: int) -> None:
            stepwatch.report(loss=torch.tensor(2.0 + step), tokens=4096, flag=True, nothing=None, half=1.5)

        train(model, optimizer, 3, before_step=report)
        for step in range(3):
            numbers = of_step(step)
            assert numbers["loss"] == 2.0 + step
            assert numbers["tokens"] == 4096
            assert numbers["flag"] == 1
            assert numbers["half"] == 1.5
            assert numbers["lr"] == 0.125  # of the optimizer
            assert "nothing" not in numbers
        stepwatch.report(loss=7, lr=0.5, step=1)
        assert of_step(1)["loss"] == 7
        assert of_step(1)["lr"] == 0.5


def test_numbers_that_are_not_finite_are_written_in_words(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        stepwatch.report(loss=float("nan"), a=torch.tensor(float("inf")), b=-float("inf"))
        train(model, optimizer, 1)
        numbers = of_step(0)
        assert (numbers["loss"], numbers["a"], numbers["b"]) == ("nan", "inf", "-inf")


def test_reports_never_raise(tmp_path: Path, runtime: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stepwatch.report(loss=1)  # before there is a monitor
    with stepwatch.phase("eval"), stepwatch.phase("no such phase"):
        pass
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        for _ in range(3):
            stepwatch.report(loss="high", c=10**400, object=object(), good=1)
            stepwatch.report(loss=torch.zeros(2))
            stepwatch.report(**{"n" * 60: 1, "phase": 2})
            with stepwatch.phase("evaluating"), stepwatch.phase("paused", expires=-1):
                pass
        train(model, optimizer, 1)
        assert of_step(0)["good"] == 1
        assert "loss" not in of_step(0)
    printed = "".join(capfd.readouterr())
    assert printed.count("loss is not a number") == 1
    assert printed.count("'evaluating'") == 1
    stepwatch.report(loss=1)  # after it


def test_phases_nest_and_are_restored_after_an_exception(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    with monitor:
        train(model, optimizer, 1)
        with pytest.raises(ValueError), stepwatch.phase("eval"), stepwatch.phase("paused", expires=60):
            raise ValueError
        phases = [
            line["beat"]["phase"] for line in lines_of_job() if "beat" in line and "step_seconds" not in line["beat"]
        ]
        assert phases[-4:] == ["eval", "paused", "eval", "train"]
        kinds = [line["event"]["kind"] for line in lines_of_job() if "event" in line]
        assert kinds == ["start", "pause", "resume"]

        @stepwatch.phase("checkpoint")
        def save(deep: int) -> None:
            if deep:
                save(deep - 1)

        save(2)
        assert beats()[-1]["phase"] == "train"


def test_with_several_monitors_the_first_one_gets_reports_and_each_can_be_named(
    tmp_path: Path, runtime: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, _, optimizer = opened(tmp_path / "a")
    second, _, _ = opened(tmp_path / "b")
    for _ in range(2):
        stepwatch.report(loss=1)
    second.report(loss=2)
    first.close()
    second.close()
    assert "".join(capfd.readouterr()).count("2 monitors") == 1


def sizes() -> list[float]:
    """Return the sizes of checkpoints in all beats."""
    return [beat["checkpoint_bytes"] for beat in beats() if "checkpoint_bytes" in beat]


def test_the_size_of_a_checkpoint_is_what_the_process_writes_in_its_phase(tmp_path: Path, runtime: Path) -> None:
    monitor, model, optimizer = opened(tmp_path)
    large = {"weights": torch.zeros(2**20)}
    with monitor:
        train(model, optimizer, 1)
        with stepwatch.phase("checkpoint"):
            torch.save(large, tmp_path / "large.pt")
        (size,) = sizes()
        assert abs(size - (tmp_path / "large.pt").stat().st_size) < 100_000
        assert beats()[-1]["phase"] == "train"
        # The size of these checkpoints stays unknown.
        with stepwatch.phase("eval"):
            torch.save(large, tmp_path / "results.pt")
        with stepwatch.phase("checkpoint"):
            (tmp_path / "written_later").write_text("metadata")
        with pytest.raises(OSError), stepwatch.phase("checkpoint"):
            torch.save(large, tmp_path / "cut.pt")
            raise OSError
        assert sizes() == [size]
        # The user knows better.
        stepwatch.report(checkpoint_bytes=5e9)
        train(model, optimizer, 1)
        with stepwatch.phase("checkpoint"):
            torch.save(large, tmp_path / "large.pt")
        assert sizes() == [size, 5e9]


def test_training_is_bit_equal_with_reports_and_phases(tmp_path: Path, runtime: Path) -> None:
    plain = mlp()
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.125), 4)
    monitor, model, optimizer = opened(tmp_path)
    with monitor:

        def report(step: int) -> None:
            with stepwatch.phase("eval"):
                stepwatch.report(loss=next(model.parameters()).sum())

        train(model, optimizer, 4, before_step=report)
    for a, b in zip(plain.parameters(), model.parameters()):
        assert torch.equal(a, b)


# --- programs of their own, which end ---

# A background process may have been started with some signals ignored.
PROGRAM = """
    import os, signal, sys, threading, time
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import torch, stepwatch
    before = {before}
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = stepwatch.watch(model, optimizer, config={config!r}, dynamic=True, output_dir={output!r})
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    {work}
"""


def run(tmp_path: Path, work: str, before: str = "None") -> subprocess.CompletedProcess[str]:
    config = write_config(tmp_path / "config.json", targets={}, dynamic_on=False)
    text = textwrap.dedent(PROGRAM).format(before=before, config=str(config), output=str(tmp_path / "out"), work=work)
    program = tmp_path / "program.py"
    program.write_text(text)
    return python_programs.run([str(program)], timeout=120)


PRINT = "[print('LINE', line) for line in map(__import__('json').dumps, stepwatch.jobs()[0].beats()['beats'])]"


def events_in(stdout: str) -> list[dict[str, Any]]:
    printed = [json.loads(line[5:]) for line in stdout.splitlines() if line.startswith("LINE")]
    return [line["event"] for line in printed if "event" in line]


def test_an_exception_that_ends_the_program_is_recorded_with_stack_and_fingerprint_and_ends_it_as_before(
    tmp_path: Path, runtime: Path
) -> None:
    # The hook of the program runs after ours, and asks the control socket while the process is still there.
    hook = f"lambda *a: ({PRINT}, print('HOOK', a[0].__name__))"
    prints = []
    for number in (1, 22):
        ended = run(
            tmp_path, f"def f():\n    raise ValueError('batch {number}')\nf()", f"setattr(sys, 'excepthook', {hook})"
        )
        assert ended.returncode == 1, ended.stderr
        assert "HOOK ValueError" in ended.stdout
        (event,) = [event for event in events_in(ended.stdout) if event["kind"] == "exception"]
        assert event["type"] == "ValueError"
        assert event["message"] == f"batch {number}"
        assert "in f" in event["stack"]
        assert event["step"] == 2
        prints.append(event["fingerprint"])
    assert prints[0] == prints[1]


@pytest.mark.parametrize(
    ("raised", "recorded"), [("ValueError('batch 7')", "ValueError"), ("SystemExit(1)", ""), ("KeyboardInterrupt", "")]
)
def test_an_exception_that_leaves_the_block_of_a_monitor_is_recorded_before_the_monitor_closes(
    tmp_path: Path, runtime: Path, raised: str, recorded: str
) -> None:
    work = (
        f"close = monitor.close\nmonitor.close = lambda: ({PRINT}, close())\n"
        f"try:\n    with monitor:\n        raise {raised}\nexcept BaseException as out:\n    print('OUT', repr(out))"
    )
    ended = run(tmp_path, work)
    assert ended.returncode == 0, ended.stderr
    assert f"OUT {raised.split('(')[0]}" in ended.stdout
    events = [event for event in events_in(ended.stdout) if event["kind"] == "exception"]
    assert [event["type"] for event in events] == ([recorded] if recorded else [])
    assert all("in <module>" in event["stack"] for event in events)


def test_an_exception_of_a_thread_is_recorded_and_the_program_goes_on(tmp_path: Path, runtime: Path) -> None:
    ended = run(
        tmp_path,
        f"thread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()\n{PRINT}\nprint('on')",
    )
    assert ended.returncode == 0, ended.stderr
    assert "on" in ended.stdout
    assert "ZeroDivisionError" in ended.stderr
    (event,) = [event for event in events_in(ended.stdout) if event["kind"] == "exception"]
    assert event["type"] == "ZeroDivisionError"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGHUP", "SIGABRT"])
def test_a_signal_ends_the_program_as_before(tmp_path: Path, runtime: Path, name: str) -> None:
    ended = run(tmp_path, f"os.kill(os.getpid(), signal.{name})\ntime.sleep(60)")
    assert ended.returncode == -getattr(signal, name)


def test_a_signal_ends_a_program_that_hangs_outside_of_python(tmp_path: Path, runtime: Path) -> None:
    # With the lock of the interpreter held, as in a collective that never comes back.
    work = "os.system(f'sleep 0.3 && kill {os.getpid()} &')\n__import__('ctypes').PyDLL(None).sleep(60)"
    begun = time.monotonic()
    ended = run(tmp_path, work)
    assert ended.returncode == -signal.SIGTERM
    assert time.monotonic() - begun < 55


def test_handlers_of_the_program_run_and_the_signal_is_recorded(tmp_path: Path, runtime: Path) -> None:
    before = "signal.signal(signal.SIGTERM, lambda *a: print('HANDLED', a[0]))"
    ended = run(tmp_path, f"os.kill(os.getpid(), signal.SIGTERM)\n{PRINT}", before)
    assert ended.returncode == 0, ended.stderr
    assert f"HANDLED {int(signal.SIGTERM)}" in ended.stdout
    assert {"kind": "signal", "number": int(signal.SIGTERM)} in events_in(ended.stdout)


def test_an_interrupt_is_python_s_keyboard_interrupt(tmp_path: Path, runtime: Path) -> None:
    work = f"try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    {PRINT}"
    ended = run(tmp_path, work)
    assert ended.returncode == 0, ended.stderr
    assert {"kind": "signal", "number": int(signal.SIGINT)} in events_in(ended.stdout)


def test_a_forked_child_reports_nothing_and_dies_as_it_would_have(tmp_path: Path, runtime: Path) -> None:
    work = textwrap.dedent(
        f"""
        child = os.fork()
        if child == 0:
            stepwatch.report(loss=66)
            with stepwatch.phase("eval"):
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
        {PRINT}
        """
    )
    ended = run(tmp_path, work)
    assert ended.returncode == 0, ended.stderr
    assert '"loss": 66' not in ended.stdout
    assert [event["kind"] for event in events_in(ended.stdout)] == ["start"]
    assert '"eval"' not in ended.stdout


def test_signals_are_left_alone_where_that_is_asked_for(tmp_path: Path, runtime: Path) -> None:
    os.environ["STEPWATCH_SIGNALS"] = "0"
    try:
        before = "signal.signal(signal.SIGTERM, lambda *a: print('HANDLED', a[0]))"
        ended = run(tmp_path, f"os.kill(os.getpid(), signal.SIGTERM)\n{PRINT}", before)
    finally:
        del os.environ["STEPWATCH_SIGNALS"]
    assert "HANDLED" in ended.stdout
    assert [event["kind"] for event in events_in(ended.stdout)] == ["start"]
