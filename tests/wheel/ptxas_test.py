"""Outputs of the compiler of device code that are accepted, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_ptxas

LOAD = ".visible .entry Measure(\n  ld.global.cs.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"


def reports(home: Path, architecture: str, *, spilled: int, registers: int = 64) -> Path:
    """Write the output of ptxas for one kernel."""
    (home / "measure").mkdir()
    (home / "measure/measure.ptx").write_text(LOAD)
    (home / "measure/ptxas.txt").write_text(
        f"ptxas info    : Compiling entry function 'Measure' for '{architecture}'\n"
        f"    {spilled} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads\n"
        f"ptxas info    : Used {registers} registers\n"
    )
    return home


def test_a_kernel_without_spills_is_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_ptxas.check(reports(tmp_path, "sm_90", spilled=0)) == 0
    assert "no spills" in capsys.readouterr().out


def test_a_spill_is_refused_where_there_are_instructions_for_pairs(tmp_path: Path) -> None:
    assert check_ptxas.check(reports(tmp_path, "sm_80", spilled=4)) == 1


def test_a_small_spill_is_accepted_and_others_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_ptxas.check(reports(tmp_path, "sm_75", spilled=312)) == 0
    assert "spills in 1" in capsys.readouterr().out


def test_a_large_spill_is_refused_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_ptxas.check(reports(tmp_path, "sm_75", spilled=1000)) == 1
    assert "Measure for sm_75: 1000 bytes of stack" in capsys.readouterr().out


def test_no_kernel_may_have_more_registers_than_four_blocks_leave_it(tmp_path: Path) -> None:
    assert check_ptxas.check(reports(tmp_path, "sm_75", spilled=0, registers=65)) == 1
