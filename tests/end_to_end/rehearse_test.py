"""The real system while its config is edited: one story of each kind; tests/reload/traces.h has all traces.

No test sleeps for luck: an edit is made after a certain line, and the output after it is read line by line. All
numbers follow from the lines, not from the speed of the machine.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
from pathlib import Path

from rehearse_process import Rehearsal, save

FOREVER = "1000000"


def config(on: bool = True, **fields: object) -> str:
    """Return a config text with comments and odd spaces."""
    fields = {"wg_distribution": True, "collect_times": 2, **fields}
    body = ",\n".join(f"  {json.dumps(key)} :  {json.dumps(value)}" for key, value in fields.items())
    return f'{{ // one\n  "dynamic_on":{json.dumps(on)} , /* two */\n{body}\n}}\n'


def switched_off(text: str) -> str:
    return text.replace('"dynamic_on":true', '"dynamic_on":false')


def test_static_mode_counts_from_the_start_iteration(tmp_path: Path) -> None:
    text = config(step_interval=2)
    arguments = ("--steps", "6", "--step-time", "1ms", "--start-iteration", "1003")
    with Rehearsal(tmp_path, text, *arguments, dynamic=False) as run:
        assert run.finish() == 0
    assert run.collected() == run.row_steps("grad_reduced") == [1004, 1006]
    assert run.config.read_text() == text
    run.check_ledgers()


def test_an_edit_in_mid_training_is_collected_from_the_step_after_it(tmp_path: Path) -> None:
    with Rehearsal(tmp_path, config(on=False), "--steps", FOREVER, "--step-time", "5ms") as run:
        run.until_step(3)
        text = config(step_interval=2)
        save(run.config, text)
        run.until_event("armed")
        last_before = max(step["step"] for step in run.steps())
        first = run.until_event("applied")["step"]
        run.until_event("wrote_back")
        run.process.send_signal(signal.SIGINT)
        run.finish()
    # The line of step n is printed at its boundary: what is armed after it came during n + 1 and holds from n + 2 on.
    assert first in (last_before + 1, last_before + 2)
    assert run.collected() == run.row_steps("grad_unreduced") == [first, first + 2]
    assert run.config.read_text() == switched_off(text)
    run.check_ledgers()


def test_a_refused_edit_has_a_place_disturbs_nothing_and_is_reported_once(tmp_path: Path) -> None:
    good = config(collect_times=100000)
    with Rehearsal(tmp_path, good, "--steps", FOREVER, "--step-time", "5ms") as run:
        run.until_step(3)
        save(run.config, good.replace("true ,", "tru ,"))
        refused = run.until_event("refused")
        assert (refused["line"], refused["column"]) == (2, 16)
        save(run.config, good)
        run.until_event("restored")
        save(run.config, config(on=False))
        run.until_event("drained")
        run.process.send_signal(signal.SIGINT)
        run.finish()
    assert len(run.events("refused")) == 1 and len(run.events("applied")) == 1
    run.check_ledgers()


def test_grad_acc_gives_micro_steps(tmp_path: Path) -> None:
    text = config(xy_distribution=True, monitor_mbs_grad=True, collect_times=1)
    with Rehearsal(tmp_path, text, "--steps", "4", "--step-time", "1ms", "--grad-acc", "3", "--sites", "2") as run:
        assert run.finish() == 0
    assert sorted({row["micro_step"] for row in run.rows("actv")}) == ["0", "1", "2"]
    assert sorted({row["micro_step"] for row in run.rows("grad_unreduced")}) == ["0", "1", "2"]
    assert "micro_step" not in run.rows("grad_reduced")[0]


def test_two_rehearsals_of_one_config_give_the_same_rows(tmp_path: Path) -> None:
    rows = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        text = config(xy_distribution=True, ops=["norm", "mean", "min", "max", "zeros", "std"])
        with Rehearsal(tmp_path / name, text, "--steps", "5", "--step-time", "0") as run:
            assert run.finish() == 0
        rows.append([run.rows(kind) for kind in ("actv", "actv_grad", "grad_reduced")])
    assert rows[0] == rows[1] and rows[0][0]


def test_kill_9_leaves_whole_lines_up_to_a_page_and_a_config_that_is_one_of_its_versions(tmp_path: Path) -> None:
    text = config(xy_distribution=True, collect_times=100000, step_count_per_record=100000)
    with Rehearsal(tmp_path, text, "--steps", FOREVER, "--step-time", "100us", "--sites", "40") as run:
        run.until_step(300)
        run.process.send_signal(signal.SIGKILL)
        run.finish()
    assert run.config.read_text() == text
    files = list(run.out.glob("*/*.csv"))
    assert files
    for path in files:
        lines = path.read_text().splitlines(keepends=True)
        if not lines[-1].endswith("\n"):  # Linux looks for a kill between the pages of one write
            assert path.stat().st_size % os.sysconf("SC_PAGESIZE") == 0
            lines.pop()
        header, *rows = csv.reader(lines)
        assert rows and all(len(row) == len(header) for row in rows)


def test_a_random_series_of_edits_loses_nothing(tmp_path: Path) -> None:
    seed = int(os.environ["STEPWATCH_SEED"])
    print(f"repeat with --seed {seed} -k random_series")
    chance = random.Random(seed)
    edits = 0
    with Rehearsal(tmp_path, config(on=False), "--steps", FOREVER, "--step-time", "2ms") as run:
        while edits < 25:
            run.until_step((run.steps()[-1]["step"] if run.steps() else 0) + chance.randrange(1, 120))
            kind = chance.randrange(5)
            if kind == 0:
                save(run.config, config(on=False, targets={f"layers.{edits}": {}}))
            elif kind == 1:
                save(run.config, "{ broken " + str(edits))
            else:
                times, interval = chance.randrange(0, 30), chance.randrange(1, 4)
                save(run.config, config(collect_times=times, step_interval=interval, start_step=edits))
            edits += 1
        last = config(collect_times=3, start_step=999)
        save(run.config, last)
        run.until_event("armed")
        run.read_until(lambda line: line.get("event") == "wrote_back" and run.config.read_text() == switched_off(last))
        run.process.send_signal(signal.SIGINT)
        run.finish()
    run.check_ledgers()
    assert run.row_steps("grad_reduced") == run.collected()
    for event in run.events("finished"):
        assert len(run.collected(plan=event["plan"])) == event["collected_steps"]
    plans = [event["plan"] for event in run.events("applied")]
    assert plans == sorted(set(plans))
    assert len(run.collected(plan=plans[-1])) == 3
