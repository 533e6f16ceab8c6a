"""Heartbeats as InternEvo sends them, and the lines for stepwatchd that become of them."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from internevo_world import HANG, Context, Server, install_context

import uniscale_monitoring
from stepwatch.compat import beat_lines, light_monitor
from stepwatch.compat.internevo import configure, initialize_light_monitor, phase, send_heartbeat

TAKEN = (200, {"version": 1, "taken": 1, "refused": 0, "refusals": []})
# The shapes of InternEvo's record_current_batch_training_metrics.
INFOS: dict[str, Any] = {
    "tflops": 180.5,
    "step": 50,
    "loss": 2.25,
    "tgs (tokens/gpu/second)": 4100.25,
    "tgs/last_tgs_1": 4100.25,
    "tgs/tgs_SMA": 4090.5,
    "lr": 1e-4,
    "loss_scale": 65536.0,
    "grad_norm": {"0_default": 3.0, "1_fp32": 4.0},
    "micro_num": 4,
    "num_consumed_tokens": 409600,
    "adam_beta2": 0.95,
    "acc": 0.5,
    "loss_from_metric": 2.26,
    "acc_/en": 0.25,
}


@pytest.fixture
def stepwatchd(fresh: None) -> Iterator[Server]:
    server = Server(TAKEN)
    yield server
    server.released.set()
    light_monitor.flush(30)
    server.close()


def lines(server: Server) -> list[dict[str, Any]]:
    assert light_monitor.flush(30)
    return server.bodies()


def beats(server: Server) -> list[dict[str, Any]]:
    return [line["beat"] for line in lines(server) if "beat" in line]


def events(server: Server) -> list[dict[str, Any]]:
    return [line["event"] for line in lines(server) if "event" in line]


def test_a_heartbeat_is_a_beat_with_all_its_numbers(stepwatchd: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    install_context(monkeypatch, Context()).rank = 6
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    initialize_light_monitor(stepwatchd.address)
    assert stepwatchd.requests == []
    send_heartbeat("train_metrics", INFOS)
    start, beat = lines(stepwatchd)
    assert (start["event"]["kind"], start["event"]["world"]) == ("start", 8)
    assert (beat["run"], beat["rank"]) == ("17_7b_train", 6)
    assert beat["beat"] == {
        "step": 50,
        "phase": "train",
        "tflops": 180.5,
        "loss": 2.25,
        "tgs": 4100.25,
        "tgs_last_tgs_1": 4100.25,
        "tgs_tgs_SMA": 4090.5,
        "lr": 1e-4,
        "loss_scale": 65536.0,
        "grad_norm_0_default": 3.0,
        "grad_norm_1_fp32": 4.0,
        "grad_norm": 5.0,
        "micro_num": 4,
        "num_consumed_tokens": 409600,
        "adam_beta2": 0.95,
        "acc": 0.5,
        "loss_from_metric": 2.26,
        "acc__en": 0.25,
    }
    assert "Stepwatch-Sent" in stepwatchd.requests[0][1]


@pytest.mark.parametrize(("loss", "written"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_a_number_that_is_not_finite_is_valid_json(stepwatchd: Server, loss: float, written: str) -> None:
    initialize_light_monitor(stepwatchd.address)
    send_heartbeat("train_metrics", {"step": 1, "loss": loss, "perplexity": {"a": loss}})
    (beat,) = beats(stepwatchd)
    assert (beat["loss"], beat["perplexity_a"]) == (written, written)


@pytest.mark.parametrize(("code", "norm"), [(-1, "inf"), (-2, "nan"), (-1.0, "inf"), (None, "nan")])
def test_the_codes_of_a_gradient_norm_are_no_values(stepwatchd: Server, code: Any, norm: str) -> None:
    initialize_light_monitor(stepwatchd.address)
    send_heartbeat("train_metrics", {"step": 1, "grad_norm": {"0_default": code, "1_fp32": 2.0}})
    (beat,) = beats(stepwatchd)
    assert (beat["grad_norm_0_default"], beat["grad_norm_1_fp32"], beat["grad_norm"]) == (norm, 2.0, norm)


@pytest.mark.parametrize("kind", ["init_time", "stage_time", "a type of our own"])
def test_each_type_of_message_arrives_with_its_type(
    stepwatchd: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    received: list[dict[str, Any]] = []
    monkeypatch.setattr(light_monitor, "send_meta", received.append)
    monkeypatch.setenv("CLUSTER_NAME", "c1")
    send_heartbeat(kind, {"import_time": 0.25})
    assert received == [{"import_time": 0.25, "msg_type": kind, "cluster": "c1"}]
    assert beat_lines.beat_of(received[0], last_step=-1)["import_time"] == 0.25
    assert beat_lines.beat_of(received[0], last_step=-1)["step"] == -1


def test_values_that_are_no_numbers_are_left_out(stepwatchd: Server) -> None:
    initialize_light_monitor(stepwatchd.address)
    numbers = {"step": "x", "a": "text", "b": object(), "c": [1, 2], "d": None, "e": True, "f": 10**30, "phase": 3}
    send_heartbeat("train_metrics", {**numbers, "loss": 1.0})
    (beat,) = beats(stepwatchd)
    assert beat == {"step": -1, "phase": "train", "loss": 1.0, "e": 1, "f": 1e30}


def test_many_numbers_are_cut_to_those_that_a_beat_may_have(fresh: None) -> None:
    beat = beat_lines.beat_of({**{f"n{i}": i for i in range(200)}, "grad_norm_0": 1.0, "step": 3}, -1)
    assert len(beat) < 64 and beat["grad_norm"] == 1.0


def test_heartbeats_need_no_feishu(stepwatchd: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    install_context(monkeypatch, Context(light_monitor_address=stepwatchd.address))
    send_heartbeat("train_metrics", INFOS)
    assert len(beats(stepwatchd)) == 1


def test_a_phase_is_a_beat(stepwatchd: Server) -> None:
    initialize_light_monitor(stepwatchd.address)
    with phase("eval"):
        pass  # not before the first heartbeat: the run has no line yet
    send_heartbeat("train_metrics", {"step": 7, "loss": 1.0})
    with phase("eval"), phase("checkpoint"):
        pass
    assert [(beat["step"], beat["phase"]) for beat in beats(stepwatchd)[1:]] == [
        (7, "eval"),
        (7, "checkpoint"),
        (7, "eval"),
        (7, "train"),
    ]


@pytest.mark.parametrize("answer", [(500, ""), (429, ""), (401, ""), HANG, (200, "no JSON"), (200, {"refused": 1})])
def test_a_heartbeat_neither_raises_nor_waits_whatever_stepwatchd_answers(
    stepwatchd: Server, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_monitor, "_ANSWER_SECONDS", 0.2)
    stepwatchd.script = [answer]
    initialize_light_monitor(stepwatchd.address)
    send_heartbeat("train_metrics", INFOS)
    send_heartbeat("train_metrics", INFOS)
    assert light_monitor.flush(30)
    assert len(stepwatchd.requests) >= 3


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "/no/such.sock", "ftp://h:1", "http://h", "x", ""])
def test_an_address_without_a_stepwatchd_is_only_logged(
    fresh: None, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    initialize_light_monitor(address)
    send_heartbeat("train_metrics", INFOS)
    send_heartbeat("train_metrics", "no dictionary")  # type: ignore[arg-type]
    uniscale_monitoring.send_meta(3)  # type: ignore[arg-type]
    light_monitor.flush(30)
    assert "light monitor" in caplog.text
    assert not address.startswith("/") or "cannot stat /no/such.sock" in caplog.text


def token_file(tmp_path: Path, mode: int = 0o600) -> str:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef-token\n")
    path.chmod(mode)
    return str(path)


def test_the_token_comes_from_a_file_and_is_never_logged(
    stepwatchd: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    configure(light_monitor_token_file=token_file(tmp_path))
    initialize_light_monitor(stepwatchd.address)
    stepwatchd.script = [(401, "0123456789abcdef-token")]
    send_heartbeat("train_metrics", INFOS)
    assert len(lines(stepwatchd)) == 2
    assert stepwatchd.requests[0][1]["Authorization"] == "Bearer 0123456789abcdef-token"
    assert "status 401" in caplog.text
    assert "abcdef" not in caplog.text


def test_a_token_that_others_can_read_is_not_sent(
    stepwatchd: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configure(light_monitor_token_file=token_file(tmp_path, 0o640))
    initialize_light_monitor(stepwatchd.address)
    send_heartbeat("train_metrics", INFOS)
    assert lines(stepwatchd) == []
    assert "mode 0600" in caplog.text


def test_a_forked_child_sends_its_own_lines_only(stepwatchd: Server) -> None:
    stepwatchd.script = [HANG]
    initialize_light_monitor(stepwatchd.address)
    send_heartbeat("train_metrics", {"step": 1})
    while not stepwatchd.requests:  # the start is under way, the beat waits
        pass
    child = os.fork()
    if child == 0:
        send_heartbeat("stage_time", {"fwd_time": 2.0})
        light_monitor.send_end("ok")  # of the run of its parent
        os._exit(0 if light_monitor.flush(30) else 1)
    assert os.waitpid(child, 0)[1] == 0
    stepwatchd.released.set()
    assert ["fwd_time" in beat for beat in beats(stepwatchd)] == [True, False]
    assert [event["kind"] for event in events(stepwatchd)].count("end") == 0


# --- uniscale_monitoring, as InternEvo's own code calls it ---


def test_internevos_own_functions_run_on_the_stand_in(stepwatchd: Server) -> None:
    uniscale_monitoring.init_monitor(stepwatchd.address, is_root_rank=True)
    uniscale_monitoring.send_meta({"step": 3, "loss": None, "msg_type": "train_metrics"}, timeout=0.1)
    uniscale_monitoring.send_exception_msg("\n  File x, line 3, in main\nValueError: bad sample", 4)
    uniscale_monitoring.send_exception_msg("Process received signal <module 'signal' from 'x'> and exited.", 4)
    light_monitor.send_end("error")
    start, exception, sign, end = events(stepwatchd)
    assert [each["kind"] for each in (start, exception, sign, end)] == ["start", "exception", "signal", "end"]
    assert (exception["type"], exception["message"]) == ("ValueError", "bad sample")
    assert [line["rank"] for line in lines(stepwatchd)] == [0, 0, 4, 4, 0]
    assert beats(stepwatchd) == [{"step": 3, "phase": "train", "loss": "nan"}]


def test_only_the_root_rank_reports_start_and_end(stepwatchd: Server) -> None:
    uniscale_monitoring.init_monitor(stepwatchd.address, is_root_rank=False)
    uniscale_monitoring.send_exception_msg("ValueError: bad sample", 4)
    light_monitor.send_end("error")
    assert [event["kind"] for event in events(stepwatchd)] == ["exception"]


def test_a_logger_formats_its_fields(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "RUN" / "job" / "logs" / "rank0.log"
    logger = uniscale_monitoring.get_logger(name="internlm-test", level="info", filename=str(path), is_std=True)
    logger.info("{line}", line="step=3 100% ", extra={"step": 3, "0_default": 1.5})
    logger.info("plain {braces}")
    logger.info("{missing}", line="x")
    logger.debug("too fine")
    text = path.read_text()
    assert "step=3 100%" in text and "plain {braces}" in text and "{missing}" in text
    assert "too fine" not in text
    assert f"{Path(__file__).name}:" in text and "in test_a_logger" in text
    assert uniscale_monitoring.get_logger(name="internlm-test", level="info", filename=str(path)) is logger
    assert len(logger.handlers) == 2
    assert "step=3" in capfd.readouterr().err


def test_a_log_file_that_cannot_be_opened_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    logger = uniscale_monitoring.get_logger(name="internlm-test-2", level="no level", filename="/proc/none/x.log")
    logger.info("goes on")
    assert "cannot write the log file" in capfd.readouterr().err


def test_the_client_needs_neither_torch_nor_the_extension() -> None:
    program = "import sys, uniscale_monitoring, stepwatch.compat.internevo\n"
    program += "assert not {'torch', 'stepwatch._core', 'internlm'} & set(sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", program]) == 0


def test_lines_are_json_whatever_the_names() -> None:
    data = beat_lines.flatten({"tgs/x y": 1, "a\udc80b": 2, "é": math.nan, "": 3, 7: 4})
    assert set(data) == {"tgs_x", "a_b", "_", "", "7"}
    json.loads(beat_lines.line_of("r", 0, 1.0, beat=beat_lines.beat_of(data, 0)))
