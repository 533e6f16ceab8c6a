"""The disk limit of the environment, and `stepwatch prune`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from command_line import stepwatch
from rehearse_process import Rehearsal, save

ENDLESS = '{"dynamic_on": true, "wg_distribution": true, "collect_times": 1000000}\n'
SHORT = '{"dynamic_on": true, "wg_distribution": true, "collect_times": 2}\n'


def prune(*arguments: object) -> subprocess.CompletedProcess[str]:
    return stepwatch("prune", *arguments)


def files_below(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def test_the_disk_limit_ends_the_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWATCH_BYTES_MAX", "24K")
    with Rehearsal(tmp_path, ENDLESS, "--steps", "100000", "--step-time", "2ms") as rehearsal:
        assert "when they are used up" in rehearsal.until_event("limited")["message"]
        assert "the collection ends" in rehearsal.until_event("limited")["message"]
        rehearsal.until_event("wrote_back")
        rehearsal.until_socket_opens()
        assert "on disk, used up" in stepwatch("status", rehearsal.process.pid).stdout
        save(rehearsal.config, ENDLESS)
        assert "it writes no more rows" in rehearsal.until_event("refused")["message"]
    assert sum(path.stat().st_size for path in rehearsal.out.rglob("*.csv")) <= 24 << 10
    (history,) = rehearsal.out.glob("*/stepwatch_history.jsonl")
    assert "limited" in [json.loads(line)["outcome"] for line in history.read_text().splitlines()]


def test_prune_lists_first_spares_a_live_run_and_finishes_an_interrupted_removal(tmp_path: Path) -> None:
    with Rehearsal(tmp_path, SHORT, "--steps", "100000", "--step-time", "2ms") as rehearsal:
        rehearsal.until_event("wrote_back")
        rehearsal.until_socket_opens()
        before = files_below(rehearsal.out)
        live = prune(rehearsal.out, "--keep-bytes", "0", "--yes", "--json")
        assert live.returncode == 7
        (run,) = json.loads(live.stdout)["runs"]
        assert run["verdict"] == "live" and ("runs" in run["why"] or "control socket" in run["why"])
        assert files_below(rehearsal.out) == before
    (directory,) = rehearsal.out.iterdir()

    dry = prune(rehearsal.out, "--keep-bytes", "0")
    assert dry.returncode == 0
    assert directory.name in dry.stdout and "use --yes" in dry.stdout
    assert files_below(rehearsal.out) == before

    (directory / "notes.txt").write_text("mine")
    kept = prune(rehearsal.out, "--keep-bytes", "0", "--yes")
    assert kept.returncode == 7 and 'holds "notes.txt"' in kept.stdout
    (directory / "notes.txt").unlink()

    young = prune(rehearsal.out, "--older-than", "1d", "--yes")
    assert young.returncode == 7 and directory.exists()
    (rehearsal.out / f".stepwatch-pruned-{directory.name}").mkdir()
    assert "an interrupted removal" in prune(rehearsal.out, "--older-than", "30d").stdout
    done = prune(rehearsal.out, "--keep-bytes", "0", "--yes", "--json")
    assert done.returncode == 0
    assert [run["verdict"] for run in json.loads(done.stdout)["runs"]] == ["removed"]
    assert files_below(rehearsal.out) == []
    assert prune(rehearsal.out, "--keep-bytes", "0", "--yes").returncode == 7


def test_prune_without_a_rule_or_a_directory_is_an_error(tmp_path: Path) -> None:
    assert "--older-than 30d, --keep-bytes 50G or both are required" in prune(tmp_path).stderr
    for arguments in ([], ["--older-than", "soon"], ["--keep-bytes", "-1"]):
        assert prune(tmp_path, *arguments).returncode == 2
    assert prune(tmp_path / "none", "--older-than", "1d").returncode == 2
