"""The command line as scripts see it: exit codes, JSON, messages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from command_line import stepwatch
from rehearse_process import BINARY, Rehearsal


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.json"
    path.write_text('{"wg_distribution": true, "collect_times": 3, "step_interval": 2, "opps": []}')
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.json"
    path.write_text('{\n  "ops": "norm"\n}')
    return path


def test_version_and_help_succeed() -> None:
    version = stepwatch("--version")
    assert version.returncode == 0 and version.stdout.startswith("stepwatch ")
    assert "rehearse" in stepwatch("--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["validate"], ["rehearse", "x", "--steps", "-1"], ["rehearse", "x", "--step-time", "x"]],
)
def test_a_bad_command_line_is_2(arguments: list[str]) -> None:
    result = stepwatch(*arguments)
    assert result.returncode == 2 and result.stderr + result.stdout


def test_validate_prints_warnings_of_a_usable_config_and_the_place_of_an_error(good: Path, bad: Path) -> None:
    fine = stepwatch("validate", good)
    assert fine.returncode == 0 and 'did you mean "ops"' in fine.stdout
    refused = stepwatch("validate", bad)
    assert refused.returncode == 2 and f"{bad}:2:10: error" in refused.stdout
    as_json = json.loads(stepwatch("validate", bad, "--json").stdout)
    assert as_json["valid"] is False
    assert (as_json["error"]["key"], as_json["error"]["line"], as_json["error"]["column"]) == ("ops", 2, 10)
    assert json.loads(stepwatch("validate", good, "--json").stdout)["warnings"][0]["key"] == "opps"


def test_a_path_without_a_config_file_is_2_with_a_sentence(tmp_path: Path) -> None:
    big = tmp_path / "big.json"
    big.write_bytes(b" " * (2 << 20))
    for path in (tmp_path / "missing.json", tmp_path, Path("/dev/zero"), big):
        result = stepwatch("validate", path)
        assert result.returncode == 2 and len(result.stdout) > 20, path


def test_plan_shows_steps_rows_and_bytes(tmp_path: Path, good: Path) -> None:
    assert "0, 2, 4" in stepwatch("plan", good, "--rank", "1").stdout  # of no job that may run here
    with Rehearsal(
        tmp_path, good.read_text(), "--steps", "2", "--sites", "3", "--elements", "100", dynamic=False
    ) as run:
        assert run.finish() == 0
    (manifest,) = run.out.glob("*/manifest.json")
    plan = json.loads(stepwatch("plan", good, "--sites", manifest, "--json").stdout)
    assert plan["sites"]["grad_reduced"] == 3 and plan["rows_per_step"] == 6
    assert plan["parameter_bytes_per_step"] == 2 * 3 * 100 * 4
    assert stepwatch("plan", good, "--sites", good).returncode == 2
    assert stepwatch("plan", tmp_path / "missing.json").returncode == 2


def test_rehearse_of_an_unusable_config_is_2_in_static_mode_and_waits_in_dynamic_mode(
    bad: Path, tmp_path: Path
) -> None:
    static = stepwatch("rehearse", bad, "--steps", 3, "--out", tmp_path / "out")
    assert static.returncode == 2 and "2:10" in static.stderr
    dynamic = stepwatch("rehearse", bad, "--steps", 3, "--out", tmp_path / "out", "--dynamic", "--json")
    lines = [json.loads(line) for line in dynamic.stdout.splitlines()]
    assert dynamic.returncode == 0
    assert [line["step"] for line in lines if "event" not in line] == [0, 1, 2]
    assert sum(line.get("event") == "refused" for line in lines) == 1
    assert not any("collected" in line for line in lines if "event" in line)


def test_unwritable_output_costs_rows_and_never_the_run(good: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the directory should be")
    result = stepwatch("rehearse", good, "--steps", 8, "--step-time", "1ms", "--out", blocked, "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["step"] for line in lines if "event" not in line] == list(range(8))
    (drained,) = [line for line in lines if line.get("event") == "drained"]
    assert drained["ledger"]["dropped"]["sink_failed"] == drained["ledger"]["produced"] > 0
    assert any(line.get("event") == "degraded" for line in lines)


def test_doctor_names_the_instruction_set_in_use_and_grants_each_that_is_there() -> None:
    report = json.loads(stepwatch("doctor", "--json", env={"STEPWATCH_CPU_TARGET": ""}).stdout)
    available = report["cpu"]["available"]
    assert report["cpu"]["target"] == available[0]
    assert available[-1] == "scalar"
    for target in available:
        forced = stepwatch("doctor", "--json", env={"STEPWATCH_CPU_TARGET": target})
        assert forced.returncode == 0
        assert json.loads(forced.stdout)["cpu"]["target"] == target


def test_doctor_names_an_instruction_set_that_it_cannot_grant() -> None:
    result = stepwatch("doctor", env={"STEPWATCH_CPU_TARGET": "mmx"})
    assert result.returncode == 5
    assert '"mmx"' in result.stdout and "scalar" in result.stdout


def test_doctor_gives_a_reason_where_there_is_no_gpu() -> None:
    cuda = json.loads(stepwatch("doctor", "--json").stdout)["cuda"]
    assert cuda["devices"] > 0 or len(cuda["reason"]) > 20


def test_doctor_names_the_architectures_whose_device_code_is_embedded() -> None:
    cuda = json.loads(stepwatch("doctor", "--json").stdout)["cuda"]
    text = stepwatch("doctor").stdout
    assert bool(cuda["code"]) == cuda["built"]
    assert all(name.startswith("sm_") and name in text for name in cuda["code"])


def test_the_program_holds_no_device_code_since_it_measures_nothing_on_a_gpu() -> None:
    sections = subprocess.run(["readelf", "--wide", "--section-headers", BINARY], capture_output=True, text=True)
    assert ".text" in sections.stdout
    assert ".nv_fatbin" not in sections.stdout
