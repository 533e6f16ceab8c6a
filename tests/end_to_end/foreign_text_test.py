"""The command line before peers that answer with hostile text, with garbage or not at all."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import stepwatch
from rehearse_process import BINARY

pytestmark = pytest.mark.usefixtures("private_runtime")

# A title, a colour, eight-bit control, a mark of direction, a second line.
HOSTILE = "x\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\r\nfake line\x7f"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
VERBS = [
    ["ps"],
    ["status", "{job}"],
    ["status", "{job}", "--ranks"],
    ["top", "{job}", "--once"],
    ["pause", "{job}"],
    ["stop"],
    ["start"],
    ["rollback"],
    ["history"],
    ["plan", "{config}"],
    ["apply", "{config}"],
    ["apply", "{config}", "--dry-run=ranks"],
    ["status", "nobody"],
]


def hostile(value: Any) -> Any:
    """Return an answer whose every text and name of a member is followed by hostile text."""
    if isinstance(value, dict):
        return {**{name: hostile(each) for name, each in value.items()}, HOSTILE: 1}
    if isinstance(value, list):
        return [hostile(each) for each in value]
    return value + HOSTILE if isinstance(value, str) else value


STATUS = {
    "version": 1,
    "job": "x",
    "pid": 1,
    "run_id": "abcdef",
    "rank": 0,
    "world_size": 2,
    "state": "COLLECTING",
    "dynamic": True,
    "step": 5,
    "plan_id": 1,
    "collected": 2,
    "config_path": "/c.json",
    "drift": True,
    "drift_reason": "why",
    "fault": "why",
    "output_dir": "/out",
    "refusal": {"message": "no", "key": "k", "line": 1, "column": 2},
    "write_back": "done",
    "ledger": {"produced": 3, "written": 2, "dropped": {"late": 1}},
    "cost": {"collected": 2, "seconds": 1.0, "parts": {"grad": 1.0}},
    "budget": {"percent": 1.0, "left_out": ["actv"], "reason": "why"},
    "limits": {"formats": ["csv"], "output_root": "/out"},
}
ANSWER = {
    **STATUS,
    "error": {"code": "invalid", "message": "no", "key": "k", "line": 1, "column": 2},
    "outcome": "written",
    "config": "/c.json",
    "taken": "refused",
    "kind": "grad_reduced",
    "values": [{"name": "layer", "step": 1, "ops": {"norm": 1.0}}],
    "ranks": [{"rank": 0, "state": "IDLE", "reason": "why", "config_path": "/c"}],
    "trials": [{"rank": 0, "refusal": {"message": "no"}}],
    "lines": [{"time": "t", "plan": 1, "outcome": "armed", "sha256": "a", "config_path": "/c", "peer": {"exe": "e"}}],
    "warnings": [{"message": "m", "key": "k", "line": 1, "column": 1}],
    "changes": [{"key": "k", "from": "a", "to": "b"}],
}


class Peer:
    """A server at a socket that looks like that of a job of this process."""

    def __init__(self, runtime: Path, serve: Callable[[socket.socket], None]) -> None:
        self.path = runtime / f"{os.getpid()}-1.sock"
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    serve(self.request)
                except OSError:
                    outer.broken += 1

        self.broken = 0
        self.server = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def read_request(connection: socket.socket) -> tuple[str, str]:
    text = b""
    while b"\r\n\r\n" not in text:
        piece = connection.recv(4096)
        if not piece:
            return "", ""
        text += piece
    method, target, _ = text.decode("latin-1").split(" ", 2)
    return method, target


def answer_with(body: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    return serve


def stream(pieces: Callable[[], Iterator[bytes]]) -> Callable[[socket.socket], None]:
    """Return a server whose status is good, and whose events are these."""

    def serve(connection: socket.socket) -> None:
        _, target = read_request(connection)
        if not target.startswith("/v1/events"):
            body = json.dumps(STATUS).encode()
            connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for piece in pieces():
            connection.sendall(piece)

    return serve


@pytest.fixture
def private_runtime(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)


@pytest.fixture
def peer(runtime: Path) -> Iterator[Callable[[Callable[[socket.socket], None]], Peer]]:
    peers: list[Peer] = []

    def make(serve: Callable[[socket.socket], None]) -> Peer:
        peers.append(Peer(runtime, serve))
        return peers[-1]

    yield make
    for each in peers:
        each.close()


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_control_character_of_a_peer_is_printed(
    tmp_path: Path, peer: Callable[..., Peer], verb: list[str], as_json: bool
) -> None:
    there = peer(answer_with(json.dumps(hostile(ANSWER), ensure_ascii=False).encode("utf-8", "surrogatepass")))
    config = tmp_path / "new.json"
    config.write_text('{"dynamic_on": true}')
    words = [word.format(config=config, job=there.path) for word in verb]
    printed = stepwatch(*words, *(["--json"] if as_json else []))
    for text in (printed.stdout, printed.stderr):
        assert not CONTROL.search(text), text
        assert "\nfake line" not in text
    if as_json:
        assert isinstance(json.loads(printed.stdout), dict)


def random_answer(dice: random.Random) -> Callable[[socket.socket], None]:
    """Return a server that breaks off, lies about lengths, nests deeply, stalls or sends what is no HTTP."""
    body = json.dumps(hostile(ANSWER)).encode()
    body = dice.choice([body, body[: dice.randrange(len(body))], b"[" * 100_000, dice.randbytes(300), b"null", b""])
    length = dice.choice([len(body), 0, len(body) + 1, 2**40, -1])
    code = dice.choice([b"200 OK", b"503 Busy\x1b[31m", b"100 Continue", b"999 x", b"x"])
    answer = b"HTTP/1.1 " + code + b"\r\nContent-Length: " + str(length).encode() + b"\r\n\r\n" + body
    cut = dice.choice([len(answer), dice.randrange(len(answer))])
    reads, stalls, noise = dice.random() < 0.9, dice.random() < 0.1, dice.random() < 0.1

    def serve(connection: socket.socket) -> None:
        if reads:
            read_request(connection)
        connection.sendall(answer[:cut] if not noise else dice.randbytes(5000))
        if stalls:
            connection.settimeout(30)
            connection.recv(1)

    return serve


@pytest.mark.parametrize("number", [*range(6), *(pytest.param(each, marks=pytest.mark.long) for each in range(6, 60))])
def test_every_verb_returns_from_random_peers(tmp_path: Path, peer: Callable[..., Peer], number: int) -> None:
    dice = random.Random(f"{os.environ['STEPWATCH_SEED']} {number}")
    there = peer(random_answer(dice))
    config = tmp_path / "new.json"
    config.write_text("{}")
    verb = [word.format(config=config, job=there.path) for word in dice.choice([*VERBS, ["events", "{job}"]])]
    printed = stepwatch(*verb, *dice.choice([[], ["--json"]]))
    assert printed.returncode >= 0, printed  # no signal has ended it
    for text in (printed.stdout, printed.stderr):
        assert not CONTROL.search(text), text


def test_a_socket_with_a_hostile_name_is_no_job(runtime: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(runtime / f"{os.getpid()}-\x1b[31m.sock"))
        listening.listen()
        printed = stepwatch("ps")
    assert "\x1b" not in printed.stdout + printed.stderr


def test_events_name_hostile_text_safely(peer: Callable[..., Peer]) -> None:
    event = json.dumps({"id": 1, "t": 1.0, "message": HOSTILE, "key": HOSTILE}, ensure_ascii=False).encode()

    def pieces() -> Iterator[bytes]:
        yield b"event: refused\x1b[31m\nid: 1\ndata: " + event + b"\n\n"

    there = peer(stream(pieces))
    for options in ([], ["--json"]):
        printed = stepwatch("events", there.path, *options)
        assert printed.stdout and not CONTROL.search(printed.stdout)


GARBAGE: dict[str, Callable[[], Iterator[bytes]]] = {
    "lines of garbage": lambda: iter([b"no event\n"] * 10000),
    "one line without an end": lambda: iter([b"x" * 65536] * 64),
    "events that are no JSON": lambda: iter([b"event: a\ndata: {{{\n\n"] * 10000),
    "an end at once": lambda: iter([]),
}


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("as_json", [False, True])
def test_events_return_from_a_peer_that_sends_garbage(peer: Callable[..., Peer], kind: str, as_json: bool) -> None:
    there = peer(stream(GARBAGE[kind]))
    printed = stepwatch("events", there.path, *(["--json"] if as_json else []))
    assert printed.returncode == 6, printed
    reason = json.loads(printed.stdout)["error"]["message"] if as_json else printed.stderr
    assert str(there.path) in reason


def test_events_end_when_their_reader_has_left(peer: Callable[..., Peer]) -> None:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b":\n\n"
            time.sleep(0.1)

    there = peer(stream(pieces))
    running = subprocess.Popen([str(BINARY), "events", str(there.path)], stdout=subprocess.PIPE)
    assert running.stdout is not None
    time.sleep(0.3)
    running.stdout.close()
    assert running.wait(timeout=30) in (0, -signal.SIGPIPE)


def test_watching_a_file_ends_when_its_reader_has_left(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text("{}")
    running = subprocess.Popen([str(BINARY), "watch", str(config)], stdout=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.wait(timeout=30) in (0, -signal.SIGPIPE)


@pytest.mark.parametrize(
    "verb",
    [
        ["status", "x"],
        ["status", "x", "--ranks"],
        ["events", "x"],
        ["top", "x"],
        ["pause", "x"],
        ["plan", "{config}", "--job", "x"],
    ],
)
def test_errors_about_the_job_are_json_on_request(tmp_path: Path, verb: list[str]) -> None:
    config = tmp_path / "new.json"
    config.write_text("{}")
    printed = stepwatch(*(word.format(config=config) for word in verb), "--json")
    assert printed.returncode == 6
    assert json.loads(printed.stdout)["error"]["code"] == "no_job"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_a_directory_of_somebody_else_is_named_as_the_reason(runtime: Path) -> None:
    runtime.chmod(0o777)
    os.chown(runtime, 65534, 65534)
    printed = stepwatch("status", "x")
    assert f"{runtime} has mode 0777" in printed.stderr, printed


@pytest.mark.parametrize("verb", [["top"], ["status", "--watch"]])
def test_a_terminal_that_shows_lines_alone_gets_no_escapes(peer: Callable[..., Peer], verb: list[str]) -> None:
    there = peer(answer_with(json.dumps(ANSWER).encode()))
    terminal, other_end = os.openpty()
    running = subprocess.Popen(
        [str(BINARY), *verb, str(there.path)],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(other_end)
    shown = os.read(terminal, 65536)
    time.sleep(0.2)
    running.kill()
    running.wait()
    assert shown and b"\x1b" not in shown
    os.close(terminal)
