"""The scorer, with programs that answer right, late, twice, with the wrong rank, or with garbage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import generate
import score
from scoring.match import Verdict
from scoring.tally import good_enough, tally

# Answers from the labels beside the trace, after a change that each test gives.
FAKE = """
import json, pathlib, sys
trace = pathlib.Path(sys.argv[2])
labels = json.loads((trace.parent / "labels.json").read_text())["traces"][trace.stem]
base = json.loads(trace.read_text().splitlines()[0])["t"]
def answer(number, label, state, at, **more):
    line = {"t": round(base + at, 3), "incident": label["kind"], "state": state, "run": label["run"],
            "ranks": label["ranks"], "since_step": label["since_step"], "id": f"i{number}", "severity": "critical",
            "evidence": {}}
    return {**line, **more}
lines = []
for number, label in enumerate(labels["incidents"]):
    lines.append(answer(number, label, "opened", label["onset"] + 1))
    if label["resolved"]:
        lines.append(answer(number, label, "resolved", label["recovers"] + 1))
lines.sort(key=lambda line: line["t"])
CHANGE
for line in lines:
    print(line if isinstance(line, str) else json.dumps(line))
"""
TRACE = "process_lost-killed_and_restarted-0"
HEALTHY = "healthy-plain-0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces")
    document: dict[str, Any] = {"traces": {}}
    for name in (TRACE, HEALTHY):
        document["traces"].update(generate.generate(path, "tune", only=name)["traces"])
    (path / "labels.json").write_text(json.dumps(document))
    return path


def verdict(folder: Path, change: str = "", name: str = TRACE) -> Verdict:
    program = folder / "fake.py"
    program.write_text(FAKE.replace("CHANGE", change))
    labels = json.loads((folder / "labels.json").read_text())["traces"][name]
    return score.verdict_of(program, folder / f"{name}.jsonl", labels)


def test_a_right_answer_has_no_complaint(folder: Path) -> None:
    judged = verdict(folder)
    assert judged.clean
    assert [(f.in_time, f.exact_kind, f.culprits, f.since_step, f.resolved) for f in judged.found] == [(True,) * 5]
    assert judged.found[0].delay == pytest.approx(1.0, abs=0.01)
    assert good_enough(tally([judged, verdict(folder, name=HEALTHY)]))


def test_an_answer_after_the_deadline_is_missed_and_extra(folder: Path) -> None:
    judged = verdict(folder, "lines = lines[:1]; lines[0]['t'] += 31")
    assert [label["kind"] for label in judged.missed] == ["process_lost"]
    assert len(judged.extra) == 1


def test_an_answer_after_the_promise_is_found_but_not_in_time(folder: Path) -> None:
    judged = verdict(folder, "lines = lines[:1]; lines[0]['t'] += 10")
    assert [f.in_time for f in judged.found] == [False]


def test_an_answer_whose_time_the_clock_showed_twice_may_mean_either(tmp_path: Path) -> None:
    """The clock is set back by 90 s after the fault, so that the answer's time was there before it, too."""
    name = "stuck-while_the_clock_is_set-0"
    generate.generate(tmp_path, "held_out", 3, name)
    answers = "lines = [answer(0, label, 'opened', label['onset'] + 6 - {})]"
    assert verdict(tmp_path, answers.format(90), name).clean
    assert not verdict(tmp_path, answers.format(150), name).clean


def test_an_answer_before_the_fault_is_a_false_alarm(folder: Path) -> None:
    judged = verdict(folder, "lines = lines[:1]; lines[0]['t'] -= 20")
    assert len(judged.false) == 1 and len(judged.missed) == 1


def test_a_second_incident_of_one_cause_is_extra(folder: Path) -> None:
    judged = verdict(folder, "lines.insert(1, {**lines[0], 'id': 'again', 'incident': 'stuck'})")
    assert [incident.kind for incident in judged.extra] == ["stuck"]
    assert tally([judged])["all"]["precision"] == 0.5


def test_a_wrong_rank_is_found_with_the_wrong_culprit(folder: Path) -> None:
    judged = verdict(folder, "lines[0]['ranks'] = [lines[0]['ranks'][0] + 1] + lines[0]['ranks']")
    assert [f.culprits for f in judged.found] == [False]
    assert not judged.clean


def test_peers_behind_the_culprit_are_welcome(folder: Path) -> None:
    judged = verdict(folder, "lines[0]['ranks'] = lines[0]['ranks'] + [77, 78]")
    assert [f.culprits for f in judged.found] == [True]


