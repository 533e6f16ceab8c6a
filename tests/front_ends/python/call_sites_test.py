"""Calls picked by the lines that they come from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

import torch
from stepwatch.hooks.call_sites import CallSites


def never(*what: Any) -> None:
    raise AssertionError(what)


def function_in(path: str, name: str, body: str, **names: Any) -> Callable[..., Any]:
    """Define a function as if it stood in another file."""
    exec(compile(f"def {name}(*args):\n    return {body}\n", path, "exec"), names)
    return names[name]


def stack_of(call: Callable[[Callable[[], Any]], Any]) -> list[str]:
    """Return the frames of a call, up to the test."""
    sites = CallSites([], True, never)
    call(lambda: sites.wants("it"))
    (stack,) = sites.stacks()["it"]
    return stack


def test_without_patterns_every_call_is_wanted() -> None:
    assert CallSites([], False, never).wants("it")


def test_a_pattern_is_searched_in_the_frames_innermost_first() -> None:
    outer = function_in("/job/train.py", "train", "args[0](*args[1:])")
    inner = function_in("/job/reduce.py", "reduce_all", "args[0]()")

    def wanted(*patterns: str) -> bool:
        return outer(inner, functools.partial(CallSites(patterns, False, never).wants, "it"))

    assert wanted(r"reduce\.py\[2\]   reduce_all;/job/train\.py\[2\]   train;")
    assert wanted("nowhere", "^/job/reduce")
    assert not wanted("train.*reduce_all")
    assert not wanted("nowhere")


def test_only_the_first_1000_characters_are_searched() -> None:
    call = function_in("/job/far.py", "far", "args[0](*args[1:])")
    for number in range(3):
        call = functools.partial(function_in(f"/job/{'x' * 400}{number}.py", "near", "args[0](*args[1:])"), call)
    near = functools.partial(function_in("/job/" + "x" * 1000, "near", "args[0]()"))
    assert not call(near, functools.partial(CallSites(["far"], False, never).wants, "it"))


def test_a_pattern_that_does_not_compile_is_reported_once_and_finds_no_call() -> None:
    reported: list[tuple[str, str]] = []
    sites = CallSites(["(", "reported_once"], False, lambda *what: reported.append(what))
    assert sites.wants("it")
    assert sites.wants("it")
    assert [what for what, _ in reported] == ["the pattern '(' of cc_codeline"]
    assert not CallSites(["("], False, lambda *what: None).wants("it")


def test_frames_without_information_are_left_out() -> None:
    class Module(torch.nn.Module):
        def forward(self, call: Callable[[], Any]) -> Any:
            return call()

    hidden = ["/usr/lib/python3/multiprocessing/process.py", "/env/site-packages/debugpy/launcher.py"]
    calls = [function_in(path, "start", "args[0]()") for path in hidden]
    stack = stack_of(lambda call: calls[0](lambda: calls[1](lambda: Module()(call))))
    assert any(frame.endswith("   forward") for frame in stack)
    assert not any("module.py" in frame or "process.py" in frame or "launcher.py" in frame for frame in stack)
    mine = function_in("/job/multiprocessing_train.py", "start", "args[0]()")
    assert "/job/multiprocessing_train.py[2]   start" in stack_of(mine)


def test_distinct_stacks_are_kept_once_and_not_without_end() -> None:
    sites = CallSites(["nowhere"], True, never)
    for number in [*range(150), *range(150)]:
        assert not function_in(f"/job/{number}.py", "call", "args[0]('it')")(sites.wants)
    assert not sites.wants("other")
    assert [stack[0] for stack in sites.stacks()["it"]] == [f"/job/{number}.py[2]   call" for number in range(100)]
    assert sites.stacks()["other"][0][0].startswith(str(Path(__file__)) + "[")
