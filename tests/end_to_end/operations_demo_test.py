"""The demo of operations: a real job of two ranks fails in four ways beside one stepwatchd."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import python_programs
from build_tree import STEPWATCHD

pytest.importorskip("stepwatch", reason="the Python package is not installed")
pytest.importorskip("torch")

from operations_demo.__main__ import runtime_directory  # noqa: E402
from operations_demo.alerting import Alerting, Chat, are_installed  # noqa: E402
from operations_demo.faults import FAULTS, KILLED, LEAK, NAN, STOPPED, Fault  # noqa: E402
from operations_demo.incident_text import evidence_lines, table  # noqa: E402
from operations_demo.processes import Job, Stepwatchd, wait_for  # noqa: E402
from operations_demo.story import Outcome, Patience, Story, complaints  # noqa: E402
from operations_demo.watcher import Incident, Watcher  # noqa: E402

TOOLS = Path(__file__).resolve().parents[2] / "tools"
DEADLINE_SECONDS = 120
# A usual speed is known after eleven blocks, which here are of one second.
DETECTORS = {"detectors": {"pace": {"block_seconds": 1}}}
STEPS_BEFORE_LEAK = 260
PATIENCE = Patience(*[DEADLINE_SECONDS] * len(dataclasses.fields(Patience)))

needs_alerting = pytest.mark.skipif(
    not are_installed() and "STEPWATCH_REQUIRE_ALL" not in os.environ, reason="Prometheus or Alertmanager is missing"
)
needs_daemon = pytest.mark.skipif(not STEPWATCHD.exists(), reason=f"{STEPWATCHD} is not built")


class Nobody:
    """An audience that ignores every call."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


@dataclasses.dataclass
class Played:
    """The outcomes of the faults, all opened incidents, and the log of the culprit."""

    outcomes: dict[str, Outcome]
    incidents: list[Incident]
    log: str

    def of(self, fault: Fault) -> tuple[Outcome, Incident]:
        outcome = self.outcomes[fault.name]
        assert outcome.last is not None, self.log
        return outcome, outcome.last