def test_an_incident_that_is_never_resolved_is_counted(folder: Path) -> None:
    assert [f.resolved for f in verdict(folder, "lines = lines[:1]").found] == [False]


def test_an_incident_may_become_of_another_kind(folder: Path) -> None:
    first = "lines[0]['incident'] = 'stuck'; lines[1]['state'] = 'updated'; lines[1]['t'] = lines[0]['t'] + 1"
    judged = verdict(folder, first)
    assert [f.exact_kind for f in judged.found] == [True]
    assert judged.found[0].delay == pytest.approx(2.0, abs=0.01)


def test_an_alarm_on_a_healthy_trace_is_not_good_enough(folder: Path) -> None:
    line = {
        "t": 'json.loads(trace.read_text().splitlines()[-1])["t"]',
        "run": "'r1'",
        "incident": "'stuck'",
        "state": "'opened'",
        "ranks": "[]",
        "since_step": "1",
        "id": "'x'",
        "severity": "'warning'",
        "evidence": "{}",
    }
    text = ", ".join(f"{key!r}: {value}" for key, value in line.items())
    judged = verdict(folder, f"lines = [{{{text}}}]", name=HEALTHY)
    assert len(judged.false) == 1
    assert not good_enough(tally([judged, verdict(folder)]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("lines = ['stuck!']", "not JSON"),
        ("lines = ['[1]']", "not an object"),
        ("lines[0].pop('evidence')", "without evidence"),
        ("lines[0]['incident'] = 'tired'", "incident is 'tired'"),
        ("lines[0]['state'] = 'closed'", "state is 'closed'"),
        ("lines[0]['severity'] = 'dire'", "severity is 'dire'"),
        ("lines[0]['run'] = 'r9'", "is not in the trace"),
        ("lines[0]['ranks'] = 3", "no list of ranks"),
        ("lines[0]['ranks'] = [1, 1]", "listed twice"),
        ("lines[0]['t'] = 'soon'", "t is no number"),
        ("lines[0]['since_step'] = 'ten'", "since_step is no integer"),
        ("lines = ['{\"t\": NaN}']", "not JSON"),
        ("lines.reverse()", "resolved before it was opened"),
        ("lines.append({**lines[0], 't': lines[1]['t']})", "opened twice"),
        ("lines.append(lines[1])", "resolved after it was resolved"),
        ("lines.append({**lines[0], 'id': 'j'})", "t falls back"),
        ("raise SystemExit(3)", "exit status 3"),
    ],
)
def test_an_answer_that_is_not_of_the_format_is_refused(folder: Path, change: str, complaint: str) -> None:
    judged = verdict(folder, change)
    assert complaint in judged.error
    assert not good_enough(tally([judged]))


def test_a_tolerated_incident_counts_neither_way(folder: Path) -> None:
    labels = json.loads((folder / "labels.json").read_text())["traces"][HEALTHY]
    labels["tolerated"] = [{"run": "r1", "kinds": ["gpu_fault"], "begin": 0.0, "end": None}]
    from scoring.answers import Incident
    from scoring.match import judge

    incidents = [
        Incident("a", "r1", 5.0, [(5.0, "gpu_fault")], [], 3),
        Incident("b", "r1", 6.0, [(6.0, "stuck")], [], 3),
    ]
    assert [incident.id for incident in judge(HEALTHY, labels, incidents).false] == ["b"]


@pytest.mark.parametrize("reference", ["internevo", "prometheus_rules", "median_mad"])
def test_the_references_answer_in_the_format(folder: Path, reference: str) -> None:
    program = Path(score.HERE) / "references" / f"{reference}.py"
    labels = json.loads((folder / "labels.json").read_text())["traces"]
    assert [score.verdict_of(program, folder / f"{name}.jsonl", labels[name]).error for name in labels] == ["", ""]


def test_figures_are_printed_and_the_exit_status_shows_whether_they_suffice(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = folder / "fake.py"
    program.write_text(FAKE.replace("CHANGE", ""))
    assert score.main([str(program), "--only", "process_lost-killed", "--json", "--keep", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["all"]["recall"] == 1.0
    program.write_text(FAKE.replace("CHANGE", "lines = []"))
    assert score.main([str(program), "--only", "process_lost-killed", "--keep", str(tmp_path)]) == 1
    assert "missed process_lost" in capsys.readouterr().out
