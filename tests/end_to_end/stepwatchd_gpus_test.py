"""stepwatchd on a host whose NVIDIA library is a fake one: metrics, a fault of a GPU, a call that hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import control_socket_client
import python_programs
from build_tree import BUILD
from stepwatchd_process import NO_JOBS, Stepwatchd, beat, own_jobs, start

JOB = Path(__file__).with_name("stepwatchd_job.py")
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


def test_the_fault_of_a_gpu_is_that_of_the_rank_whose_process_uses_it(control: Path, tmp_path: Path) -> None:
    pytest.importorskip("stepwatch", reason="the Python package is not installed")
    pytest.importorskip("torch")
    with Stepwatchd(tmp_path, own_jobs()) as daemon:
        job = python_programs.start([str(JOB), str(tmp_path), "100000"], env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            change(control, f"count 2\nprocess.1 {job.pid}\n")
            page_with(daemon, 'stepwatchd_gpu_process{gpu_uuid="GPU.1",gpu="1",run=')
            run = str(daemon.get("/v1/runs")["runs"][0]["id"])
            daemon.until(lambda: daemon.get(f"/v1/runs/{run}")["step"] > 20)
            change(control, f"count 2\nprocess.1 {job.pid}\nstatus.1 15\n")
            incident = daemon.incident_of(run)
            assert (incident["incident"], incident["ranks"]) == ("gpu_fault", [0]), incident
            assert (incident["evidence"]["uuid"], incident["evidence"]["field"]) == ("GPU.1", "lost"), incident
        finally:
            job.kill()
            job.wait()


def test_families_of_gpus_and_hosts_are_valid_in_both_formats(control: Path, tmp_path: Path) -> None:
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    plain = pytest.importorskip("prometheus_client.parser")
    devices = "".join(f"temperature.{gpu} {40 + gpu}\n" for gpu in range(8))
    change(control, f"count 8\nuuid.0 GPU-a\nxid 79\nmig.0 2\npower.1.status 3\n{devices}")
    settings = {**NO_JOBS, "host": {"directories": [str(tmp_path)]}}
    with Stepwatchd(tmp_path, settings) as daemon:
        daemon.send(start(), beat(1, checkpoint_bytes=1e6))
        page_with(daemon, "stepwatchd_gpu_xid_errors_total{")
        page_with(daemon, "stepwatchd_host_disk_checkpoints_left{")
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        page = control_socket_client.ask(daemon.socket, "GET", "/metrics", headers=accept)[2]
        new = {family.name: family for family in openmetrics.text_string_to_metric_families(page)}
        text = daemon.ask("GET", "/metrics")[2]
        old = {sample.name for family in plain.text_string_to_metric_families(text) for sample in family.samples}
        ours = {name: family for name, family in new.items() if name.startswith(("stepwatchd_gpu", "stepwatchd_host"))}
        assert {sample.name for family in ours.values() for sample in family.samples} == {
            name for name in old if name.startswith(("stepwatchd_gpu", "stepwatchd_host"))
        }
        assert ours["stepwatchd_gpu"].type == "info"
        for counter in ("gpu_xid_errors", "gpu_ecc_errors", "gpu_energy_joules", "host_oom_kills"):
            assert ours[f"stepwatchd_{counter}"].type == "counter"
        assert ours["stepwatchd_gpu_sample_age_seconds"].unit == "seconds"
        assert len(ours["stepwatchd_gpu_lost"].samples) == 8
        if promtool := shutil.which("promtool"):
            checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
            assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("source", ["dcgm", "none"])
def test_another_source_of_gpu_values_leaves_the_driver_alone(control: Path, tmp_path: Path, source: str) -> None:
    with Stepwatchd(tmp_path, {**NO_JOBS, "gpu": {"source": source}}) as daemon:
        assert "stepwatchd_gpu" not in daemon.ask("GET", "/metrics")[2]
        daemon.config.write_text('{"gpu": {"source": "nvml"}, "discovery": {"enabled": false}}')
        page_with(daemon, "stepwatchd_gpu_temperature_celsius{")


def test_disks_of_checkpoints_are_measured(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path, {**NO_JOBS, "host": {"directories": [str(tmp_path)]}}) as daemon:
        daemon.send(start(), *[beat(step, checkpoint_bytes=1.0) for step in range(1, 4)])
        page = page_with(daemon, f'stepwatchd_host_disk_checkpoints_left{{run="r1",path="{tmp_path}"}}')
        assert f'stepwatchd_host_disk_free_bytes{{path="{tmp_path}"}}' in page
        assert "stepwatchd_host_oom_kills_total" in page


def test_room_for_checkpoints_counts_the_parts_of_all_ranks(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path, {**NO_JOBS, "host": {"directories": [str(tmp_path)]}}) as daemon:
        third = shutil.disk_usage(tmp_path).free / 3
        daemon.send(start(world=2), *[beat(1, rank=rank, checkpoint_bytes=third) for rank in range(2)])
        page_with(daemon, f'stepwatchd_host_disk_checkpoints_left{{run="r1",path="{tmp_path}"}} 1\n')
