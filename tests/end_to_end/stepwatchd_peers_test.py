"""stepwatchd among others: systemd, readers of a group, peers that do harm, and no descriptors left."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_socket_client import UnixConnection
from stepwatchd_process import DEADLINE_SECONDS, NO_JOBS, Stepwatchd, beat, start

# Ids without a user, so that no test grants a right to a real one.
READERS, READER, STRANGER = 54321, 54322, 54323


class FakeSystemd:
    """The notification socket of systemd."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.socket.bind(address)

    def until(self, wanted: str) -> list[str]:
        """Return the messages up to the first that begins with `wanted`."""
        messages = []
        while not messages or not messages[-1].startswith(wanted):
            messages.append(self.socket.recv(4096).decode())
        return messages


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_notified_of_every_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool) -> None:
    name = f"@stepwatchd-test-{os.getpid()}" if is_abstract else f"{os.environ['STEPWATCH_RUNTIME_DIR']}.notify"
    with FakeSystemd(name.replace("@", "\0") if is_abstract else name).socket as bound:
        systemd = FakeSystemd.__new__(FakeSystemd)
        systemd.socket = bound
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        with Stepwatchd(tmp_path) as daemon:
            assert systemd.until("READY=1") == ["READY=1"]
            systemd.until("WATCHDOG=1")
            systemd.until("WATCHDOG=1")
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGHUP)
            reloading = systemd.until("RELOADING=1")[-1].splitlines()
            assert 0 < int(reloading[1].removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
            systemd.until("READY=1")
            daemon.kill(signal.SIGTERM)
            systemd.until("STOPPING=1")
    if not is_abstract:
        Path(name).unlink()


@pytest.fixture
def shared_directory() -> Iterator[Path]:
    """Return a runtime directory that other users can reach."""
    directory = Path(tempfile.mkdtemp(prefix="sw"))
    yield directory
    shutil.rmtree(directory)


def ask_as(user: int, group: int, path: Path, method: str, target: str) -> int:
    """Return the status of the answer to another user; 0: no connection."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 0
        try:
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            connection = UnixConnection(path)
            connection.request(method, target, None if method == "GET" else json.dumps(beat(1)))
            status = connection.getresponse().status
        except OSError:
            pass
        finally:
            os.write(writing, str(status).encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as status_text:
        return int(status_text.read())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_users_of_the_readers_group_may_get_and_not_post_and_others_may_neither(
    tmp_path: Path, shared_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(shared_directory))
    with Stepwatchd(tmp_path, {"listen": {"readers": str(READERS)}, **NO_JOBS}) as daemon:
        daemon.send(start(), beat(1))
        assert ask_as(READER, READERS, daemon.socket, "GET", "/v1/runs") == 200
        assert ask_as(READER, READERS, daemon.socket, "POST", "/v1/beats") == 403
        assert ask_as(READER, READERS, daemon.socket, "POST", "/v1/silences") == 403
        assert ask_as(STRANGER, STRANGER, daemon.socket, "GET", "/v1/runs") == 0
        assert ask_as(0, 0, daemon.socket, "POST", "/v1/beats") == 200


def test_without_descriptors_it_loses_no_incident_and_recovers(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path) as daemon:
        assert daemon.process is not None
        pid = daemon.process.pid
        kept = UnixConnection(daemon.socket)
        kept.connect()
        assert kept.sock is not None

        def send(*lines: dict[str, object]) -> int:
            kept.request("POST", "/v1/beats", "".join(json.dumps(line) + "\n" for line in lines))
            answer = kept.getresponse()
            answer.read()
            return answer.status

        assert send(start(), *[beat(step) for step in range(10)]) == 200
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        # New peers wait, and are answered later.
        waiting = [UnixConnection(daemon.socket) for _ in range(8)]
        for each in waiting:
            each.request("GET", "/v1/runs")
        assert send(*[beat(step, "nan") for step in range(10, 14)]) == 200

        def opened() -> bool:
            return "loss_nonfinite" in daemon.log.read_text()

        daemon.until(opened)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert [each.getresponse().status for each in waiting] == [200] * len(waiting)
        for each in [kept, *waiting]:
            each.close()
        (incident,) = daemon.incidents()
        daemon.kill()
        daemon.start()
        assert [each["id"] for each in daemon.incidents()] == [incident["id"]]


def test_a_peer_that_sends_a_byte_now_and_then_loses_its_connection_and_others_are_answered(tmp_path: Path) -> None:
    with Stepwatchd(tmp_path) as daemon, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as drip:
        drip.connect(str(daemon.socket))
        drip.settimeout(0.25)
        answer = b""
        text = b"GET /v1/runs HTTP/1.1\r\nX-Long: " + b"x" * 1000
        deadline = time.monotonic() + DEADLINE_SECONDS
        for byte in text:
            assert time.monotonic() < deadline
            assert daemon.answers()
            try:
                drip.send(bytes([byte]))
                answer = drip.recv(4096)
            except socket.timeout:
                continue
            except OSError:
                pass
            break
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
        assert daemon.make_incident()["incident"] == "loss_nonfinite"


def test_garbage_of_every_kind_is_answered_or_dropped_and_stepwatchd_stays(tmp_path: Path) -> None:
    garbage = [
        b"\x00" * 5000,
        b"GET " + b"/" * 20000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/beats HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/beats HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/beats HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"GET /v1/incidents?limit=1e9&&&=%zz HTTP/1.1\r\n\r\n",
        b"GET /v1/events HTTP/1.1\r\nLast-Event-ID: -9223372036854775808\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ]
    deep = "[" * 100_000
    with Stepwatchd(tmp_path) as daemon:
        for each in garbage:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                peer.connect(str(daemon.socket))
                peer.settimeout(DEADLINE_SECONDS)
                peer.sendall(each)
                peer.shutdown(socket.SHUT_WR)
                peer.recv(4096)
        for body in [deep, '{"t":' + "9" * 5000 + "}", '{"t":1e400,"run":"r","rank":0,"beat":{}}', "\xff\x00"]:
            status, _, _ = daemon.ask("POST", "/v1/beats", body)
            assert status in (200, 400)
        assert daemon.get("/v1/runs")["runs"] == []
        assert daemon.make_incident()["incident"] == "loss_nonfinite"
