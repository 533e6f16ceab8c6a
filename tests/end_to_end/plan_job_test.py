"""`stepwatch plan` beside a running job: the changes that a config would make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import answer, check, stepwatch
from rehearse_process import Rehearsal, open_job, save

OFF = '{"dynamic_on": false}'
ON = '{"dynamic_on": true, "collect_times": 1000000, "wg_distribution": true, "ops": ["norm", "max"]}'


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with open_job(tmp_path, OFF) as job:
        yield job


def preview(*arguments: object) -> tuple[int, dict]:
    code, value = answer("plan", *arguments)
    check("Preview", value)
    return code, value


def test_the_exit_code_shows_whether_something_would_change(job: Rehearsal, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(ON)
    code, value = preview(new, "--job", job.config)
    assert (code, value["state"], value["effect"]) == (1, "differs", "collects")
    assert [each["key"] for each in value["differences"]] == [
        "wg_distribution",
        "dynamic_on",
        "collect_times",
        "ops",
    ]
    save(job.config, ON)
    job.until_event("applied")
    code, value = preview(new, "--job", job.config)
    assert (code, value["state"], value["compared_with"]) == (0, "same", "plan")
    new.write_text('{\n  "ops": 3\n}')
    code, value = preview(new, "--job", job.config)
    assert (code, value["state"], value["error"]["line"]) == (2, "invalid", 2)
    new.write_text(OFF)
    assert preview(new, "--job", job.config)[1]["effect"] == "stops"
    assert job.config.read_text() == ON
    job.until_step(job.steps()[-1]["step"] + 5)
    assert job.steps()[-1]["collected"] and not job.events("armed")[1:]


def test_the_measured_cost_of_a_kind_stands_beside_it(job: Rehearsal, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(ON.replace("{", '{"param_distribution": true, ', 1))
    assert {kind["seconds_per_collected_step"] for kind in preview(new, "--job", job.config)[1]["sites"]} == {None}
    save(job.config, ON)
    job.until_event("applied")
    job.until_step(job.steps()[-1]["step"] + 5)

    def costs() -> dict[str, float | None]:
        return {
            kind["kind"]: kind["seconds_per_collected_step"] for kind in preview(new, "--job", job.config)[1]["sites"]
        }

    known = costs()
    assert known["grad_unreduced"] and known["grad_reduced"]
    assert known["param_origin"] is None and known["param_updated"] is None
    table = stepwatch("plan", new, "--job", job.config).stdout
    assert table.count(" ms per step\n") == 2 and table.count("unknown\n") == 2
    save(job.config, OFF)
    job.until_event("drained")
    assert costs()["grad_reduced"]  # also of a plan that is over


def test_the_job_that_watches_the_file_is_asked_without_being_named(job: Rehearsal, tmp_path: Path) -> None:
    for name in ("config.json", "./config.json", f"../{tmp_path.name}/config.json"):
        same = stepwatch("plan", name, cwd=tmp_path)
        assert same.returncode == 0 and "job " in same.stdout
    assert same.stdout.startswith("same  ") and "compared with its config file" in same.stdout
    other = tmp_path / "other.json"
    other.write_text(ON)
    alone = stepwatch("plan", other, "--dynamic")
    assert alone.returncode == 0 and "sites       unknown" in alone.stdout
    nobody = stepwatch("plan", other, "--job", "nobody")
    assert nobody.returncode == 6 and "nobody" in nobody.stderr
    job.process.kill()
    job.process.wait()
    assert "sites       unknown" in stepwatch("plan", job.config, "--dynamic").stdout


def test_the_table_is_for_people_and_plain_in_a_pipe(job: Rehearsal, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(ON.replace("{", '{"opps": [], ', 1))
    shown = stepwatch("plan", new, "--job", job.process.pid)
    assert shown.returncode == 1
    assert f"{new}:1:2: warning:" in shown.stdout and 'did you mean "ops"' in shown.stdout
    assert '+ ops              "max"\n' in shown.stdout
    assert "\x1b" not in shown.stdout
    new.write_text('{\n  "ops": 3\n}')
    refused = stepwatch("plan", new, "--job", job.process.pid)
    assert refused.returncode == 2 and f"{new}:2:10: error:" in refused.stderr
    missing = stepwatch("plan", tmp_path / "missing.json", "--job", job.process.pid)
    assert missing.returncode == 2 and "missing.json" in missing.stderr
