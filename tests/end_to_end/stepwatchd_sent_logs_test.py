"""Logs that others send to stepwatchd: requests, syslog, the journal and the kernel, up to incidents and outputs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import socketserver
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import python_programs
from monitoring_tools import free_ports, provisioned
from provision_logs_test import main_config, rsyslog
from stepwatchd_process import NO_JOBS, Stepwatchd, beat, own_jobs, start

JOB = Path(__file__).with_name("stepwatchd_job.py")
JOURNAL_WRITER = Path("/lib/systemd/systemd-journal-remote")


def settings_with(**logs: Any) -> dict[str, Any]:
    return {**NO_JOBS, "logs": logs}


def output_to(path: Path) -> dict[str, Any]:
    return {"name": "file", "type": "file", "path": str(path)}


def records_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def messages_in(path: Path) -> list[str]:
    return [record["message"] for record in records_in(path)]


def ndjson(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


def line(text: str, offset: int, **members: Any) -> dict[str, Any]:
    """Return a line as Fluent Bit sends it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"@timestamp": now, "log.file.path": "/logs/a.log", "log.offset": offset, "message": text, **members}


# --- requests ---


def test_lines_of_a_request_open_the_incident_of_a_run_without_a_monitor(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path, settings_with()) as running:
        lines = [line(f"[rank3]: iteration {step}/100 | lm loss: 2.5E+00 |", step) for step in range(10)]
        answer = running.post("/v1/logs?run=job7", ndjson(*lines))
        assert (answer["taken"], answer["refused"]) == (10, 0)
        running.post("/v1/logs?run=job7", ndjson(line("[rank3]: iteration 11/100 | lm loss: nan |", 11)))
        incident = running.incident_of("job7")
        assert (incident["incident"], incident["ranks"]) == ("loss_nonfinite", [3])


def test_a_request_that_is_sent_again_gives_each_record_once(tmp_path: Path) -> None:
    kept = tmp_path / "records.jsonl"
    with Stepwatchd(tmp_path, settings_with(outputs=[output_to(kept)])) as running:
        body = ndjson(line("hello", 0), line("world", 6))
        for _ in range(3):
            running.post("/v1/logs", body)
        assert messages_in(kept) == ["hello", "world"], "the answer comes once the records are in the output"
        assert all(record["event.id"] for record in records_in(kept))
        assert running.metric("stepwatchd_logs_repeated_lines_total") == 4


