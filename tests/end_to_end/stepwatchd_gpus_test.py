"""stepwatchd on a host whose NVIDIA library is a fake one: metrics, a fault of a GPU, a call that hangs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from build_tree import BUILD
from stepwatchd_process import NO_JOBS, Stepwatchd

FAKE = BUILD / "fake_nvml/new"
pytestmark = pytest.mark.skipif(not FAKE.exists(), reason="the fake library is not built")


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "nvml"
    file.write_text("count 2\nuuid.0 GPU-a\ntemperature.1 71\npower.1.status 3\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(FAKE))
    monkeypatch.setenv("FAKE_NVML", str(file))
    return file


def change(control: Path, text: str) -> None:
    """Replace the control file at once: the library reads it at each call."""
    new = control.with_suffix(".new")
    new.write_text(text)
    new.rename(control)


def page_with(daemon: Stepwatchd, text: str) -> str:
    """Wait for a page of metrics with a text."""

    def found() -> str:
        page: str = daemon.ask("GET", "/metrics")[2]
        return page if text in page else ""

    return str(daemon.until(found))


def test_gpus_are_sampled_and_a_hanging_driver_stops_no_answer(control: Path, tmp_path: Path) -> None:
    with Stepwatchd(tmp_path, NO_JOBS) as daemon:
        page = page_with(daemon, "stepwatchd_gpu_sm_active_ratio{")
        assert 'stepwatchd_gpu_temperature_celsius{gpu_uuid="GPU.1",gpu="1"} 71' in page
        assert 'stepwatchd_gpu_power_watts{gpu_uuid="GPU-a",gpu="0"} 300' in page
        assert 'stepwatchd_gpu_power_watts{gpu_uuid="GPU.1"' not in page
        assert 'stepwatchd_gpu_field_supported{gpu_uuid="GPU.1",gpu="1",field="power"} 0' in page
        if promtool := shutil.which("promtool"):
            checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True)
            assert "stepwatchd_gpu" not in checked.stdout + checked.stderr, checked.stderr
        change(control, "count 2\nuuid.0 GPU-a\nxid 79\n")
        page_with(daemon, 'stepwatchd_gpu_xid_errors_total{gpu_uuid="GPU-a",gpu="0",xid="79"} 1')
        change(control, "count 2\nuuid.0 GPU-a\nblock.power 1\n")
        daemon.until(lambda: daemon.metric("stepwatchd_gpu_sampler_stuck_seconds") > 2)
        assert daemon.metric("stepwatchd_gpu_sample_age_seconds") > 2
        assert "stepwatchd_gpu_temperature_celsius{" in daemon.ask("GET", "/metrics")[2]
        assert daemon.get("/v1/runs")["runs"] == []


@pytest.mark.parametrize("source", ["dcgm", "none"])
def test_another_source_of_gpu_values_leaves_the_driver_alone(control: Path, tmp_path: Path, source: str) -> None:
    with Stepwatchd(tmp_path, {**NO_JOBS, "gpu": {"source": source}}) as daemon:
        assert "stepwatchd_gpu" not in daemon.ask("GET", "/metrics")[2]
        daemon.config.write_text('{"gpu": {"source": "nvml"}, "discovery": {"enabled": false}}')
        page_with(daemon, "stepwatchd_gpu_temperature_celsius{")