class StartedJob(Job):
    """The job, whose ranks are started as other programs of tests are."""

    def start(self, command: list[str], log: Path, environment: dict[str, str]) -> Any:
        with log.open("ab") as out:
            rank = python_programs.start(command[1:], env=environment, stdout=out, stderr=subprocess.STDOUT)
        self._children.append(rank)
        return rank


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Return the story: all of it if a long test is among those of this run, otherwise its first and last fault."""
    chosen = [item for item in request.session.items if item.fspath == request.node.fspath]
    story = FAULTS if any(item.get_closest_marker("long") for item in chosen) else [NAN, KILLED]
    output = tmp_path_factory.mktemp("demo")
    early_leak = dataclasses.replace(LEAK, steps_before=STEPS_BEFORE_LEAK)
    faults = [early_leak if fault is LEAK else fault for fault in story]
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(runtime_directory(output))
        chat = stack.enter_context(Chat())
        alerting = Alerting(STEPWATCHD, output / "alerting", chat)
        settings = {**alerting.settings(), **DETECTORS}
        stepwatchd = stack.enter_context(Stepwatchd(STEPWATCHD, output, runtime, settings))
        wait_for(stepwatchd.answers, DEADLINE_SECONDS)
        stack.enter_context(alerting)
        wait_for(alerting.answer, DEADLINE_SECONDS)
        watcher = Watcher(stepwatchd)
        job = stack.enter_context(StartedJob(output, runtime))
        outcomes = Story(stepwatchd, job, watcher, Nobody(), PATIENCE, alerting, chat).play(faults)
        named = {outcome.fault.name: outcome for outcome in outcomes}
        wait_for(lambda: chat.of("chat") and alerting.series(), DEADLINE_SECONDS)
        yield Played(named, watcher.incidents(), job.log(1).read_text())


story = [needs_daemon, needs_alerting, pytest.mark.xdist_group("operations_demo")]


class TestStory:
    pytestmark = story

    def test_every_fault_is_noticed_as_what_it_is_and_nothing_else_opens(self, played: Played) -> None:
        assert complaints(list(played.outcomes.values()), played.incidents, are_delivered=True) == []

    def test_a_nan_is_reported_with_its_rank_and_its_step(self, played: Played) -> None:
        _, incident = played.of(NAN)
        first = re.search(r"step (\d+): the first bad batch", played.log)
        assert first is not None, played.log
        evidence = incident["evidence"]
        assert incident["since_step"] == int(first[1]) - 1
        assert (evidence["step"], evidence["value"]) == (int(first[1]), "nan")
        assert (evidence["ranks_first"], evidence["ranks_reporting"]) == ([1], 2)
        assert evidence["resolved_by"] == "recovery"

    @pytest.mark.long
    def test_a_stopped_rank_is_reported_by_the_state_of_its_process_and_with_its_stack(self, played: Played) -> None:
        outcome, incident = played.of(STOPPED)
        evidence = incident["evidence"]
        assert incident["since_step"] >= outcome.at_step
        assert (evidence["witness"], evidence["process_state"]) == ("process_state", "T")
        stacks = evidence["stacks_of_rank_1"]
        assert "job.py" in stacks or "not available" in stacks

    @pytest.mark.long
    def test_a_leak_is_a_drop_of_throughput_below_the_frozen_baseline_until_it_is_over(self, played: Played) -> None:
        _, incident = played.of(LEAK)
        evidence = incident["evidence"]
        assert 0 < evidence["rate"] < evidence["rate_baseline"]
        assert evidence["ratio"] < 0.85
        assert evidence["resolved_by"] == "recovery"

    def test_the_rank_that_was_killed_is_named_and_the_exception_of_its_peer_is_a_symptom(self, played: Played) -> None:
        outcome, incident = played.of(KILLED)
        evidence = incident["evidence"]
        assert incident["since_step"] >= outcome.at_step
        assert evidence["processes"] == 2
        assert any(symptom.startswith("exception of rank 0") for symptom in evidence["symptoms"]), evidence

    def test_evidence_and_table_are_for_people(self, played: Played) -> None:
        for outcome in played.outcomes.values():
            assert outcome.last is not None
            lines = evidence_lines(outcome.last)
            assert 1 <= len(lines) <= 3 and all(lines), outcome.last
        lines = table(list(played.outcomes.values()))
        assert [line.split("  ")[0] for line in lines[2:]] == list(played.outcomes)


def an_outcome(fault: Fault, **changes: Any) -> Outcome:
    incident = {"id": fault.name, "incident": fault.kind, "ranks": list(fault.ranks), "since_step": 7, **changes}
    return Outcome(fault, 7, 1.0, incident, incident, resolved_after=1.0)


def test_the_demo_complains_of_a_missed_misnamed_unresolved_or_unexplained_incident() -> None:
    right = an_outcome(STOPPED)
    assert complaints([right], [right.opened or {}]) == []
    assert "not noticed" in complaints([Outcome(NAN, 7)], [])[0]
    assert "noticed as straggler" in complaints([an_outcome(LEAK, incident="straggler")], [])[0]
    assert "culprits" in complaints([an_outcome(KILLED, ranks=[0, 1])], [])[0]
    assert "not resolved" in complaints([dataclasses.replace(right, resolved_after=None)], [])[0]
    other = {**(right.opened or {}), "id": "another"}
    assert "nothing was done that explains stuck" in complaints([right], [right.opened or {}, other])[0]


def processes_of(output: Path) -> list[str]:
    """Return the command lines of processes that have something to do with the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(output) in (text := path.read_text(errors="replace").replace("\0", " ")):
                found.append(text)
    return found


@needs_daemon
@needs_alerting
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "operations_demo", "--program", str(STEPWATCHD), "--output", str(output)]
    path = os.pathsep.join(filter(None, [str(TOOLS), os.environ.get("PYTHONPATH", "")]))
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any("two ranks train" in line for line in demo.stdout)
        assert len(processes_of(output)) == 6
        demo.send_signal(signal.SIGINT)
        assert demo.wait(DEADLINE_SECONDS) == 130
    assert processes_of(output) == []
