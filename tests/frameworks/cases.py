"""Starts the ranks of a case, and compares the rows of Stepwatch with those of the oracle."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import python_programs
from job import KINDS, Job
from oracle import MANGLED, clean, same

HERE = Path(__file__).parent
# Programs that import a file of tests look here.
PYTHONPATH = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
_TIMEOUT = 600
_HEAD_START = 10  # seconds that ranks get to end by themselves when one has failed


@dataclass
class Case:
    """A training under a framework.

    Attributes
    ----------
    name : str
    train : callable
        Trains with the `Job` that it is given.
    ranks, steps, micro_batches : int
    known : mapping
        What is missing today: a check ("exp_avg", "names", "bits", ...), or "edited exp_avg" for one mode, -> what is
        wrong. Such a test is expected to fail, and fails when it passes.
    kinds : list
        The kinds of which rows are expected.
    rtol : float
    environment : dict
        More variables for the processes, each of which then imports torch itself: torch reads some as it is imported.
    config : dict
        More keys for the config of each plan.
    runs_apart : bool
        The ranks do not wait for each other when the config is edited.
    shows : callable
        Given the name in a row: False if the config does not ask for it.
    silent : sequence of int
        Ranks that the config leaves out.
    names_of_torch : bool
        Names in rows are to hold what wrappers put in.
    """

    name: str
    train: Callable[[Job], None]
    ranks: int = 2
    steps: int = 14
    micro_batches: int = 1
    known: Mapping[str, str] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=lambda: list(KINDS))
    rtol: float = 1e-4
    environment: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    runs_apart: bool = False
    shows: Callable[[str], bool] = lambda name: True
    silent: Sequence[int] = ()
    names_of_torch: bool = False


class NotEndedError(Exception):
    """A run has failed, or hangs: never what a test expects."""


class Run:
    """The files that all runs of a case have left."""

    def __init__(self, case: Case, module: str, folder: Path) -> None:
        self.case = case
        self.folder = folder
        port = str(_free_port())
        _wait([self._start(module, rank, port) for rank in range(case.ranks)])

    def _start(self, module: str, rank: int, port: str) -> python_programs.Program:
        case = self.case
        arguments = [str(HERE / "worker.py"), module, case.name, str(rank), str(case.ranks), str(self.folder)]
        anew = bool(case.environment)
        with open(self.log(rank), "w") as out:
            environment = {**os.environ, **self._environment(rank, port)}
            return python_programs.start(arguments, self.folder, environment, out, subprocess.STDOUT, anew)

    def _environment(self, rank: int, port: str) -> dict[str, str]:
        return {
            "PYTHONPATH": PYTHONPATH,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.case.ranks),
            "LOCAL_WORLD_SIZE": str(self.case.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HOME": str(self.folder),
            **self.case.environment,
        }

    def log(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.log"

    def logs(self) -> str:
        return "\n".join(f"=== rank {rank}\n{self.log(rank).read_text()[-6000:]}" for rank in range(self.case.ranks))

    def result(self, mode: str, rank: int) -> dict[str, Any]:
        path = self.folder / f"{mode}-{rank}.result"
        if not path.exists():
            raise NotEndedError(f"rank {rank} has not ended its {mode} run:\n{self.logs()}")
        return json.loads(path.read_text())

    def right(self, rank: int, kind: str) -> dict[tuple[int, str, int, int], list[dict[str, float]]]:
        """Return the values of the oracle: (chunk, name, step, micro-step) -> the numbers, or several choices."""
        return {
            (chunk, name, step, micro): choices
            for of_kind, chunk, name, step, micro, choices in self.result("oracle", rank)["rows"]
            if of_kind == kind
        }

    def table(self, mode: str, rank: int, kind: str) -> list[dict[str, str]]:
        """Return the rows that Stepwatch has written."""
        self.result(mode, rank)
        rows: list[dict[str, str]] = []
        for file in sorted((self.folder / mode).glob(f"*-rank{rank}-*/{kind}_[0-9]*-*.csv")):
            with open(file, newline="") as text:
                rows += csv.DictReader(text)
        return rows

    def collected(self, mode: str, rank: int) -> list[tuple[int, int]]:
        """Return (first, last step) of each plan, by the manifest."""
        (manifest,) = (self.folder / mode).glob(f"*-rank{rank}-*/manifest.json")
        plans = json.loads(manifest.read_text())["plans"]
        assert all("last_step" in plan for plan in plans), f"a plan was never in force: {plans}\n{self.logs()}"
        return [(plan["first_step"], plan["last_step"]) for plan in plans]


_runs: dict[str, Run] = {}


@pytest.fixture
def run(request: pytest.FixtureRequest, case: Case, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the runs of a case, which are made once a session."""
    if case.name not in _runs:
        if "PYTEST_XDIST_WORKER" in os.environ:  # the folder of a worker is in that of the session
            (tmp_path_factory.getbasetemp().parent / f"{case.name}.begun").mkdir()  # fails in a second worker
        _runs[case.name] = Run(case, request.module.__name__, tmp_path_factory.mktemp(case.name))
    return _runs[case.name]


