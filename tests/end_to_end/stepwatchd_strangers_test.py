"""stepwatchd among harmful jobs and users: one of them costs neither it nor the others anything."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from stepwatchd_process import DEADLINE_SECONDS, NO_JOBS, Stepwatchd, beat, event, start

FAKE_JOB = Path(__file__).with_name("fake_job.py")
# Ids without a user, so that no test grants a right to a real one.
ALICE, MALLORY = 54324, 54325
MIB = 1 << 20


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory that everybody can enter, with a short path."""
    directory = Path(tempfile.mkdtemp(prefix="sw-", dir="/tmp"))  # noqa: S108
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


class FakeJobs:
    """Fake jobs, each in the directory of its user."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.processes: list[subprocess.Popen[bytes]] = []

    def directory(self, uid: int) -> Path:
        """Return the directory of a user."""
        directory = self.place / str(uid)
        directory.mkdir(0o700, exist_ok=True)
        os.chown(directory, uid, uid)
        return directory

    def start(
        self, uid: int, run: str, lines: list[dict[str, Any]], metrics: str = "", python: str = sys.executable
    ) -> subprocess.Popen[bytes]:
        """Start one."""
        files = [self.place / f"{len(self.processes)}.{name}" for name in ("lines", "metrics")]
        files[0].write_text("".join(json.dumps(line) + "\n" for line in lines))
        files[1].write_text(metrics)
        # Another user can read neither this directory nor the environment of these tests.
        python = python if uid == os.geteuid() else "/usr/bin/python3"
        command = [python, "-c", FAKE_JOB.read_text(), str(self.directory(uid)), run, *map(str, files)]
        who = {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}
        self.processes.append(subprocess.Popen(command, **who))  # type: ignore[call-overload]
        return self.processes[-1]

    def settings(self, *uids: int, **more: object) -> dict[str, Any]:
        """Return settings that name the directories of these users."""
        return {"discovery": {"directories": [str(self.directory(uid)) for uid in uids]}, **more}


@pytest.fixture
def jobs(place: Path) -> Iterator[FakeJobs]:
    fake = FakeJobs(place)
    yield fake
    for process in fake.processes:
        process.kill()
        process.wait()


def lines_of(run: str, steps: int) -> list[dict[str, Any]]:
    return [start(run), *(beat(step, run=run) for step in range(1, steps + 1))]


def runs_of(daemon: Stepwatchd) -> dict[str, dict[str, Any]]:
    return {run["id"]: run for run in daemon.get("/v1/runs")["runs"]}


def test_a_value_of_120000_levels_ends_nothing_neither_now_nor_at_the_next_start(
    tmp_path: Path, jobs: FakeJobs
) -> None:
    deep = "[" * 120_000 + "]" * 120_000
    line = '{"t":2,"run":"r","rank":0,"event":{"kind":"exception","type":"E","message":' + deep + "}}"
    own = os.geteuid()
    job = jobs.start(own, "deep", lines_of("deep", 1))
    (jobs.place / "0.lines").open("a").write(line + "\n" + json.dumps(beat(2, run="deep")) + "\n")
    with Stepwatchd(tmp_path, jobs.settings(own)) as daemon:
        daemon.send(start("r", 1))
        answer = daemon.post("/v1/beats", line + "\n")
        assert (answer["taken"], answer["refused"]) == (0, 1)
        assert daemon.ask("POST", "/v1/silences", deep)[0] == 400
        assert daemon.ask("POST", "/v1/silences", f'{{"by":{deep}}}')[0] == 400
        daemon.until(lambda: runs_of(daemon).get("deep", {}).get("step") == 2)
        with daemon.store() as store:  # a line is written within a second
            daemon.until(lambda: store.execute("SELECT count(*) FROM begins WHERE run = 'r'").fetchone()[0])
        daemon.kill()
        daemon.start()
        daemon.until(lambda: "r" in runs_of(daemon))  # the store may take a while to open
    assert job.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be several users")
@pytest.mark.parametrize("lie", ["ok", "clock"])
def test_lines_of_another_user_about_a_run_end_no_job_of_it(tmp_path: Path, jobs: FakeJobs, lie: str) -> None:
    job = jobs.start(ALICE, "r", lines_of("r", 4))
    lies: list[dict[str, Any]] = lines_of("r", 9)
    if lie == "ok":
        lies.append({**event("r", "end", reason="ok"), "rank": 0})
    else:
        lies.append(event("r", "clock_step", seconds=-1e6))
    with Stepwatchd(tmp_path, jobs.settings(ALICE, MALLORY)) as daemon:
        daemon.until(lambda: runs_of(daemon).get("r", {}).get("step") == 4)
        jobs.start(MALLORY, "r", lies)
        daemon.until(lambda: f"r~uid{MALLORY}" in runs_of(daemon))
        assert (runs_of(daemon)["r"]["state"], runs_of(daemon)["r"]["step"]) == ("train", 4)
        job.kill()
        job.wait()
        assert daemon.incident_of("r")["incident"] == "process_lost"


def test_many_large_answers_take_little_memory_and_are_counted(tmp_path: Path, jobs: FakeJobs) -> None:
    own = os.geteuid()
    for number in range(30):
        jobs.start(own, f"r{number}", lines_of(f"r{number}", 1))
        text = json.dumps(beat(1, run=f"r{number}") | {"padding": "x" * 1000})
        (jobs.place / f"{number}.lines").write_text((text + "\n") * (15 * MIB // len(text)))
    jobs.start(own, "small", lines_of("small", 3))
    with Stepwatchd(tmp_path, jobs.settings(own)) as daemon:
        daemon.until(lambda: runs_of(daemon).get("small", {}).get("step") == 3)
        daemon.until(lambda: daemon.metric("stepwatchd_jobs_left_out_total") >= 30)
        assert daemon.process is not None
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
        assert peak < 250, f"{peak} MiB"
        assert "logged once, counted in /metrics" in daemon.log.read_text()


def test_a_burst_reaches_the_upstream_whole(tmp_path: Path) -> None:
    received: list[int] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = self.rfile.read(size)
            self.send_response(413 if size > 2 * MIB else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            if size <= 2 * MIB:
                received.append(body.count(b"\n"))

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        with Stepwatchd(tmp_path, {**NO_JOBS, "upstream": {"url": url}}) as daemon:
            many = MIB // 4 // 130
            for part in range(48):
                lines = (json.dumps(beat(part * many + step)) for step in range(many))
                daemon.post("/v1/beats", "\n".join(lines))
            daemon.until(lambda: sum(received) == 48 * many)
            assert daemon.metric("stepwatchd_upstream_dropped_bytes_total") == 0
        server.shutdown()


def test_bad_metrics_of_one_job_spoil_the_page_of_no_other(tmp_path: Path, jobs: FakeJobs) -> None:
    own = os.geteuid()
    bad = (
        '# TYPE a gauge\na{x="\\q"} 1\na{x="1",x="2"} 1\na nan(x)\na{__name__="b"} 1\n# TYPE a counter\n'
        "# TYPE h histogram\nh_bucket 1\n# TYPE stepwatchd_runs gauge\nstepwatchd_runs 1\n\0\n{} 1\n"
        "# TYPE c_count counter\nc_count 1\n# HELP d \\x\nd\n"
    )
    jobs.start(own, "bad", lines_of("bad", 1), bad)
    jobs.start(own, "good", lines_of("good", 1), "# TYPE c summary\nc_count 7\n# TYPE a gauge\na 8\n")
    with Stepwatchd(tmp_path, jobs.settings(own)) as daemon:
        daemon.until(lambda: {"bad", "good"} <= set(runs_of(daemon)))
        page = daemon.ask("GET", "/metrics")[2]
        assert 'a{run="good",rank="0"' in page
        assert daemon.metric("stepwatchd_jobs_families_refused") >= 3
        if (found := shutil.which("promtool")) is not None:
            checked = subprocess.run(
                [found, "check", "metrics"], input=page, text=True, capture_output=True, check=False, timeout=60
            )
            assert "error while linting" not in checked.stderr, checked.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_tool_that_hangs_does_not_outlive_stepwatchd(tmp_path: Path, jobs: FakeJobs, number: int) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    pids = tmp_path / "pids"
    script = tools / "py-spy"
    script.write_text(f"#!/bin/sh\ntrap '' TERM\nsleep 1000 &\necho $$ $! >>{pids}\nwhile :; do sleep 1; done\n")
    script.chmod(0o755)
    # The one beside the interpreter is taken.
    (tools / "python").symlink_to(Path(sys.executable).resolve())
    own = os.geteuid()
    job = jobs.start(own, "r", lines_of("r", 20), python=str(tools / "python"))
    rules = {"stuck": {"silence_seconds_min": 2, "witness_seconds": 1}}
    with Stepwatchd(tmp_path, jobs.settings(own, detectors=rules)) as daemon:
        daemon.until(lambda: runs_of(daemon).get("r", {}).get("step") == 20)
        job.send_signal(signal.SIGSTOP)
        daemon.until(lambda: pids.exists() and pids.read_text())
        daemon.kill(number)
        for pid in pids.read_text().split():
            with contextlib.suppress(FileNotFoundError):
                deadline = time.monotonic() + DEADLINE_SECONDS
                while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
