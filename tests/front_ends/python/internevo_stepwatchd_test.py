"""A training in InternEvo's manner, as a real stepwatchd sees it: through heartbeats, or through an open monitor."""

from __future__ import annotations

import math
import os
import socket
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from internevo_world import Bot, Context, install_context
from jobs import mlp, train, write_config

import python_programs
import stepwatch
import torch
import uniscale_monitoring
from stepwatch.compat import light_monitor
from stepwatch.compat.internevo import configure, initialize_light_monitor, phase, send_heartbeat
from stepwatch.compat.internevo import monitor_manager as mm
from stepwatchd_process import NO_JOBS, Stepwatchd


def heartbeat(step: int, loss: float) -> None:
    send_heartbeat(
        "train_metrics",
        {"step": step, "loss": loss, "lr": 1e-4, "grad_norm": {"0_default": 1.5}, "tgs (t/g/s)": 4100.0},
    )


def run_of(daemon: Stepwatchd, name: str, step: int) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        runs = [run for run in daemon.get("/v1/runs")["runs"] if run["id"] == name and run["step"] == step]
        return runs[0] if runs else None

    run: dict[str, Any] = daemon.until(found)
    return run


def test_heartbeats_make_a_run_with_steps_and_losses(
    tmp_path: Path, runtime: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("WORLD_SIZE", "8")
    install_context(monkeypatch, Context()).rank = 6
    with Stepwatchd(tmp_path, NO_JOBS) as daemon:
        initialize_light_monitor(str(daemon.socket))
        for step in range(0, 250, 50):
            heartbeat(step, 3.0 - step / 100)
        run = run_of(daemon, "17_7b_train", 200)
        assert (run["state"], run["world"], run["hosts"]) == ("train", 8, [socket.gethostname()])
        assert run["latest"]["loss"] == 1.0
        detail = daemon.get("/v1/runs/17_7b_train")
        assert [rank["rank"] for rank in detail["ranks"]] == [6]
        assert {"loss", "lr", "grad_norm", "grad_norm_0_default", "tgs"} <= set(detail["series"])
        with phase("eval"):
            daemon.until(lambda: daemon.get("/v1/runs/17_7b_train")["state"] == "eval")
        light_monitor.send_end("ok")
        daemon.until(lambda: daemon.get("/v1/runs/17_7b_train")["end_reason"] == "ok")
        assert daemon.get("/v1/incidents?state=all")["incidents"] == []


def test_a_nan_and_an_exception_open_incidents_over_tcp_with_a_token(
    tmp_path: Path, runtime: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOB_NAME", "j")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    listen = {"tcp": address, "token_file": str(token)}
    configure(light_monitor_token_file=str(token))
    with Stepwatchd(tmp_path, {**NO_JOBS, "listen": listen}) as daemon:
        initialize_light_monitor(f"http://{address}")
        for step in range(30):
            heartbeat(step, 2.0)
        run_of(daemon, "none_j", 29)
        for step in range(30, 34):
            heartbeat(step, math.nan)
        uniscale_monitoring.send_exception_msg("  File x, line 3, in main\nValueError: bad sample", 0)

        def kinds() -> set[str]:
            return {each["incident"] for each in daemon.get("/v1/incidents?state=all")["incidents"]}

        daemon.until(lambda: {"loss_nonfinite", "exception"} <= kinds())


# --- with an open monitor ---


def lines() -> list[dict[str, Any]]:
    """Return the lines of the only job."""
    for _ in range(2000):
        jobs = [job for job in stepwatch.jobs() if job.run_id is not None]
        if jobs:
            found: list[dict[str, Any]] = jobs[0].beats()["beats"]
            return found
    raise AssertionError("no job answers")


def test_an_open_monitor_gets_numbers_and_phases_and_stepwatchd_none_by_http(
    tmp_path: Path, runtime: Path, fresh: None
) -> None:
    posted = Bot()  # any server
    initialize_light_monitor(posted.address)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    config = write_config(tmp_path / "config.json", targets={}, dynamic_on=False)
    with stepwatch.watch(model, optimizer, config=config, dynamic=True, output_dir=tmp_path / "out"):
        train(model, optimizer, 3)
        send_heartbeat("train_metrics", {"step": 50, "loss": 2.5, "grad_norm": {"0_default": -1}, "n" * 50: 1})
        mm.monitor_loss_spike(step_count=50, cur_step_loss=2.75)
        send_heartbeat("train_metrics", {"step": 51, "loss": 9.0, "tgs": 7.0})
        with phase("checkpoint"):
            pass
        found = lines()
    said = [line["beat"] for line in found if "beat" in line]
    assert [beat["loss"] for beat in said if "loss" in beat] == [2.5, 2.75]
    assert [beat["grad_norm"] for beat in said if "grad_norm" in beat] == ["inf"]
    assert {beat["step"] for beat in said if "tgs" in beat} == {2}
    assert "checkpoint" in [beat["phase"] for beat in said]
    heartbeat(52, 2.0)  # after the monitor is closed
    assert light_monitor.flush(30)
    assert posted.requests == []
    posted.close()


PROGRAM = """
    import os, sys, time, traceback
    import torch, stepwatch
    from stepwatch.compat.internevo import configure, initialize_monitor_manager, initialize_light_monitor
    from stepwatch.compat.internevo import send_heartbeat, monitor_manager as mm

    configure(enable_feishu_alert=True)
    initialize_light_monitor({stepwatchd!r})

    def main():
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        monitor = stepwatch.watch(model, optimizer, config={config!r}, dynamic=True, output_dir={output!r})
        for step in range(5):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            send_heartbeat("train_metrics", {{"step": step, "loss": 2.0}})
        while not os.path.exists({go!r}):
            time.sleep(0.01)
        raise ValueError("bad sample")

    with initialize_monitor_manager(job_name="j", alert_address={webhook!r}):
        try:
            main()
        except Exception:
            mm.monitor_exception(alert_address={webhook!r}, excp_info=traceback.format_exc())
"""


def test_a_failed_training_with_a_monitor_is_one_run_with_one_exception(
    tmp_path: Path, runtime: Path, bot: Bot
) -> None:
    config = write_config(tmp_path / "config.json", targets={}, dynamic_on=False)
    with Stepwatchd(tmp_path) as daemon:
        program = tmp_path / "program.py"
        go = tmp_path / "go"
        values = {"config": str(config), "output": str(tmp_path / "out"), "webhook": bot.webhook, "go": str(go)}
        program.write_text(textwrap.dedent(PROGRAM).format(stepwatchd=str(daemon.socket), **values))

        def fail_when_found() -> None:
            daemon.until(lambda: [run for run in daemon.get("/v1/runs")["runs"] if run["step"] == 4])
            go.touch()

        thread = threading.Thread(target=fail_when_found)
        thread.start()
        ended = python_programs.run([str(program)], timeout=120)
        thread.join()
        assert ended.returncode == 1, ended.stderr
        assert ended.stderr.count("ValueError: bad sample") == 1

        def incidents() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = daemon.get("/v1/incidents?state=all")["incidents"]
            return found

        daemon.until(incidents)
        daemon.until(lambda: daemon.get("/v1/runs")["runs"][0]["state"] == "ended")
        (run,) = daemon.get("/v1/runs")["runs"]
        assert (run["end_reason"], run["step"]) == ("error", 4)
        assert [each["incident"] for each in incidents()] == ["exception"]
    assert [text.split()[-1] for text in bot.texts()] == ["starts.", "sample", "ValueError."]
    assert os.environ.get("JOB_NAME") is None
