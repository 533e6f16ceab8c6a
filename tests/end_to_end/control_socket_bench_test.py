"""The benchmark of the control socket runs and writes its file of figures, which are not checked here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from build_tree import BUILD

BENCH = Path(os.environ.get("STEPWATCH_CONTROL_SOCKET_BENCH", BUILD / "bin/control_socket_bench"))

pytestmark = [pytest.mark.long, pytest.mark.skipif(not BENCH.exists(), reason=f"{BENCH} is not built")]


def test_each_crowd_has_its_ratio_and_others_are_answered_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [str(BENCH), "--rounds", "2", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text(encoding="utf-8"))
    crowds = {
        "control_socket_idle",
        "control_socket_never_read",
        "control_socket_byte_a_second",
        "control_socket_ten_thousand",
    }
    expected = {f"{crowd}_{what}" for crowd in crowds for what in ("added_over_step", "steps_over_none")}
    assert {ratio["name"] for ratio in found["ratios"]} == expected
    assert {figure["name"] for figure in found["figures"]} >= {f"{crowd}_answer_ms" for crowd in crowds}
