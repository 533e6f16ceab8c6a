"""Call stacks of modules: the text that msProbe prints, kept without reading a file while training."""

from __future__ import annotations

import gc
import inspect
import linecache
import weakref
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

import torch
from stepwatch.hooks.stack_info import StackBook


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(
            x,
        )


def hooked(book: StackBook) -> torch.nn.Module:
    model = torch.nn.Sequential(Block(), torch.nn.ReLU(), torch.nn.Tanh())
    for name, module in model.named_modules():
        module.register_forward_hook(book.hook(name), with_kwargs=True)
    return model


def frames(text: str) -> list[str]:
    """Return `line of the file, function, source line` of each frame of this file."""
    found = []
    for frame in text.split("File ")[1:]:
        path, line, function = frame.split(", ")[:3]
        if path == __file__:
            found.append(f"{line} {function}:{frame.split(chr(10))[1].rstrip()}")
    return found


def line_of(source: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == source)


def test_a_stack_is_that_of_inspect_from_the_caller_of_the_hook() -> None:
    book = StackBook()
    expected = []

    def print_as_msprobe_does(*_: Any) -> None:
        for _, path, line, function, code, _ in inspect.stack()[1:]:
            if code:
                expected.append(f"File {path}, line {line}, in {function}, \n {code[0].strip()} \n")

    module = torch.nn.Linear(2, 2)
    # Both calls come from the line of torch that calls hooks.
    module.register_forward_hook(book.hook("linear"))
    module.register_forward_hook(print_as_msprobe_does)
    module(torch.ones(1, 2))
    assert book.rows() == [("linear", "".join(expected))]
    assert "torch/nn/modules/module.py" in expected[0]


def test_the_stack_of_an_inner_module_begins_at_its_call() -> None:
    book = StackBook()
    hooked(book)(torch.ones(1, 2))
    stack = frames(dict(book.rows())["0.linear"])
    assert stack[0] == f"line {line_of('return self.linear(')} in forward: return self.linear("
    assert stack[1].endswith("hooked(book)(torch.ones(1, 2))")


def test_modules_come_in_the_order_of_their_first_run_and_only_those_that_ran() -> None:
    book = StackBook()
    model = hooked(book)
    model[1](torch.ones(2))
    model[0](torch.ones(1, 2))
    model[1](torch.ones(2))
    assert [name for name, _ in book.rows()] == ["1", "0.linear", "0"]


def test_the_last_call_wins_in_evaluation_as_well() -> None:
    book = StackBook()
    model = hooked(book)
    model(torch.ones(1, 2))
    model.eval()
    model[2](torch.ones(1))  # the call that stays
    assert frames(dict(book.rows())["2"])[0].endswith("model[2](torch.ones(1))  # the call that stays")


def test_a_pre_hook_keeps_a_stack_too() -> None:
    book = StackBook()
    module = torch.nn.Linear(2, 2)
    module.register_forward_pre_hook(book.hook("linear"))
    module(torch.ones(1, 2))
    assert frames(book.rows()[0][1])[0].endswith("module(torch.ones(1, 2))")


def test_frames_without_source_are_left_out() -> None:
    book = StackBook()
    exec("model(torch.ones(1, 2))", {"model": hooked(book), "torch": torch})
    assert "<string>" not in book.rows()[0][1]


def test_no_file_is_read_before_the_rows_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    book = StackBook()
    model = hooked(book)
    reads = []
    monkeypatch.setattr(linecache, "getline", lambda path, line, *_: reads.append(path) or "source\n")
    model(torch.ones(1, 2))
    assert reads == []
    assert "".join(text for _, text in book.rows()).count("source") == len(reads) > 0


def test_a_stack_keeps_no_tensor_alive() -> None:
    book = StackBook()
    model = hooked(book)

    def run() -> weakref.ref[torch.Tensor]:
        x = torch.ones(1, 2)
        model(x)
        return weakref.ref(x)

    x = run()
    gc.collect()
    assert x() is None


def test_a_compiled_module_stays_one_graph() -> None:
    book = StackBook()
    model = hooked(book)
    x = torch.ones(1, 2)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), model(x))
