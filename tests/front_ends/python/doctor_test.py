"""The checks of a device."""

from __future__ import annotations

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from stepwatch import doctor


def test_cpu_memory_passes_all_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("verdict: Stepwatch works on cpu: all ")
    assert all(line.startswith("ok ") for line in lines[:-1])


def test_a_device_that_is_not_there_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--device", "npu"]) == 2
    assert "verdict: not checked" in capsys.readouterr().out


def test_a_wrong_number_fails_its_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "_expected_row", lambda tensor: {"norm": tensor.norm().item() + 1})
    assert doctor.main(["--device", "cpu"]) == 1
    assert "verdict: 1 of " in capsys.readouterr().out
