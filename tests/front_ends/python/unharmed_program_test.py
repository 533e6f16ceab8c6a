"""A program with a monitor goes on and ends as it would without one, whatever happens around it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jobs import WG, mlp, names, rows, sgd_job, train, watched, write_config

import python_programs
import stepwatch
import torch

ENVIRONMENT = {**os.environ, "MSPROBE_LOG_LEVEL": "0"}
PROGRAM = """
import sys, torch, stepwatch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def steps(count):
    for _ in range(count):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
def watch():
    return stepwatch.watch(model, optimizer, sys.argv[1], dynamic=False, output_dir=sys.argv[2])
"""


def with_config(tmp_path: Path, program: str) -> list[str]:
    """Return the arguments of an interpreter that runs a program after what is above."""
    config = write_config(tmp_path / "config.json", wg_distribution=True)
    return ["-c", PROGRAM + program, str(config), str(tmp_path)]


def ends_well(arguments: list[str], stdout: int) -> bool:
    process = python_programs.start(arguments, env=ENVIRONMENT, stdout=stdout)
    try:
        return process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_pipe_that_nobody_reads_does_not_hold_training_up(tmp_path: Path) -> None:
    program = """
monitor = watch()
for _ in range(200):
    monitor._session.warn("x" * 2000)
steps(3)
monitor.close()
"""
    unread, full = os.pipe()
    try:
        assert ends_well(with_config(tmp_path, program), stdout=full)
    finally:
        os.close(full)
        os.close(unread)
    assert len(rows(tmp_path, "grad_reduced")) == 6


def test_without_standard_output_no_line_lands_in_a_file_of_the_program(tmp_path: Path) -> None:
    program = """
file = open(sys.argv[2] + "/checkpoint", "wb")
assert file.fileno() == 1
watch()
steps(3)
"""
    # Its interpreter begins without one, so it is never a fork.
    command = [sys.executable, *with_config(tmp_path, program)]
    ended = subprocess.run(command, env=ENVIRONMENT, stderr=subprocess.PIPE, timeout=60, preexec_fn=lambda: os.close(1))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "checkpoint").read_bytes() == b""


def test_an_interrupt_that_comes_while_a_hook_runs_reaches_the_program(tmp_path: Path) -> None:
    class Interrupts(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if armed and func.__name__ == "__get__":  # of an attribute, which the module asks for none of
                armed.clear()
                raise KeyboardInterrupt  # as from the handler of a signal
            return super().__torch_function__(func, types, args, kwargs or {})

    armed: list[bool] = []
    model, optimizer = sgd_job()
    with watched(tmp_path, model, optimizer, xy_distribution=True):
        sample = torch.ones(2, 4).as_subclass(Interrupts)
        armed.append(True)
        with pytest.raises(KeyboardInterrupt):
            model(sample)
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def test_exceptions_and_names_that_cannot_be_written_stop_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    class Odd(torch.nn.Linear):
        def register_forward_pre_hook(self, *_: Any, **__: Any) -> Any:
            raise Mute

        def register_forward_hook(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("not text: \udc80")

    model = torch.nn.Sequential()
    model.add_module("\udc80", Odd(4, 4))
    model.add_module("plain", torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path, model, optimizer, xy_distribution=True, wg_distribution=True, stack_info=True):
        train(model, optimizer, 2)
    assert "failed, rows are missing, training goes on" in capfd.readouterr().out
    assert names(tmp_path, "grad_reduced", 1) == {"\\udc80.weight", "\\udc80.bias", "plain.weight", "plain.bias"}
    assert names(tmp_path, "actv", 1) == {"plain.input", "plain.output", ".input", ".output"}


def test_lazy_parameters_are_watched_once_they_are_there(tmp_path: Path) -> None:
    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.LazyLinear(2)))
    with watched(tmp_path, model, optimizer, wg_distribution=True):
        train(model, optimizer, 3)
    assert len(rows(tmp_path, "grad_unreduced", 2)) == 4


def test_containers_that_hold_each_other_come_to_an_end(tmp_path: Path) -> None:
    class Tangled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[Any]:
            tangle: list[Any] = [x]
            tangle += [tangle] * 40
            return tangle

    model, optimizer = sgd_job(torch.nn.Sequential(torch.nn.Linear(4, 4), Tangled()))
    with watched(tmp_path, model, optimizer, xy_distribution=True, forward_only=True):
        model(torch.ones(2, 4))[0].sum().backward()
        optimizer.step()


def test_an_optimizer_whose_step_cannot_be_replaced_is_refused_by_name(tmp_path: Path) -> None:
    class Slotted:
        __slots__ = ()

        def step(self) -> None:
            pass

    with pytest.raises(TypeError, match="cannot follow the steps of Slotted"):
        watched(tmp_path, mlp(), Slotted(), **WG)


def test_a_program_that_changes_its_directory_keeps_its_config_and_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", "runs")
    write_config(tmp_path / "config.json", wg_distribution=True, dynamic_on=True)
    model, optimizer = sgd_job()
    with stepwatch.watch(model, optimizer, "config.json", dynamic=True) as monitor:
        assert monitor.refresh() in ("armed", "unchanged")
        train(model, optimizer, 2)
        monkeypatch.chdir("elsewhere")
        write_config(tmp_path / "config.json", param_distribution=True, dynamic_on=True)
        assert monitor.refresh() in ("armed", "unchanged")
        train(model, optimizer, 2)
    assert rows(tmp_path / "runs", "grad_reduced") and rows(tmp_path / "runs", "param_updated")
    assert list((tmp_path / "elsewhere").iterdir()) == []
