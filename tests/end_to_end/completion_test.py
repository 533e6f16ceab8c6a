"""Completion for shells and manual pages, both made of the verbs that `stepwatch --help` shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from command_line import stepwatch
from rehearse_process import BINARY, open_job


def needs(tool: str) -> None:
    """Skip the test without a tool; bash and groff must be there where every tool must."""
    if shutil.which(tool) is not None:
        return
    if os.environ.get("STEPWATCH_REQUIRE_ALL") and tool in ("bash", "groff"):
        pytest.fail(f"{tool} is not installed")
    pytest.skip(f"{tool} is not installed")


def verbs() -> list[str]:
    listed = stepwatch("--help").stdout.partition("Subcommands:")[2]
    return re.findall(r"^  ([a-z][a-z0-9-]*) ", listed.partition("Examples:")[0], re.MULTILINE)


def complete(*words: str, directory: Path) -> list[str]:
    """Return the completions of bash for the last of the words."""
    needs("bash")
    script = (
        'source <("$1" completion bash) && cd "$2" && shift 2 && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) &&'
        ' _stepwatch && ((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"'
    )
    binary = str(BINARY.resolve())
    command = ["bash", "--norc", "-c", script, "bash", binary, str(directory), binary, *words]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.stderr == ""
    return answer.stdout.splitlines()


def test_bash_completes_verbs_options_and_values(tmp_path: Path) -> None:
    (tmp_path / "a file.json").write_text("")
    (tmp_path / "a*").write_text("")
    assert sorted(complete("", directory=tmp_path)) == sorted([*verbs(), "-h", "--help", "--version"])
    assert {"start", "status", "stop"} <= set(complete("st", directory=tmp_path))
    assert complete("val", directory=tmp_path) == ["validate"]
    assert complete("top", "--ki", directory=tmp_path) == ["--kind"]
    assert "grad_reduced" in complete("top", "--kind", "", directory=tmp_path)
    assert complete("top", "--once", "--kind", "exp_avg_", directory=tmp_path) == ["exp_avg_sq"]
    assert complete("top", "--kind", "=", "exp_avg_", directory=tmp_path) == ["exp_avg_sq"]
    assert "actv" in complete("top", "--kind", "=", directory=tmp_path)
    assert complete("completion", "z", directory=tmp_path) == ["zsh"]
    assert sorted(complete("validate", "a", directory=tmp_path)) == ["a file.json", "a*"]
    assert sorted(complete("plan", "--sites", "a", directory=tmp_path)) == ["a file.json", "a*"]
    assert complete("validate", "zzz", directory=tmp_path) == []
    assert complete("nothing", "", directory=tmp_path) == []
    assert complete("top", "--interval", "", directory=tmp_path) == []


def test_bash_completes_the_names_of_running_jobs(tmp_path: Path, runtime: Path) -> None:
    with open_job(tmp_path, '{"dynamic_on": false}') as job:
        name = f"{job.process.pid}-1"
        assert name in stepwatch("job-names").stdout.split()
        assert name in complete("status", "", directory=tmp_path)
        assert complete("plan", "x.json", "--job", name[:-1], directory=tmp_path) == [name]
        assert "config.json" in complete("top", "", directory=tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_one_that_it_reads(shell: str, tmp_path: Path) -> None:
    printed = stepwatch("completion", shell)
    assert printed.returncode == 0
    for verb in verbs():
        assert verb in printed.stdout
    assert "job-names" not in stepwatch("--help").stdout
    needs(shell)
    script = tmp_path / "script"
    script.write_text(printed.stdout)
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    if shell == "fish":
        ask = f"source {script}; complete -C 'stepwatch top --kind exp_avg_'"
        offered = subprocess.run([shell, "--no-config", "-c", ask], capture_output=True, text=True, check=True).stdout
        assert [line.split("\t")[0] for line in offered.splitlines()] == ["exp_avg_sq"]


def test_no_shell_but_these_has_a_script() -> None:
    assert stepwatch("completion", "tcsh").returncode == 2
    assert stepwatch("completion").returncode == 2


def test_every_verb_has_a_manual_page_without_faults(tmp_path: Path) -> None:
    written = stepwatch("manual", "--to", tmp_path / "man/man1")
    assert written.returncode == 0
    pages = sorted((tmp_path / "man/man1").iterdir())
    assert [page.name for page in pages] == sorted(["stepwatch.1", *(f"stepwatch-{verb}.1" for verb in verbs())])
    assert (tmp_path / "man/man1/stepwatch-top.1").read_text() == stepwatch("manual", "top").stdout
    assert (tmp_path / "man/man1/stepwatch.1").read_text() == stepwatch("manual").stdout
    for lint in (["groff", "-man", "-ww", "-z"], ["mandoc", "-Tlint", "-Wwarning"]):
        if shutil.which(lint[0]) is None:
            continue
        checked = subprocess.run([*lint, *map(str, pages)], capture_output=True, text=True, check=False)
        faults = (checked.stdout + checked.stderr).splitlines()
        # A release has a version and no date.
        assert [fault for fault in faults if "missing date" not in fault] == []
    needs("groff")
    page = tmp_path / "man/man1/stepwatch-top.1"
    command = ["groff", "-man", "-Tascii", "-P-cbou", str(page)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "stepwatch-top - Show the latest values of a running job, live" in shown
    assert "--kind TEXT" in shown and "stepwatch top --once --sort max | head -20" in shown


def test_a_manual_page_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    nobody = stepwatch("manual", "nothing")
    assert nobody.returncode == 2 and "nothing" in nobody.stderr
    (tmp_path / "file").write_text("")
    assert stepwatch("manual", "--to", tmp_path / "file/man1").returncode == 5