def test_what_is_wrong_with_a_request_is_in_its_answer(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path, settings_with()) as running:
        answer = running.post("/v1/logs", ndjson({"message": "a"}) + "plain\n")
        assert (answer["taken"], answer["refused"]) == (1, 1)
        assert answer["refusals"][0]["line"] == 2
        for body, status in (("plain text", 400), ("[", 400), ("x" * (9 << 20), 413)):
            assert running.ask("POST", "/v1/logs", body)[0] == status
        assert running.ask("POST", "/v1/logs?rank=-1", "{}")[0] == 400
        assert running.ask("PUT", "/v1/logs")[0] in (404, 405)
        deep = '{"message":"a","x":' + "[" * 100 + "]" * 100 + "}"
        assert running.ask("POST", "/v1/logs", deep)[0] == 400


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Type: application/x-protobuf", 415),
        ("Content-Encoding: gzip", 415),
        ("Content-Type: application/json; charset=utf-8", 200),
        ("Content-Type: application/x-ndjson", 200),
    ],
)
def test_only_plain_json_is_accepted(tmp_path: Path, header: str, status: int) -> None:
    with Stepwatchd(tmp_path, settings_with()) as running:
        body = '{"message":"a"}'
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(running.socket))
            request = (
                f"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\n{header}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            )
            client.sendall(request.encode())
            assert client.recv(4096).split()[1] == str(status).encode()


def test_a_request_of_otlp_gets_the_answer_of_its_specification(tmp_path: Path) -> None:
    def request(*records: dict[str, Any]) -> dict[str, Any]:
        resource = {"attributes": [{"key": "run.id", "value": {"stringValue": "job8"}}]}
        return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": list(records)}]}]}

    def record(text: str) -> dict[str, Any]:
        return {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": text}, "severityNumber": 9}

    with Stepwatchd(tmp_path, settings_with()) as running:
        assert running.post("/v1/logs", request(*[record(f"step {i} loss 2.0") for i in range(5)])) == {}
        answer = running.post("/v1/logs", request(record("step 6 loss nan"), {"timeUnixNano": "1"}))
        assert answer["partialSuccess"]["rejectedLogRecords"] == "1"
        assert running.incident_of("job8")["incident"] == "loss_nonfinite"


# --- syslog ---


def test_rsyslog_with_the_provisioned_file_ends_in_an_incident_and_in_the_output_once(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    training = tmp_path / "training"
    training.mkdir()
    log = training / "job9.log"
    directory = provisioned(tmp_path, "--logs", f"{training}/*.log", "--syslog", f"127.0.0.1:{port}")
    config = main_config(tmp_path, directory / "logs/rsyslog.conf")
    kept = tmp_path / "records.jsonl"
    settings = settings_with(syslog=f"127.0.0.1:{port}", paths=[f"{training}/{{run}}.log"], outputs=[output_to(kept)])
    lines = [f"step {number} loss 2.5 é" for number in range(1000)]
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ValueError: bad]"]
    log.write_text("".join(f"{each}\n" for each in lines))
    with Stepwatchd(tmp_path, settings) as running, rsyslog(tmp_path, config):
        running.until(lambda: len(records_in(kept)) == 1000)
        log.rename(training / "job9.log.1")
        log.write_text("".join(f"{each}\n" for each in trace))
        running.until(lambda: len(records_in(kept)) == 1001)
        assert messages_in(kept)[:1000] == lines
        last = records_in(kept)[-1]
        assert (last["error.type"], last["log.file.path"], last["run.id"]) == ("ValueError", str(log), "job9")
        assert running.incident_of("job9")["incident"] == "exception"
        assert running.metric("stepwatchd_logs_repeated_lines_total") == 0


def test_rsyslog_keeps_lines_while_stepwatchd_is_away(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    training = tmp_path / "training"
    training.mkdir()
    log = training / "job9.log"
    directory = provisioned(tmp_path, "--logs", f"{training}/*.log", "--syslog", f"127.0.0.1:{port}")
    config = main_config(tmp_path, directory / "logs/rsyslog.conf")
    kept = tmp_path / "records.jsonl"
    log.write_text("first\n")
    with Stepwatchd(tmp_path, settings_with(syslog=f"127.0.0.1:{port}", outputs=[output_to(kept)])) as running:
        with rsyslog(tmp_path, config):
            running.until(lambda: messages_in(kept) == ["first"])
            running.kill(signal.SIGTERM)
            with log.open("a") as more:
                more.write("".join(f"later {number}\n" for number in range(100)))
            running.start()
            running.until(lambda: "later 99" in messages_in(kept))
        # It sends a batch again after a lost connection; the message that it wrote first may be lost.
        later = [text for text in messages_in(kept) if text.startswith("later")]
        assert later == sorted(set(later), key=lambda text: int(text.split()[1])) and len(later) >= 99


def test_other_senders_of_syslog_are_bounded(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    kept = tmp_path / "records.jsonl"
    settings = settings_with(syslog=f"127.0.0.1:{port}", outputs=[output_to(kept)])
    with Stepwatchd(tmp_path, settings) as running:
        running.until(lambda: "logs.syslog is open" in running.log.read_text())
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"<11>1 2026-11-28T09:00:00Z h app - - - by line\n<14>Oct 11 22:14:15 h su: old form\nlast")
        with socket.create_connection(("127.0.0.1", port)) as counted:
            message = b"<11>1 - h app - - - two\nlines."
            counted.sendall(b"%d %b" % (len(message), message))
            running.until(lambda: len(records_in(kept)) == 4)
        first = next(record for record in records_in(kept) if record["message"] == "by line")
        assert (first["log.level"], first["host.name"], first["log.logger"]) == ("error", "h", "app")
        with socket.create_connection(("127.0.0.1", port)) as wrong:
            wrong.sendall(b"12345678901 x")
            assert wrong.recv(1) == b"", "it is closed"
        running.until(lambda: running.metric("stepwatchd_logs_syslog_broken_total") == 1)
        many = [socket.create_connection(("127.0.0.1", port)) for _ in range(70)]
        running.until(lambda: running.metric("stepwatchd_logs_syslog_refused_total") >= 6)
        for each in many:
            each.close()
        running.until(lambda: running.metric("stepwatchd_logs_syslog_connections") == 0)


def test_an_address_that_is_taken_is_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = Stepwatchd(tmp_path, settings_with(syslog=f"127.0.0.1:{port}"))
        with running:
            running.until(lambda: "logs.syslog is not open" in running.log.read_text())
            taken.close()
            running.until(lambda: "logs.syslog is open" in running.log.read_text())


# --- the journal and the kernel ---


def add_to_journal(directory: Path, number: int, text: str, **fields: str) -> None:
    members = {
        "__REALTIME_TIMESTAMP": str(time.time_ns() // 1000),
        "__MONOTONIC_TIMESTAMP": str(number * 1_000_000),
        "_BOOT_ID": "fdfa7d7a2f304e5c8b4f5e3a3a0a3b10",
        "_HOSTNAME": socket.gethostname(),
        "_SYSTEMD_UNIT": "train.service",
        "MESSAGE": text,
        **fields,
    }
    entry = "".join(f"{name}={value}\n" for name, value in members.items()) + "\n"
    command = [str(JOURNAL_WRITER), "-o", str(directory / "remote.journal"), "-"]
    subprocess.run(command, input=entry.encode(), check=True, capture_output=True, timeout=60)


@pytest.mark.skipif(not JOURNAL_WRITER.exists(), reason="systemd-journal-remote is not installed")
def test_the_journal_is_read_once_over_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    kept = tmp_path / "records.jsonl"
    add_to_journal(journal, 1, "before the first start")
    settings = settings_with(journal=["train"], journal_directory=str(journal), outputs=[output_to(kept)])
    with Stepwatchd(tmp_path, settings) as running:
        # The end of the journal is looked for in the background.
        count = [1]

        def sees_more() -> bool:
            count[0] += 1
            add_to_journal(journal, count[0], f"line {count[0]}")
            return bool(records_in(kept))

        running.until(sees_more)
        last = f"line {count[0]}"
        running.until(lambda: last in messages_in(kept))
        running.until((tmp_path / "state/log_journal").exists)
        running.kill(signal.SIGTERM)
        add_to_journal(journal, 1000, "while it was away")
        running.start()
        running.until(lambda: "while it was away" in messages_in(kept))
        messages = messages_in(kept)
        assert "before the first start" not in messages
        assert records_in(kept)[0]["log.file.path"] == "train.service"
        assert messages.count("while it was away") == 1
    # A kill may repeat the last batch, under the same ids.
    identities = {record["event.id"] for record in records_in(kept)}
    assert len(identities) == len(set(messages_in(kept)))


@pytest.mark.skipif(not JOURNAL_WRITER.exists(), reason="systemd-journal-remote is not installed")
def test_a_kill_by_the_kernel_is_an_incident_of_the_run_whose_process_it_was(tmp_path: Path) -> None:
    pytest.importorskip("stepwatch", reason="the Python package is not installed")
    pytest.importorskip("torch")
    journal = tmp_path / "journal"
    journal.mkdir()
    add_to_journal(journal, 1, "before the first start", _TRANSPORT="kernel")
    settings = {**own_jobs(), "logs": {"journal": ["_TRANSPORT=kernel"], "journal_directory": str(journal)}}
    with Stepwatchd(tmp_path, settings) as running:
        job = python_programs.start([str(JOB), str(tmp_path), "100000"], env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            running.until(lambda: [run for run in running.get("/v1/runs")["runs"] if (run["step"] or 0) > 20])
            run = str(running.get("/v1/runs")["runs"][0]["id"])
            number = itertools.count(2)

            def has_incident() -> bool:
                # The process becomes known some moments after the first steps of its run.
                for pid in (1, job.pid):
                    text = f"Out of memory: Killed process {pid} (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB"
                    add_to_journal(journal, next(number), text, _TRANSPORT="kernel")
                return bool(running.incidents(run))

            running.until(has_incident)
            incident = running.incidents(run)[0]
            assert (incident["incident"], incident["ranks"]) == ("out_of_memory", [0]), incident
            assert f"Killed process {job.pid}" in incident["evidence"]["message"], incident
        finally:
            job.kill()
            job.wait()


def test_the_log_of_the_kernel_is_opened_or_reported(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path, settings_with(kmsg=True)) as running:
        readable = os.access("/dev/kmsg", os.R_OK)
        page = running.ask("GET", "/metrics")[2]
        assert "stepwatchd_logs_kernel_overruns_total" in page
        if not readable:
            running.until(lambda: "logs.kmsg: /dev/kmsg cannot be opened" in running.log.read_text())


# --- NCCL ---


class Ras(socketserver.StreamRequestHandler):
    """Speaks as NCCL's RAS does."""

    def handle(self) -> None:
        assert self.rfile.readline() == b"CLIENT PROTOCOL 2\n"
        self.wfile.write(b"SERVER PROTOCOL 2\n")
        assert self.rfile.readline() == b"VERBOSE STATUS\n"
        self.wfile.write(b"NCCL version 2.24.3 compiled with CUDA 12.6\n\nJob summary\n===========\n")


def test_a_run_that_is_stuck_has_the_answer_of_nccl_as_evidence(tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Ras) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {
            **settings_with(nccl_ras=f"127.0.0.1:{server.server_address[1]}"),
            "detectors": {
                "stuck": {
                    "silence_seconds_min": 1,
                    "phase_seconds": 1,
                    "phase_alive_seconds": 1,
                    "phase_seconds_min": 1,
                }
            },
        }
        with Stepwatchd(tmp_path, settings) as running:
            running.send(start("r1", world=1))
            for step in range(1, 20):
                running.send(beat(step, run="r1"))
                time.sleep(0.05)

            def has_answer() -> bool:
                found = [each for each in running.incidents("r1") if each["incident"] == "stuck"]
                return bool(found) and "Job summary" in found[0]["evidence"].get("nccl_ras", "")

            running.until(has_answer)
        server.shutdown()
