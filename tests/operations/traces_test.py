"""The corpus: the same lines from the same seed, and each label's fault is in its trace."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import generate
from references.replaying import number
from scoring.clock import Clock
from simulator.label import KINDS

# A line of a trace with its virtual second.
Lines = list[tuple[float, dict[str, Any]]]


def timed(texts: list[str]) -> Lines:
    result: Lines = []
    now, step, last = 0.0, 0.0, json.loads(texts[0])["t"]
    for text in texts:
        line = json.loads(text)
        now += line["t"] - last - step
        last = line["t"]
        event = line.get("event", {})
        step = event["seconds"] if event.get("kind") == "clock_step" else 0.0
        result.append((now, line))
    return result


def events(lines: Lines, run: str, kind: str) -> list[tuple[float, dict[str, Any]]]:
    return [(at, line) for at, line in lines if line["run"] == run and line.get("event", {}).get("kind") == kind]


def values(lines: Lines, run: str, name: str, begin: float, end: float) -> list[float]:
    found = []
    for at, line in lines:
        value = line.get("beat", {}).get(name) if line["run"] == run and begin < at <= end else None
        if value is not None:
            found.append(number(value))
    return [value for value in found if value is not None]


def window(label: dict[str, Any]) -> tuple[float, float]:
    end = label["recovers"] if label["recovers"] is not None else math.inf
    return label["onset"], end + 1.0


def is_in(label: dict[str, Any], lines: Lines) -> bool:
    """Return whether the fault that a label names can be seen in the lines."""
    return SEEN[label["kind"]](label, lines)


def no_step_ends(label: dict[str, Any], lines: Lines) -> bool:
    # The first beats of the standstill report the last step that ended.
    until = math.inf if label["recovers"] is None else label["recovers"]
    steps = values(lines, label["run"], "step", label["onset"] + 0.1, until)
    return max(steps, default=0) <= label["since_step"]


def a_process_goes(label: dict[str, Any], lines: Lines) -> bool:
    gone = events(lines, label["run"], "process_gone") + events(lines, label["run"], "end")
    return any(abs(at - label["onset"]) < 1.1 for at, _ in gone)


def an_exception_comes(label: dict[str, Any], lines: Lines) -> bool:
    return any(abs(at - label["onset"]) < 1.1 for at, _ in events(lines, label["run"], "exception"))


def memory_runs_out(label: dict[str, Any], lines: Lines) -> bool:
    counts = [(at, line["event"]["oom_kill"]) for at, line in events(lines, label["run"], "host")]
    rises = [at for (_, a), (at, b) in zip(counts, counts[1:]) if b > a]
    raised = events(lines, label["run"], "exception")
    words = ("emory", "bad_alloc", "OOM", "ALLOC_FAILED", "allocate")
    named = [at for at, line in raised if any(w in line["event"]["type"] + line["event"]["message"] for w in words)]
    return any(-1.1 < at - label["onset"] < 15 for at in rises + named)


def a_gpu_changes(label: dict[str, Any], lines: Lines) -> bool:
    changed = [
        at
        for at, line in events(lines, label["run"], "gpu")
        if line["event"]["field"] in ("xid", "ecc_uncorrected_total", "row_remap_failure") and line["event"]["value"]
    ]
    return any(abs(at - label["onset"]) < 1.1 for at in changed)


def not_finite(name: str) -> Any:
    return lambda label, lines: any(
        not math.isfinite(v) for v in values(lines, label["run"], name, label["onset"] - 0.01, label["promised"])
    )


def moves(name: str, by: float) -> Any:
    def check(label: dict[str, Any], lines: Lines) -> bool:
        begin, end = window(label)
        # So few that one which still falls has not fallen far over them, and enough for one that is noisy.
        usual = statistics.median(values(lines, label["run"], name, begin - 60, begin)[-15:])
        after = values(lines, label["run"], name, begin, min(end, label["deadline"]))
        return max(after) > by * usual if by > 1 else min(after) < by * usual

    return check


def slows_down(label: dict[str, Any], lines: Lines) -> bool:
    begin, end = window(label)
    starts = [at for at, _ in events(lines, label["run"], "restart") if at < begin]
    end = min(end, max(at for at, line in lines if "beat" in line))

    def rate(a: float, b: float) -> float:
        beats = [(at, line["beat"]) for at, line in lines if a < at <= b and line.get("beat", {}).get("step")]
        (first_at, first), (last_at, last) = beats[0], beats[-1]
        return (last["step"] - first["step"]) / (last_at - first_at) * last.get("tokens", 1)

    lead = max([begin * 0.2, *(at + 200 for at in starts)])
    return rate(begin + (end - begin) / 2, end) < 0.8 * rate(min(lead, begin - 60), begin)


def is_slower_than_peers(label: dict[str, Any], lines: Lines) -> bool:
    begin, end = window(label)
    end = min(end, begin + 600, lines[-1][0])
    own: dict[int, list[float]] = {}
    for at, line in lines:
        if "step_seconds" in line.get("beat", {}) and (begin + end) / 2 < at < end:
            own.setdefault(line["rank"], []).append(line["beat"]["step_seconds"])
    middle = {rank: statistics.median(times) for rank, times in own.items()}
    peers = statistics.median(value for rank, value in middle.items() if rank not in label["ranks"])
    return all(middle[rank] > 1.3 * peers for rank in label["ranks"])


def ranks_differ(label: dict[str, Any], lines: Lines) -> bool:
    return any(_differ_in(name, label, lines) for name in ("loss", "grad_norm", "lr", "param_norm"))


def _differ_in(name: str, label: dict[str, Any], lines: Lines) -> bool:
    begin, end = window(label)
    by_step: dict[int, dict[int, Any]] = {}
    for at, line in lines:
        if begin < at < end and name in line.get("beat", {}):
            by_step.setdefault(line["beat"]["step"], {})[line["rank"]] = line["beat"][name]
    culprit = label["ranks"][0] if label["ranks"] else 0
    odd = [v for v in by_step.values() if culprit in v and len(v) > 1 and v[culprit] not in _without(v, culprit)]
    return len(odd) >= 10 and all(len(set(_without(v, culprit))) == 1 for v in odd)


def _without(ranks: dict[int, Any], culprit: int) -> list[Any]:
    return [value for rank, value in ranks.items() if rank != culprit]


def no_checkpoint_comes(label: dict[str, Any], lines: Lines) -> bool:
    saved = [at for at, _ in events(lines, label["run"], "checkpoint")]
    before = [at for at in saved if at <= label["onset"]]
    usual = statistics.median(b - a for a, b in zip(before, before[1:]))
    return not any(label["onset"] < at < before[-1] + 2.5 * usual for at in saved)


SEEN = {
    "stuck": no_step_ends,
    "process_lost": a_process_goes,
    "exception": an_exception_comes,
    "out_of_memory": memory_runs_out,
    "gpu_fault": a_gpu_changes,
    "loss_nonfinite": not_finite("loss"),
    "grad_nonfinite": not_finite("grad_norm"),
    "loss_spike": moves("loss", 1.6),
    "divergence": moves("loss", 1.6),
    "grad_explosion": moves("grad_norm", 10),
    "grad_collapse": moves("grad_norm", 0.02),
    "throughput_drop": slows_down,
    "straggler": is_slower_than_peers,
    "rank_disagreement": ranks_differ,
    "checkpoint_overdue": no_checkpoint_comes,
}


@dataclass
class Looks:
    """The findings of one pass over a set, whose lines would not all fit into memory."""

    is_whole: bool
    traces: int = 0
    healthy: int = 0
    kinds: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    ill: list[str] = field(default_factory=list)
    unsorted: list[str] = field(default_factory=list)


# The first trace of each scenario, or all.
SETS = [
    pytest.param("-0", id="first", marks=pytest.mark.xdist_group("traces-first")),
    pytest.param("", id="all", marks=[pytest.mark.long, pytest.mark.xdist_group("traces-all")]),
]


@pytest.fixture(scope="module", params=SETS)
def corpus(request: pytest.FixtureRequest) -> Looks:
    looks = Looks(is_whole=not request.param)
    for name, texts, labels in generate.traces("tune", only=request.param):
        lines = timed(texts)
        looks.traces += 1
        looks.healthy += not labels["incidents"]
        looks.kinds += [label["kind"] for label in labels["incidents"]]
        looks.absent += [f"{name}: {label['kind']}" for label in labels["incidents"] if not is_in(label, lines)]
        if not labels["incidents"] and looks_ill(lines):
            looks.ill.append(name)
        if any(b < a - 1e-6 for (a, _), (b, _) in zip(lines, lines[1:])):
            looks.unsorted.append(name)
    return looks


def looks_ill(lines: Lines) -> bool:
    """Return whether a process goes in mid-run, an exception comes or a loss is not finite."""
    ended: dict[str, bool] = {}
    for _, line in lines:
        kind = line.get("event", {}).get("kind")
        if kind in ("start", "restart", "end"):
            ended[line["run"]] = kind == "end"
        elif kind == "signal" and "rank" not in line and "rank" not in line["event"]:
            # Somebody has asked all of them to end.
            ended[line["run"]] = True
        if kind == "exception" or (kind == "process_gone" and not ended[line["run"]]):
            return True
        if line.get("beat", {}).get("loss") in ("nan", "inf", "-inf"):
            return True
    return False


def test_the_same_seed_gives_the_same_lines_and_another_seed_gives_others() -> None:
    first = list(generate.traces("tune", only="stuck-stopped_rank-"))
    assert first == list(generate.traces("tune", only="stuck-stopped_rank-"))
    assert [lines for _, lines, _ in first] != [
        lines for _, lines, _ in generate.traces("tune", seed=1, only="stuck-stopped_rank-")
    ]


def test_the_two_sets_have_no_trace_in_common() -> None:
    tune = {tuple(lines) for _, lines, _ in generate.traces("tune", only="loss_spike")}
    assert not tune & {tuple(lines) for _, lines, _ in generate.traces("held_out", only="loss_spike")}


def test_a_set_has_all_kinds_eight_times_and_eighty_healthy_traces(corpus: Looks) -> None:
    kinds, healthy, traces = (8, 80, 230) if corpus.is_whole else (1, 8, 23)
    assert {kind: corpus.kinds.count(kind) for kind in KINDS if corpus.kinds.count(kind) < kinds} == {}
    assert corpus.healthy >= healthy
    assert corpus.traces >= traces


def test_each_labels_fault_is_in_its_trace(corpus: Looks) -> None:
    assert corpus.absent == []


def test_a_healthy_trace_loses_no_process_in_mid_run_and_keeps_a_finite_loss(corpus: Looks) -> None:
    assert corpus.ill == []


def test_lines_are_sorted_but_where_the_clock_is_set(corpus: Looks) -> None:
    assert corpus.unsorted == []


def test_each_recorded_traces_fault_is_in_it() -> None:
    recorded = Path(generate.__file__).parent / "recorded"
    for name, labels in labels_of(recorded).items():
        lines = timed((recorded / f"{name}.jsonl").read_text().splitlines())
        assert all(is_in(label, lines) for label in labels["incidents"]), name
    assert {path.stem for path in recorded.glob("*.jsonl")} == set(labels_of(recorded))


def labels_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "labels.json").read_text())["traces"]


def test_a_clock_finds_the_second_in_which_it_showed_a_time_again() -> None:
    texts = [
        '{"t":100,"run":"r","event":{"kind":"start"}}',
        '{"t":160,"run":"r","event":{"kind":"clock_step","seconds":-50}}',
        '{"t":120,"run":"r","event":{"kind":"end"}}',
    ]
    clock = Clock(texts)
    assert clock.virtual(130, not_before=0) == 30
    assert clock.virtual(130, not_before=0, latest=True) == 80
    assert clock.virtual(130, not_before=60) == 80
    assert clock.virtual(200, not_before=60) == 150
