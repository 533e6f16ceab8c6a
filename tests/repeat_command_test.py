"""The command that repeats a failed test alone."""

from __future__ import annotations

from pathlib import Path

from repeat_command import given_variables, repeat_command

PYTHON, HERE = Path("/work/.venv/bin/python"), Path("/work")


def test_a_test_is_repeated_with_the_variables_and_options_of_its_run() -> None:
    given = {"STEPWATCH_BUILD": "build test", "STEPWATCH_SEED": "7", "STEPWATCH_RUNTIME_DIR": "/tmp/sw", "HOME": "/"}
    variables = given_variables(given)
    assert variables == {"STEPWATCH_BUILD": "build test"}
    line = repeat_command("tests/x_test.py::case[a b]", variables, ["--seed", "7"], PYTHON, HERE)
    assert line == "STEPWATCH_BUILD='build test' .venv/bin/python -m pytest 'tests/x_test.py::case[a b]' --seed 7"


def test_the_group_that_xdist_appends_is_no_part_of_the_name() -> None:
    def named(nodeid: str) -> str:
        return repeat_command(nodeid, {}, [], PYTHON, Path("/elsewhere")).rpartition(" ")[2]

    assert named("x_test.py::case@group") == "x_test.py::case"
    assert named("x_test.py::case[1]@group") == "'x_test.py::case[1]'"
    assert named("x_test.py::case[@]") == "'x_test.py::case[@]'"
