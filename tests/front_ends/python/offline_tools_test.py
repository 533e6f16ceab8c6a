"""The offline tools from Python: the arguments of either generation, exceptions, rules and order of alarms."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from stepwatch import anomaly_processor as alarms  # noqa: E402
from stepwatch.csv2db import CSV2DBConfig, csv2db, get_target_output_dir, import_data  # noqa: E402
from stepwatch.csv2tb import csv2tensorboard_by_step  # noqa: E402

RUN = "Dec03_21-34-40-rank0-aaaaaaaa"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    run = tmp_path / "monitor_output" / RUN
    run.mkdir(parents=True)
    (run / "grad_reduced_0-4.csv").write_text("vpp_stage,name,step,norm\n0,fc.weight,0,0.523935\n0,fc.weight,1,0.5\n")
    (run / "param_origin_0-4.csv").write_text("vpp_stage,name,step,norm\n0,fc.weight,0,7.071068\n")
    return tmp_path / "monitor_output"


def test_csv2tb_refuses_a_range_that_ends_before_it_begins(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="time_start Dec04_00-00-00 is after time_end Dec03_00-00-00"):
        csv2tensorboard_by_step(base, "Dec04_00-00-00", "Dec03_00-00-00", output_dirpath=tmp_path / "tb")
    assert not (tmp_path / "tb").exists()
    csv2tensorboard_by_step(base, "Dec03_21-34-40", "Dec03_21-34-40", output_dirpath=tmp_path / "tb")
    assert (tmp_path / "tb").exists()


def test_csv2tb_converts_and_prints_the_place(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv2tensorboard_by_step(
        base, "Dec03_00-00-00", "Dec04_00-00-00", 2, ["grad_reduced"], output_dirpath=tmp_path / "tb"
    )
    (events,) = (tmp_path / "tb").rglob("*tfevents*")
    assert events.parent == tmp_path / "tb/rank0/grad_reduced"
    assert str(tmp_path / "tb") in capsys.readouterr().out


def test_csv2tb_expands_the_home_directory(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(base.parent))
    csv2tensorboard_by_step("~/monitor_output", output_dirpath="~/tb")
    assert (base.parent / "tb/rank0").is_dir()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"process_num": 0}, ValueError),
        ({"process_num": True}, ValueError),
        ({"process_num": 129}, ValueError),
        ({"data_type_list": "actv"}, ValueError),
        ({"data_type_list": ["gradients"]}, ValueError),
        ({"time_start": "Decc1_00-00-00"}, ValueError),
        ({"time_start": "Jan01_00-00-00", "time_end": "Jan02_00-00-00"}, FileNotFoundError),
    ],
)
def test_csv2tb_refuses_what_it_cannot_use(base: Path, tmp_path: Path, arguments: dict, kind: type) -> None:
    with pytest.raises(kind):
        csv2tensorboard_by_step(base, output_dirpath=tmp_path / "tb", **arguments)
    assert not (tmp_path / "tb").exists()


def test_a_duplicate_is_a_value_error_with_file_and_line(base: Path, tmp_path: Path) -> None:
    path = base / RUN / "grad_reduced_0-4.csv"
    path.write_text(path.read_text() + "0,fc.weight,1,0.5\n")
    with pytest.raises(ValueError, match=f"{path}, line 4"):
        csv2tensorboard_by_step(base, output_dirpath=tmp_path / "tb")


def rows(database: Path) -> list[tuple]:
    connection = sqlite3.connect(database)
    found = connection.execute("SELECT rank, step, metric_id, norm FROM trend_data").fetchall()
    connection.close()
    return found


def test_csv2db_takes_the_directories_of_ranks(base: Path, tmp_path: Path) -> None:
    assert get_target_output_dir(base, "Dec31_00-00-00", "Jan01_00-00-00") == {}
    directories = get_target_output_dir(base)
    assert directories == {"0": str(base / RUN)}
    config = CSV2DBConfig(directories, 2, tmp_path / "x.db", micro_step=False, mapping={"fc": "linear"})
    assert import_data(config) is True
    assert rows(tmp_path / "x.db") == [(0, 0, 1, 0.523935), (0, 0, 2, 7.071068), (0, 1, 1, 0.5)]


def test_csv2db_takes_an_output_base_as_it_used_to(base: Path, tmp_path: Path) -> None:
    config = CSV2DBConfig(
        monitor_path=str(base),
        time_start="Dec03_21-34-40",
        time_end="Dec03_21-34-42",
        process_num=8,
        data_type_list=["param_origin"],
        step_partition=500,
        output_dirpath=str(tmp_path / "out"),
    )
    csv2db(config)
    assert rows(tmp_path / "out/monitor_metrics.db") == [(0, 0, 1, 7.071068)]
    csv2db(CSV2DBConfig(base))
    (database,) = base.glob("*_csv2db/monitor_metrics.db")
    assert len(rows(database)) == 3


def test_an_import_without_files_is_false_and_a_failure_raises(base: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert import_data(CSV2DBConfig({0: tmp_path / "empty"}, db_file=tmp_path / "x.db")) is False
    assert not (tmp_path / "x.db").exists()
    with pytest.raises(ValueError, match="db_file"):
        import_data(CSV2DBConfig({0: base / RUN}))
    (tmp_path / "x.db").mkdir()
    with pytest.raises(ValueError, match="directory"):
        import_data(CSV2DBConfig({0: base / RUN}, db_file=tmp_path / "x.db"))
    with pytest.raises(RuntimeError):
        import_data(CSV2DBConfig({0: base / RUN}, db_file="/proc/x.db"))
    with pytest.raises(TypeError):
        CSV2DBConfig({0: base / RUN}, unknown=1)


def test_rules_hit_as_documented() -> None:
    turbulence, nan = alarms.AnomalyScanner.load_rules(
        [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}}, {"rule_name": "AnomalyNan"}]
    )
    scan = alarms.AnomalyScanner.scan
    assert scan([turbulence, nan], 1.0, 1.6) == (True, "AnomalyTurbulence")
    assert scan([turbulence, nan], 1.0, -1.6) == (True, "AnomalyTurbulence")
    assert scan([turbulence, nan], 1.0, 1.5) == (False, None)
    assert scan([turbulence, nan], 1.0, 0.1) == (False, None)
    assert scan([turbulence, nan], 1.0, math.nan) == (True, "AnomalyNan")
    assert alarms.AnomalyNan(10).apply(11) and not alarms.AnomalyNan(10).apply(-10)


def test_unusable_rules_are_left_out() -> None:
    load = alarms.AnomalyScanner.load_rules
    assert load([{"rule_name": "Unknown"}, {"rule_name": "AnomalyTurbulence"}, {"rule_name": "AnomalyNan", "args": {}}])
    assert len(load([{"rule_name": "AnomalyTurbulence", "args": {"t": 1}}])) == 0
    assert load(None) == []


def alarm(step: int, tag: str, *, vpp: int = 0, pp: int = 0, call: int = 0) -> alarms.GradAnomalyData:
    return alarms.GradAnomalyData(
        rank=0, step=step, pp_stage=pp, vpp_stage=vpp, call_id=call, tag_name=f"{vpp}:a/rank0/{tag}", message=tag
    )


ORDERED = [
    alarm(1, "param_origin", call=-1),
    alarm(1, "actv", pp=0, call=9),
    alarm(1, "actv", pp=1, call=2),
    alarm(1, "actv", vpp=1, call=1),
    alarm(1, "post_grad", vpp=1),
    alarm(1, "actv_grad", pp=1),
    alarm(1, "acc_grad", pp=0),
    alarm(1, "exp_avg_sq", call=3),
    alarm(1, "exp_avg", call=4),
    alarm(2, "actv"),
]


def test_alarms_order_as_a_training_step_goes() -> None:
    assert sorted(reversed(ORDERED)) == ORDERED
    assert ORDERED[0] < ORDERED[1] <= ORDERED[2]
    assert alarm(1, "actv") == alarms.GradAnomalyData(step=1, tag_name="other", message="m", group_mates=[3])
    analyse = alarms.AnomalyAnalyse()
    shuffled = ORDERED[5:] + ORDERED[:5]
    assert analyse.get_range_top_k(3, [], shuffled) == ORDERED[:3]
    assert analyse.get_range_top_k(99, [2], shuffled) == ORDERED[-1:]


def test_the_module_sorts_as_its_classes_do(tmp_path: Path) -> None:
    writer = alarms.AnomalyDataWriter(str(tmp_path), 0)
    writer.init_detected_json()
    writer.write_detected_json(reversed(ORDERED))
    command = [sys.executable, "-m", "stepwatch.anomaly_processor", "-d", str(tmp_path), "-k", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Top 4 anomalies are listed as follows:" in done.stdout
    by_module = json.loads((tmp_path / "anomaly_analyse.json").read_text())
    analyse = alarms.AnomalyAnalyse()
    analyse.get_range_top_k(4, [], alarms.AnomalyDataLoader(str(tmp_path)).get_anomalies_from_jsons())
    analyse.rewrite_sorted_anomalies(str(tmp_path))
    assert list(by_module.items()) == list(json.loads((tmp_path / "anomaly_analyse.json").read_text()).items())


@pytest.mark.parametrize("module", ["stepwatch.anomaly_processor", "stepwatch.core.monitor.anomaly_processor"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-d", ".", "-k", "0"], "The top k number must be greater than 0."),
        (["-d", ".", "--step_list", "5"], "The step list must be a resolvable list type."),
        (["-d", ".", "--step", "['a']"], "The step list must be a resolvable list type."),
        (["-d", "missing"], "the directory missing does not exist"),
    ],
)
def test_arguments_that_the_module_cannot_use_give_one_line_and_an_exit_code(
    tmp_path: Path, module: str, arguments: list[str], text: str
) -> None:
    command = [sys.executable, "-m", module, *arguments]
    refused = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == f"anomaly_processor: error: {text}\n"


def test_the_factory_reads_chunk_and_micro_step_from_the_tag() -> None:
    factory = alarms.AnomalyDataFactory(3, 1, [0, 3])
    factory.set_call_id({"1:fc.input:2/rank3/actv": 7})
    made = factory.create(("1:fc.input:2/rank3/actv", "norm"), "m", 5)
    assert (made.rank, made.step, made.vpp_stage, made.micro_step, made.call_id) == (3, 5, 1, 2, 7)
    assert factory.create(("0:fc.weight/rank3/post_grad", "norm"), "m", 5).micro_step == 0
    with pytest.raises(ValueError, match="tag must be a tuple with length 2"):
        factory.create("0:fc.weight", "m", 5)


def test_ctrl_c_stops_a_conversion(base: Path, tmp_path: Path) -> None:
    lines = "\n".join(f"0,w{i},0,1.5" for i in range(1_000_000))
    (base / RUN / "exp_avg_0-4.csv").write_text(f"vpp_stage,name,step,norm\n{lines}\n")
    script = (
        "import os, pathlib, signal, sys, threading, time\n"
        "from stepwatch.csv2tb import csv2tensorboard_by_step\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it\n"
        "def interrupt():\n"
        f"    while not list(pathlib.Path({str(tmp_path)!r}).rglob('.stepwatch-*')):  # the conversion is under way\n"
        "        time.sleep(0.001)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "try:\n"
        f"    csv2tensorboard_by_step({str(base)!r}, output_dirpath={str(tmp_path / 'tb')!r})\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(42)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == 42
    assert not (tmp_path / "tb").exists()