def _wait(processes: list[python_programs.Program]) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        if any(process.poll() for process in processes):
            deadline = min(deadline, time.monotonic() + _HEAD_START)
        time.sleep(0.05)
    for process in processes:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class CaseTests:
    """The tests of each case of a file; the file's own class names them."""

    cases: list[Case] = []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        checks = {
            "test_rows_are_those_of_the_oracle": lambda case: [
                (mode, kind) for mode in ("static", "edited") for kind in case.kinds
            ],
            "test_training_keeps_its_bits": lambda case: [(mode, "bits") for mode in ("static", "edited")],
            "test_all_ranks_collect_the_same_steps": lambda case: [(mode, "steps") for mode in ("static", "edited")],
            "test_nothing_goes_wrong_in_the_monitor": lambda case: [("static", "log")],
            "test_names_are_those_of_the_model": lambda case: [("static", "names")],
        }[metafunc.function.__name__]
        parameters = []
        for case in metafunc.cls.cases:
            for mode, check in checks(case):
                reason = case.known.get(f"{mode} {check}", case.known.get(check))
                marks = [pytest.mark.xdist_group(case.name)]  # whose runs are made once
                if reason:
                    marks.append(pytest.mark.xfail(strict=True, reason=reason, raises=AssertionError))
                parameters.append(pytest.param(case, mode, check, marks=marks, id=f"{case.name}-{mode}-{check}"))
        metafunc.parametrize(("case", "mode", "check"), parameters)

    def test_rows_are_those_of_the_oracle(self, run: Run, case: Case, mode: str, check: str) -> None:
        expected = 0
        for rank in range(case.ranks):
            if rank in case.silent:
                assert not run.table(mode, rank, check)
                continue
            first, last = window(run, mode, rank, check)
            right = {
                key: value
                for key, value in run.right(rank, check).items()
                if first <= key[2] <= last and case.shows(key[1])
            }
            expected += len(right)
            compare(right, run.table(mode, rank, check), (first, last), case.rtol, f"rank {rank}, {check}")
        assert expected, "the oracle knows of no row"

    def test_training_keeps_its_bits(self, run: Run, case: Case, mode: str, check: str) -> None:
        for rank in range(case.ranks):
            bare, oracle, watched = (run.result(each, rank) for each in ("bare", "oracle", mode))
            assert watched["losses"] == bare["losses"]
            assert watched["weights"] == bare["weights"]
            assert bare["losses"], "the case has no loss"
            assert oracle["losses"] == pytest.approx(bare["losses"], rel=1e-3), "the oracle changes the training"

    def test_nothing_goes_wrong_in_the_monitor(self, run: Run, case: Case, mode: str, check: str) -> None:
        run.result(mode, 0)
        log = "".join(run.log(rank).read_text() for rank in range(case.ranks))
        assert not re.search(r"\[ERROR\]|degraded", log), log

    def test_all_ranks_collect_the_same_steps(self, run: Run, case: Case, mode: str, check: str) -> None:
        plans = [run.collected(mode, rank) for rank in range(case.ranks) if rank not in case.silent]
        assert plans == plans[:1] * len(plans)
        steps = run.result("bare", 0)["steps"]
        if mode == "static":
            assert plans[0] == [(0, steps - 1)]
            return
        (first, before), (second, last) = plans[0]
        assert 0 < first <= before < second <= last == steps - 1

    def test_names_are_those_of_the_model(self, run: Run, case: Case, mode: str, check: str) -> None:
        names = {
            row["name"] for rank in range(case.ranks) for kind in case.kinds for row in run.table(mode, rank, kind)
        }
        assert names
        assert any(part in name for name in names for part in MANGLED) == case.names_of_torch


def window(run: Run, mode: str, rank: int, kind: str) -> tuple[int, int]:
    """Return the first and last step in which a kind has to have rows."""
    plans = run.collected(mode, rank)
    if mode == "static":
        return plans[0]
    return plans[0][0] if kind.startswith("grad_") else plans[-1][0], plans[-1][1]


def compare(
    right: dict[tuple[int, str, int, int], list[dict[str, float]]],
    table: list[dict[str, str]],
    steps: tuple[int, int],
    rtol: float,
    what: str,
) -> None:
    """Fail unless each row that there should be is there once, with the right numbers, and no other with numbers."""
    right = last_of_unsplit(right, table)
    wrong: list[str] = []
    seen = set()
    for row in table:
        key = (int(row["vpp_stage"]), _clean_cell(row["name"]), int(row["step"]), int(row.get("micro_step") or 0))
        found = {stat: _number(row[stat]) for stat in ("norm", "min", "max", "mean")}
        if key in seen:
            wrong.append(f"twice: {key}")
        if key in right:
            seen.add(key)
            if right[key] and not any(same(choice, found, rtol) for choice in right[key]):
                wrong.append(f"{key}: {found}, right would be {right[key]}")
        elif not (math.isnan(found["norm"]) or found["norm"] == 0):
            wrong.append(f"not expected: {key}: {found}")
    missing = [key for key, choices in right.items() if choices and key not in seen]
    assert not missing and not wrong, (
        f"{what}, steps {steps}: of {len(right)} rows {len(missing)} are missing, such as {missing[:8]}; "
        f"{len(wrong)} are wrong, such as " + "\n".join(wrong[:8])
    )


def last_of_unsplit(
    right: dict[tuple[int, str, int, int], list[dict[str, float]]], table: list[dict[str, str]]
) -> dict[tuple[int, str, int, int], list[dict[str, float]]]:
    """Keep the last micro-step where the files of these steps have no micro-steps."""
    unsplit = {int(row["step"]) for row in table if "micro_step" not in row}
    kept = {}
    for (chunk, name, step, micro), choices in sorted(right.items(), key=lambda item: item[0][3]):
        kept[chunk, name, step, 0 if step in unsplit else micro] = choices
    return kept


def _number(text: str) -> float:
    return float({"False": "0", "True": "1"}.get(text, text))  # of a mask


def _clean_cell(name: str) -> str:
    found = re.fullmatch(r"(.*)\.((?:input|output)(?:_\d+)?(?:@\d+)?)", name)
    return clean(name) if found is None else f"{clean(found[1])}.{found[2]}"
