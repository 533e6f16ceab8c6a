"""The trainer to begin with: two ranks, a checkpoint and a stop by signals, resumption, the grammar of its lines."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import python_programs

pytest.importorskip("stepwatch", reason="the Python package is not installed")
torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRAINER = EXAMPLES / "monitored_ddp.py"
RANKS = 2
STOPPED = 128 + signal.SIGTERM
DEADLINE_SECONDS = 240

NUMBER = r"(?:-?\d+(?:\.\d+)?(?:e[+-]\d+)?|nan|-?inf)"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
STEP = re.compile(rf"{TIME} INFO \[rank(\d+)\] Step (\d+): (\w+={NUMBER}(?:, \w+={NUMBER})*)")
NAMES = ["loss", "grad_norm", "lr", "tokens", "samples", "step_seconds", "tokens_per_second"]
KEYS = {
    *("@timestamp", "log.level", "message", "ecs.version", "event.action", "service.name", "run.id", "rank"),
}
KEYS_OF_EPOCH = {
    *("step", "epoch", "average_loss", "eval_loss", "epoch_steps", "total_steps"),
    *("epoch_tokens", "total_tokens", "epoch_seconds", "total_seconds"),
}


def until(holds: Callable[[], Any], explain: Callable[[], object] = lambda: "") -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (value := holds()):
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)
    return value


class Job:
    """A job of two ranks, started as by a launcher of a cluster."""

    def __init__(self, place: Path, epochs: int) -> None:
        self.place = place
        text = place / "text.txt"
        text.write_text("to be or not to be, that is the question. " * 500)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = ["--output", str(place / "out"), "--text", str(text), "--epochs", str(epochs), "--log-interval", "5"]
        job = {"WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        self.ranks = []
        for rank in range(RANKS):
            variables = {**os.environ, **{name: str(value) for name, value in {**job, "RANK": rank}.items()}}
            with open(self.printed(rank), "w") as out:
                arguments = [str(TRAINER), *options]
                self.ranks.append(python_programs.start(arguments, place, variables, out, subprocess.STDOUT))

    def printed(self, rank: int) -> Path:
        return self.place / f"printed{rank}.txt"

    def explain(self) -> str:
        return "".join(self.printed(rank).read_text() for rank in range(RANKS))

    def lines(self, rank: int) -> list[str]:
        path = self.place / f"out/logs/rank{rank}.log"
        return path.read_text().splitlines() if path.exists() else []

    def events(self, rank: int, action: str) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.lines(rank) if line.startswith("{") and line.endswith("}")]
        return [event for event in events if event["event.action"] == action]

    def steps(self, rank: int) -> list[int]:
        return [int(match.group(2)) for match in map(STEP.fullmatch, self.lines(rank)) if match]

    def ends(self) -> list[int]:
        return [rank.wait(DEADLINE_SECONDS) for rank in self.ranks]

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


@pytest.fixture(scope="module")
def stopped_and_resumed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Job]:
    """Stop a job after a checkpoint by request, and finish it in a second one."""
    place = tmp_path_factory.mktemp("job")
    first = Job(place, epochs=200)
    try:
        until(lambda: first.steps(0) and first.steps(1), first.explain)
        before = len(first.events(0, "checkpoint_completed"))
        first.ranks[1].send_signal(signal.SIGUSR1)
        until(lambda: len(first.events(0, "checkpoint_completed")) > before, first.explain)
        assert (place / "out/checkpoint.pt").exists()
        at = first.steps(0)[-1]
        until(lambda: first.steps(0)[-1] > at, first.explain)
        first.ranks[0].send_signal(signal.SIGTERM)
        assert first.ends() == [STOPPED] * RANKS, first.explain()
    finally:
        first.kill()
    (stop,) = first.events(0, "training_stopped")
    state = torch.load(place / "out/checkpoint.pt", weights_only=True)
    assert state["step"] == stop["step"] + 1, "the checkpoint is of the last step"
    epochs = len(first.events(0, "epoch_completed"))
    second = Job(place, epochs + 2)
    try:
        assert second.ends() == [0] * RANKS, second.explain()
    finally:
        second.kill()
    return place, second


def test_both_ranks_stop_after_the_same_step_and_go_on_with_the_next(stopped_and_resumed: tuple[Path, Job]) -> None:
    _, job = stopped_and_resumed
    (stop,), (other,) = (job.events(rank, "training_stopped") for rank in range(RANKS))
    assert stop["step"] == other["step"]
    starts = job.events(0, "training_started")
    assert [event["message"].split(" of ")[0] for event in starts] == [
        "training starts at step 0",
        f"training starts at step {stop['step'] + 1}",
    ]
    for rank in range(RANKS):
        steps = job.steps(rank)
        assert steps == list(range(0, steps[-1] + 1, 5)), "each logged step is there once"
    (end,) = job.events(0, "training_completed")
    last = job.events(0, "epoch_completed")[-1]
    assert end["step"] == last["step"] == last["total_steps"] - 1
    assert last["total_tokens"] == last["total_steps"] * RANKS * 4 * 32


def test_the_model_learns_on_both_sides_of_the_stop(stopped_and_resumed: tuple[Path, Job]) -> None:
    _, job = stopped_and_resumed
    epochs = job.events(0, "epoch_completed")
    assert [event["epoch"] for event in epochs] == list(range(1, len(epochs) + 1))
    assert epochs[-1]["average_loss"] < epochs[0]["average_loss"] - 0.5
    assert epochs[-1]["eval_loss"] < epochs[0]["eval_loss"] - 0.5


def test_every_line_follows_the_grammar(stopped_and_resumed: tuple[Path, Job]) -> None:
    _, job = stopped_and_resumed
    for rank in range(RANKS):
        for line in job.lines(rank):
            if match := STEP.fullmatch(line):
                assert int(match.group(1)) == rank
                assert [pair.split("=")[0] for pair in match.group(3).split(", ")] == NAMES
                continue
            event = json.loads(line)
            wanted = {
                "epoch_completed": KEYS | KEYS_OF_EPOCH,
                "training_started": KEYS,
            }.get(event["event.action"], KEYS | {"step"})
            assert event.keys() == wanted
            assert re.fullmatch(TIME, event["@timestamp"]) and event["rank"] == rank and event["run.id"]
    printed = [line for line in job.printed(0).read_text().splitlines() if STEP.fullmatch(line) or line[:1] == "{"]
    assert printed == job.lines(0)[-len(printed) :], "rank 0 prints its lines"
    assert not any(map(STEP.fullmatch, job.printed(1).read_text().splitlines()))


def test_stepwatch_reads_the_lines_back(stopped_and_resumed: tuple[Path, Job]) -> None:
    from stepwatch import logs

    _, job = stopped_and_resumed
    for rank in range(RANKS):
        records = list(logs.parse(job.lines(rank)))
        assert {record.rank for record in records} == {rank}
        found = [record.progress for record in records if record.progress]
        steps = [progress for progress in found if not progress.is_evaluation]
        assert [progress.step for progress in steps] == job.steps(rank)
        written = [match.group(3) for match in map(STEP.fullmatch, job.lines(rank)) if match]
        for progress, text in zip(steps, written):
            numbers = {name: float(value) for name, value in (pair.split("=") for pair in text.split(", "))}
            assert {name: progress.numbers.get(name) for name in numbers} == numbers
        epochs = job.events(rank, "epoch_completed")
        evaluations = [progress for progress in found if progress.is_evaluation]
        assert [progress.step for progress in evaluations] == [event["step"] for event in epochs]
        assert [progress.numbers["eval_loss"] for progress in evaluations] == [event["eval_loss"] for event in epochs]


# --- the file of a rank ---


def rank_log(directory: Path, bytes_max: int, rank: int = 1) -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        from rank_log import RankLog
    finally:
        sys.path.remove(str(EXAMPLES))
    return RankLog(directory, rank, "run", bytes_max)


def test_a_full_file_is_renamed_and_four_are_kept(tmp_path: Path) -> None:
    log = rank_log(tmp_path / "logs", 1000)
    for step in range(100):
        log.progress(step, loss=1.5, tokens=128)
    names = ["rank1.log.3", "rank1.log.2", "rank1.log.1", "rank1.log"]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == sorted(names)
    texts = [(tmp_path / "logs" / name).read_text() for name in names]
    assert all(0 < len(text) <= 1000 and text.endswith("\n") for text in texts)
    steps = [int(match) for match in re.findall(r"Step (\d+):", "".join(texts))]
    assert steps == list(range(steps[0], 100))


def test_each_line_is_one_write_that_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rank_log(tmp_path, 10_000)
    writes: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: writes.append(data) or write(file, data))
    other = rank_log(tmp_path, 10_000)
    log.progress(1, loss=float("nan"), lr=1e-5, tokens=1 << 30)
    other.event("checkpoint_completed", "checkpoint of step 1 completed", step=1)
    log.progress(2, loss=float("-inf"))
    assert len(writes) == 3
    assert (tmp_path / "rank1.log").read_bytes() == b"".join(writes)
    assert b"] Step 1: loss=nan, lr=1e-05, tokens=1073741824\n" in writes[0]
    assert b"] Step 2: loss=-inf\n" in writes[2]


@pytest.mark.long
@pytest.mark.parametrize("launcher", [[], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]])
def test_torchrun_passes_a_stop_on(tmp_path: Path, launcher: Sequence[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 500)
    options = ["--output", str(tmp_path / "out"), "--text", str(text), "--epochs", "10000"]
    with open(tmp_path / "printed", "w") as out:
        job = subprocess.Popen([sys.executable, *launcher, str(TRAINER), *options], stdout=out, stderr=out)
    log = tmp_path / "out/logs/rank0.log"
    try:
        until(lambda: log.exists() and "] Step 10:" in log.read_text(), (tmp_path / "printed").read_text)
        job.terminate()
        assert job.wait(DEADLINE_SECONDS) != 0
    finally:
        job.kill()
        job.wait()
    assert '"training_stopped"' in log.read_text()
    assert (tmp_path / "out/checkpoint.pt").exists()
