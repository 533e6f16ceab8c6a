"""csv2tb, csv2db and anomaly as commands: their results in TensorBoard's own reader, sqlite3 and json."""

from __future__ import annotations

import json
import math
import os
import pty
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from command_line import stepwatch
from rehearse_process import BINARY, Rehearsal

RUN = "Dec03_21-34-40-rank0-aaaaaaaa"


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    reader = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Ten steps in files of three, of a linear layer whose weight norm is 7.071068 at first."""
    run = tmp_path / "monitor_output" / RUN
    run.mkdir(parents=True)
    for begin in (0, 3, 6, 9):
        steps = [step for step in range(begin, begin + 3) if step < 10]
        actv = ["vpp_stage,name,step,micro_step,norm,nans,id,shape,dtype"]
        param = ["vpp_stage,name,step,norm,shape,dtype"]
        for step in steps:
            norm = "nan" if step == 4 else "inf" if step == 5 else f"{41.842655 - step}"
            actv.append(f'0,linear.output,{step},0,{norm},{int(step == 4)},nan,"[5, 4]",torch.float32')
            actv.append(f'1,linear.output_1,{step},1,0.5,0,nan,"[5, 4]",torch.float32')
            param.append(f'0,linear.weight,{step},{7.071068 + step / 1000},"[5, 10]",torch.float32')
        (run / f"actv_{begin}-{begin + 2}.csv").write_text("\n".join(actv) + "\n")
        (run / f"param_origin_{begin}-{begin + 2}.csv").write_text("\n".join(param) + "\n")
    return tmp_path / "monitor_output"


def test_tensorboard_reads_every_point_of_every_tag(base: Path, tmp_path: Path) -> None:
    done = stepwatch("csv2tb", "--monitor-path", base, "--output-dirpath", tmp_path / "tb", "--process-num", 2)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "tb/rank0").iterdir()) == ["actv", "param_origin"]
    actv = scalars(tmp_path / "tb/rank0/actv")
    assert sorted(actv) == sorted(
        f"{name}/{op}"
        for name in ("vp0:linear.output:micro0", "vp1:linear.output_1:micro1")
        for op in ("norm", "nans", "id")
    )
    norms = actv["vp0:linear.output:micro0/norm"]
    assert [step for step, _ in norms] == list(range(10))
    assert norms[0][1] == pytest.approx(41.842655, rel=1e-6)
    assert math.isnan(norms[4][1]) and norms[5][1] == math.inf
    assert actv["vp0:linear.output:micro0/nans"] == [(step, float(step == 4)) for step in range(10)]
    param = scalars(tmp_path / "tb/rank0/param_origin")
    assert param["vp0:linear.weight/norm"] == [
        (step, pytest.approx(7.071068 + step / 1000, rel=1e-6)) for step in range(10)
    ]


def test_files_of_a_real_run_are_converted_both_ways(tmp_path: Path) -> None:
    config = (
        '{"wg_distribution": true, "param_distribution": true, "xy_distribution": true, '
        '"ops": ["norm", "min"], "collect_times": 4}'
    )
    with Rehearsal(tmp_path, config, "--steps", "6", "--sites", "3", "--elements", "10", dynamic=False) as run:
        assert run.finish() == 0
    assert stepwatch("csv2tb", "--monitor-path", run.out, "--output-dirpath", tmp_path / "tb").returncode == 0
    (rows,) = run.out.glob("*/grad_reduced_0-0.csv")
    name = rows.read_text().splitlines()[1].split(",")[1]
    points = scalars(tmp_path / "tb/rank0/grad_reduced")[f"vp0:{name}/norm"]
    assert [step for step, _ in points] == [0, 1, 2, 3]
    assert points[0][1] == pytest.approx(float(rows.read_text().splitlines()[1].split(",")[3]))
    assert stepwatch("csv2db", "--data", run.out, "--db", tmp_path / "db").returncode == 0
    with sqlite3.connect(tmp_path / "db/monitor_data.trend.db") as database:
        (count,) = database.execute("SELECT count(*) FROM trend_data").fetchone()
    lines = sum(len(path.read_text().splitlines()) - 1 for path in run.out.glob("*/*.csv"))
    assert count == lines > 0


def test_options_have_both_spellings_and_errors_are_2(base: Path, tmp_path: Path) -> None:
    done = stepwatch(
        *("csv2tb", "--monitor_path", base, "--time_start", "Dec03_00-00-00", "--time_end", "Dec04_00-00-00"),
        *("--data_type_list", "param_origin,grad_reduced", "--output_dirpath", tmp_path / "tb"),
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "tb/rank0").iterdir()] == ["param_origin"]
    for bad in (
        ["--time-start", "Dec99_00-00-00"],
        ["--time-start", "Dec04_00-00-00", "--time-end", "Dec05_00-00-00"],
        ["--process-num", "0"],
        ["--data-type-list", "gradients"],
        ["--monitor-path", tmp_path / "missing"],
    ):
        refused = stepwatch("csv2tb", "--monitor-path", base, "--output-dirpath", tmp_path / "no", *bad)
        assert refused.returncode == 2 and len(refused.stderr) > 20, bad
    assert not (tmp_path / "no").exists()


def test_csv2db_has_the_options_of_data2db(base: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.json"
    mapping.write_text('{"linear": "fc"}')
    done = stepwatch(
        *("csv2db", "--db", tmp_path / "db", "--data", base, "--format", "monitor", "--mapping", mapping),
        *("--micro_step", "false", "--process_num", "4"),
    )
    assert done.returncode == 0, done.stderr
    database = sqlite3.connect(tmp_path / "db/monitor_data.trend.db")
    targets = database.execute("SELECT target_name, vpp_stage, micro_step FROM monitoring_targets").fetchall()
    assert targets == [("fc.output", 0, 0), ("fc.output_1", 1, 1), ("fc.weight", 0, 0)]
    assert database.execute("SELECT min_step, max_step, max_rank FROM global_stats").fetchall() == [(0, 9, 0)]
    assert database.execute("SELECT norm FROM trend_data WHERE step = 5 AND target_id = 1").fetchall() == [(1e9 + 1,)]
    database.close()
    assert stepwatch("csv2db", "--db", tmp_path / "db", "--data", base, "--format", "dump").returncode == 2
    mapping.write_text('{"linear": 1}')
    assert stepwatch("csv2db", "--db", tmp_path / "db", "--data", base, "--mapping", mapping).returncode == 2


def test_anomaly_sorts_prints_and_takes_both_names_of_the_step_list(tmp_path: Path) -> None:
    alarms = {}
    for step, call, tag, message in ((2, 1, "0:a/rank0/actv", "late"), (1, 5, "0:a/rank0/exp_avg", "early \x1b[33m")):
        entry = {"rank": 0, "step": step, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": call}
        alarms[f"{tag}_step_{step}_call_{call}"] = {**entry, "tag_name": tag, "message": message, "group_mates": [0]}
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0/anomaly.json").write_text(json.dumps(alarms))
    done = stepwatch("anomaly", "-d", tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == [
        "Top 8 anomalies are listed as follows:",
        "0: early \\x1b[33m",
        "1: late",
    ]
    assert list(json.loads((tmp_path / "anomaly_analyse.json").read_text())) == list(reversed(alarms))
    out = tmp_path / "out"
    out.mkdir()
    for option in ("-s", "--step", "--step_list"):
        assert "0: late" in stepwatch("anomaly", "-d", tmp_path, "-o", out, option, "[2, 3]").stdout
        assert len(json.loads((out / "anomaly_analyse.json").read_text())) == 1
    assert "0: late" in stepwatch("anomaly", "-d", tmp_path, "-s", "[2]").stdout
    for bad, text in ((["-k", "0"], "greater than 0"), (["-s", "5"], "resolvable list"), (["-s", "[1"], "resolvable")):
        refused = stepwatch("anomaly", "-d", tmp_path, *bad)
        assert refused.returncode == 2 and text in refused.stderr


def test_a_terminal_sees_a_bar_that_goes_away(base: Path, tmp_path: Path) -> None:
    many = "\n".join(f"0,w{i},0,1.5" for i in range(400000))
    (base / RUN / "grad_reduced_0-0.csv").write_text(f"vpp_stage,name,step,norm\n{many}\n")
    terminal, inside = pty.openpty()
    command = [str(BINARY), "csv2tb", "--monitor-path", str(base), "--output-dirpath", str(tmp_path / "tb")]
    with subprocess.Popen(command, stderr=inside, stdout=subprocess.DEVNULL) as process:
        os.close(inside)
        seen = b""
        try:
            while block := os.read(terminal, 4096):
                seen += block
        except OSError:  # the other end is closed
            pass
    os.close(terminal)
    assert process.returncode == 0
    assert b"converting [" in seen and seen.endswith(b"\r\x1b[K")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_conversion_leaves_the_old_result(base: Path, tmp_path: Path, how: signal.Signals) -> None:
    old = tmp_path / "tb/rank0/grad_reduced/events.out.tfevents.1.old"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    many = "\n".join(f"0,w{i},0,1.5" for i in range(800000))
    (base / RUN / "grad_reduced_0-0.csv").write_text(f"vpp_stage,name,step,norm\n{many}\n")
    command = [str(BINARY), "csv2tb", "--monitor-path", str(base), "--output-dirpath", str(tmp_path / "tb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not list((tmp_path / "tb").glob(".stepwatch-*")) and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(how)
        process.communicate()
    assert old.read_text() == "old"
    if how != signal.SIGKILL:
        assert process.returncode == 130
        assert [path.name for path in (tmp_path / "tb").iterdir()] == ["rank0"]
