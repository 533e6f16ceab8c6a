"""`stepwatch.jobs()`: running jobs asked from another process, through a fake and a real control socket."""

from __future__ import annotations

import importlib
import json
import os
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from build_tree import STEPWATCH

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "front_ends/python"
BINARY = STEPWATCH
try:
    import stepwatch
except ImportError:  # nothing of it that is built is needed here
    sys.path.insert(0, str(PACKAGE))
    import stepwatch

ON = b'{"dynamic_on": true, "collect_times": 3, "wg_distribution": true}'
NAN = "NaN"


class FakeJobSocket(socketserver.ThreadingUnixStreamServer):
    """Gives prepared answers, and keeps the requests."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.path = path
        self.answers: dict[str, tuple[int, Any]] = {"GET /v1/status": (200, status())}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.event_pages: list[list[dict[str, Any]]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.path.unlink()

    def headers_of(self, target: str) -> dict[str, str]:
        return [headers for _, asked, headers, _ in self.asked if asked == target][-1]


class Handler(BaseHTTPRequestHandler):
    server: FakeJobSocket
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802
        self.answer()

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def address_string(self) -> str:
        return ""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        if self.path == "/v1/events":
            return self.stream()
        code, value = self.server.answers.get(f"{self.command} {self.path}", (404, error("not_found", "not here")))
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b": the control socket is open\n\n")
        after = int(self.headers.get("Last-Event-ID", 0))
        page = self.server.event_pages.pop(0) if self.server.event_pages else []
        for event in page:
            if event.get("id", after + 1) <= after:
                continue
            number = f"id: {event['id']}\n" if "id" in event else ""
            self.wfile.write(f"{number}event: {event['event']}\ndata: {json.dumps(event)}\n\n".encode())


def status(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "state": "IDLE",
        "config_path": "/x/config.json",
        "rank": 0,
        "run_id": "abc",
        "plan": None,
        "armed": None,
        "file_sha256": "f" * 64,
        "newest_event": 7,
        **changes,
    }


def error(code: str, message: str, **place: Any) -> dict[str, Any]:
    return {"version": 1, "error": {"code": code, "message": message, **place}}


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "r"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def job_socket(runtime: Path) -> Iterator[FakeJobSocket]:
    fake = FakeJobSocket(runtime / "4711-1.sock")
    yield fake
    if fake.path.exists():
        fake.close()


@pytest.fixture
def job(job_socket: FakeJobSocket) -> stepwatch.Job:
    (found,) = mine(stepwatch.jobs(), job_socket.path.parent)
    return found


def mine(jobs: list[stepwatch.Job], runtime: Path) -> list[stepwatch.Job]:
    """Leave out jobs of this user that have nothing to do with the test."""
    return [job for job in jobs if Path(job.socket_path).parent == runtime]


def test_neither_torch_nor_the_native_core_is_loaded() -> None:
    code = "import stepwatch, sys; stepwatch.jobs(); print([m for m in sys.modules if 'torch' in m or '_core' in m])"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).strip() == "[]"


def test_the_functions_are_not_hidden_by_their_modules() -> None:
    code = (
        "import stepwatch.jobs, stepwatch; from stepwatch.jobs import Job; "
        "assert stepwatch.jobs() is not None and stepwatch.Job is Job; "
        "assert {'TrainerMon', 'watch', 'jobs'} <= set(dir(stepwatch)); "
        "assert not hasattr(stepwatch, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})


def test_a_job_is_found_with_its_identity(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    assert (job.name, job.pid, job.rank, job.run_id) == ("4711-1", 4711, 0, "abc")
    assert repr(job) == "<stepwatch job 4711-1, rank 0, /x/config.json>"
    assert job.status()["state"] == "IDLE"


def test_other_files_are_passed_over(runtime: Path, job_socket: FakeJobSocket) -> None:
    (runtime / "12-1.sock").write_text("a file")
    (runtime / ".13-1.sock").write_text("hidden")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(runtime / "14-1.sock"))
    (runtime / "15-1.sock").symlink_to(job_socket.path)
    (runtime / "notes.txt").write_text("")
    assert [job.name for job in mine(stepwatch.jobs(), runtime)] == ["4711-1"]


def test_a_job_that_is_there_and_silent_is_listed_as_such(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stepwatch.jobs"], "_LISTING_SECONDS", 0.2)
    monkeypatch.setattr(sys.modules["stepwatch.control_socket"], "ANSWER_SECONDS", 0.2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(runtime / "14-1.sock"))
        silent.listen()
        (job,) = mine(stepwatch.jobs(), runtime)
        assert "has not answered" in repr(job)
        with pytest.raises(stepwatch.JobUnreachableError, match="has not answered"):
            job.status()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o711])
def test_a_directory_that_others_can_enter_is_not_searched(job: stepwatch.Job, runtime: Path, mode: int) -> None:
    runtime.chmod(mode)
    assert mine(stepwatch.jobs(), runtime) == []
    with pytest.raises(stepwatch.JobUnreachableError, match="with mode 0700"):
        job.status()


def test_a_directory_that_is_a_link_is_not_searched(
    job_socket: FakeJobSocket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(job_socket.path.parent)
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(link))
    assert mine(stepwatch.jobs(), link) == []


def test_a_job_of_another_user_gets_no_request(
    job: stepwatch.Job, job_socket: FakeJobSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = len(job_socket.asked)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    monkeypatch.setattr(sys.modules["stepwatch.control_socket"], "_check_owner", lambda path: None)
    if user == 0:  # root may serve everybody
        # Replaced for this module alone: pytest-xdist unpacks its messages with the same function, on another thread.
        unpack = types.SimpleNamespace(calcsize=struct.calcsize, unpack=lambda *_: (1, user + 2, 0))
        monkeypatch.setattr(sys.modules["stepwatch.control_socket"], "struct", unpack)
    with pytest.raises(stepwatch.JobUnreachableError, match="another user"):
        job.status()
    assert len(job_socket.asked) == asked


def test_latest_values_are_numbers_by_tag(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    values = [
        {"name": "fc.weight", "tag": "0:fc.weight/rank0/post_grad", "values": {"norm": 1.5, "nans": 2}},
        {"name": "fc.bias", "tag": "0:fc.bias/rank0/post_grad", "values": {"norm": NAN, "max": "-Infinity"}},
    ]
    job_socket.answers["GET /v1/latest/grad_reduced"] = (200, {"version": 1, "kind": "grad_reduced", "values": values})
    latest = job.latest("grad_reduced")
    assert latest["0:fc.weight/rank0/post_grad"] == {"norm": 1.5, "nans": 2}
    assert latest["0:fc.bias/rank0/post_grad"]["max"] == float("-inf")
    assert latest["0:fc.bias/rank0/post_grad"]["norm"] != latest["0:fc.bias/rank0/post_grad"]["norm"]


def test_an_error_has_its_reason_and_its_place(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    job_socket.answers["POST /v1/apply"] = (422, error("refused", "is no list", line=2, column=10, key="ops"))
    with pytest.raises(stepwatch.JobError, match="is no list") as caught:
        job.apply('{\n  "ops": 1}')
    assert (caught.value.status, caught.value.code) == (422, "refused")
    assert (caught.value.line, caught.value.column, caught.value.key) == (2, 10, "ops")
    with pytest.raises(stepwatch.JobError) as caught:
        job.latest("nothing")
    assert (caught.value.status, caught.value.code, caught.value.line) == (404, "not_found", None)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff\xfe"])
def test_an_answer_that_is_no_object_is_an_error(job: stepwatch.Job, job_socket: FakeJobSocket, text: bytes) -> None:
    job_socket.answers["GET /v1/status"] = (200, text)
    with pytest.raises(stepwatch.JobUnreachableError, match="not a JSON object"):
        job.status()
    job_socket.answers["GET /v1/status"] = (500, text)
    with pytest.raises(stepwatch.JobError, match="status 500"):
        job.status()


def test_a_config_is_sent_as_it_is_or_made_of_a_dict(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    job_socket.answers["POST /v1/apply"] = (200, {"version": 1, "outcome": "written"})
    for config in (ON, ON.decode(), json.loads(ON)):
        assert job.apply(config, if_match="f" * 64)["outcome"] == "written"
        assert json.loads(job_socket.asked[-1][3]) == json.loads(ON)
        assert job_socket.headers_of("/v1/apply")["If-Match"] == f'"{"f" * 64}"'
    assert job_socket.asked[-2][3] == ON
    job_socket.answers["POST /v1/apply?at_step=400"] = (200, {"version": 1, "outcome": "written", "at_step": 400})
    assert job.apply(ON, at_step=400)["at_step"] == 400
    for verb in (job.start, job.stop):
        job_socket.answers[f"POST /v1/{verb.__name__}"] = (412, error("precondition_failed", "the file holds abc"))
        with pytest.raises(stepwatch.JobError, match="the file holds abc"):
            verb(if_match="e" * 64)
    with pytest.raises(ValueError, match="drained"):
        job.apply(ON, wait="done")


def test_events_are_followed_over_a_connection_that_is_cut_off(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    pages = [{"event": "seen", "id": 8}, {"event": "armed", "id": 9, "plan": 1}]
    job_socket.event_pages = [
        pages,
        [*pages, {"event": "gap", "missed": 3}, {"event": "applied", "id": 13, "plan": 1}],
        [],
    ]
    events = job.events()
    assert [next(events)["event"] for _ in range(4)] == ["seen", "armed", "gap", "applied"]
    assert job_socket.headers_of("/v1/events")["Last-Event-ID"] == "9"
    job_socket.close()
    assert list(events) == []
    with pytest.raises(stepwatch.JobUnreachableError):
        next(job.events())


def taken(job_socket: FakeJobSocket, how: str, *events: dict[str, Any], **answer: Any) -> None:
    """Let the job accept an edit so, and send these events."""
    change = {"version": 1, "outcome": "written", "sha256": "a" * 64, "taken": how, "plan_id": None, **answer}
    job_socket.answers["POST /v1/apply"] = (200, change)
    old = [{"event": "armed", "id": 7, "plan": 1}, {"event": "seen", "id": 8, "sha256": "a" * 64}]
    job_socket.event_pages = [[*old, *events]]


ARMED, APPLIED = {"event": "armed", "id": 9, "plan": 2}, {"event": "applied", "id": 11, "plan": 2}
OTHERS, DRAINED = {"event": "drained", "id": 10, "plan": 1}, {"event": "drained", "id": 12, "plan": 2}


@pytest.mark.parametrize("plan_id", [2, None])
def test_apply_waits_for_its_own_plan(job: stepwatch.Job, job_socket: FakeJobSocket, plan_id: int | None) -> None:
    taken(job_socket, "armed" if plan_id else "pending", ARMED, OTHERS, APPLIED, plan_id=plan_id)
    job.apply(ON, wait="applied", timeout=20)
    assert job_socket.headers_of("/v1/events")["Last-Event-ID"] == "7"
    taken(job_socket, "armed" if plan_id else "pending", ARMED, OTHERS, APPLIED, DRAINED, plan_id=plan_id)
    job.apply(ON, wait="drained", timeout=20)
    aborted = {"event": "aborted", "id": 10, "plan": 2, "message": "rank 3 has not answered"}
    taken(job_socket, "armed", ARMED, OTHERS, aborted, plan_id=plan_id)
    with pytest.raises(TimeoutError, match="not drained yet.*rank 3 has not answered"):
        job.apply(ON, wait="drained", timeout=0.5)


def test_apply_returns_at_once_when_it_is_so_already(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    taken(job_socket, "running", plan_id=2)
    job_socket.answers["GET /v1/status"] = (
        200,
        status(state="COLLECTING", plan={"config_sha256": "a" * 64, "plan_id": 2}),
    )
    assert job.apply(ON, wait="applied", timeout=20)["taken"] == "running"


def test_apply_reports_an_edit_or_refusal_in_between(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    taken(job_socket, "armed", ARMED, {"event": "superseded", "id": 10, "plan": 2}, plan_id=2)
    with pytest.raises(stepwatch.JobError, match="a newer edit"):
        job.apply(ON, wait="applied", timeout=20)
    taken(job_socket, "superseded")
    with pytest.raises(stepwatch.JobError, match="a newer edit"):
        job.apply(ON, wait="applied", timeout=20)
    taken(
        job_socket,
        "pending",
        {"event": "refused", "id": 9, "sha256": "a" * 64, "message": "no such statistic", "line": 3},
    )
    with pytest.raises(stepwatch.JobError, match="no such statistic") as caught:
        job.apply(ON, wait="applied", timeout=20)
    assert (caught.value.code, caught.value.line) == ("refused", 3)
    taken(job_socket, "refused", refusal={"message": "rank 3 refuses it", "key": "ops"})
    with pytest.raises(stepwatch.JobError, match="rank 3 refuses it") as caught:
        job.apply(ON)
    assert (caught.value.status, caught.value.key) == (422, "ops")


def test_a_config_that_collects_nothing_is_in_force_at_once(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    taken(job_socket, "off")
    job.apply(ON, wait="drained", timeout=20)
    taken(job_socket, "stopping", OTHERS, plan_id=1)
    job.apply(ON, wait="applied", timeout=20)
    job.apply(ON, wait="drained", timeout=20)


def test_the_history_is_a_list_of_lines(job: stepwatch.Job, job_socket: FakeJobSocket) -> None:
    answer = {"version": 1, "directory": "/x", "lines_in_all": 1, "lines": [{"kind": "edit"}], "notes": []}
    job_socket.answers["GET /v1/history?limit=3"] = (200, answer)
    assert job.history(limit=3) == [{"kind": "edit"}]


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")
def test_a_real_job_is_asked(runtime: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"dynamic_on": false}')
    command = [str(BINARY), "rehearse", str(config), "--dynamic", "--steps", "1000000", "--step-time", "5ms"]
    with subprocess.Popen([*command, "--out", str(tmp_path / "out")], stdout=subprocess.DEVNULL) as process:
        try:
            (job,) = wait_for(lambda: mine(stepwatch.jobs(), runtime))
            assert job.pid == process.pid and job.config_path == str(config)
            assert wait_for(lambda: job.status()["state"] == "IDLE")
            forever = {**json.loads(ON), "collect_times": 1000000}
            assert job.plan(forever)["state"] == "differs"
            with pytest.raises(stepwatch.JobError, match="unknown kind"):
                job.latest("nothing")
            config.write_text(json.dumps(forever))
            kinds = []
            for event in job.events():
                kinds.append(event["event"])
                if event["event"] == "applied":
                    break
            assert kinds[-3:] == ["seen", "armed", "applied"]
            latest = wait_for(lambda: job.latest("grad_reduced"))
            assert all(values["norm"] > 0 for values in latest.values())
        finally:
            process.kill()
    with pytest.raises(stepwatch.JobUnreachableError):
        job.status()
    assert mine(stepwatch.jobs(), runtime) == []


def wait_for(question: Any) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if answer := question():
            return answer
        time.sleep(0.01)
    raise AssertionError("it has not come to pass")


def test_the_former_name_of_the_module_is_the_same_functions_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="stepwatch.control_socket"):
        former = importlib.import_module("stepwatch.door")
    assert former.ask is importlib.import_module("stepwatch.control_socket").ask
