"""Import torch once, and fork a process for each Python program that a test starts.

``python torch_server.py SOCKET`` listens there until its standard input ends. A request is the length of a JSON object,
the object (`arguments` after the interpreter's name, `directory`, `variables`), and the three standard files as
descriptors. The reply is the pid and, when the process has ended, its wait status: 8 bytes each, little-endian.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import socket
import sys
import types
from pathlib import Path
from typing import Any

NUMBER_BYTES = 8
STANDARD_FILES = 3


def received(connection: socket.socket, count: int) -> bytes:
    """Return this many bytes."""
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the request ends too early")
        data += part
    return data


def read_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the object of a request, and its descriptors."""
    data, files, _, _ = socket.recv_fds(connection, NUMBER_BYTES, STANDARD_FILES)
    data += received(connection, NUMBER_BYTES - len(data))
    return json.loads(received(connection, int.from_bytes(data, "little"))), files


def import_torch() -> None:
    """Import the modules of programs with an optimizer or with several ranks."""
    if "torch" in sys.modules:
        return
    for name in ("_dynamo", "distributed.fsdp", "distributed.optim", "distributed.tensor.parallel"):
        importlib.import_module(f"torch.{name}")
    gc.collect()
    gc.freeze()  # child processes share its pages
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a process that forks has one thread"


def next_program(listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Serve, and return in each child with its request and its standard files."""
    running: dict[int, tuple[int, socket.socket]] = {}
    events = select.poll()
    events.register(listener, select.POLLIN)
    events.register(sys.stdin, select.POLLIN)
    while True:
        for descriptor, _ in events.poll():
            if descriptor == sys.stdin.fileno():
                os._exit(0)
            if descriptor in running:
                events.unregister(descriptor)
                os.close(descriptor)
                child, connection = running.pop(descriptor)
                status = os.waitpid(child, 0)[1]
                reply(connection, status)
                connection.close()
                continue
            connection, _ = listener.accept()
            try:
                request, files = read_request(connection)
            except ConnectionError:
                connection.close()
                continue
            import_torch()
            child = os.fork()
            if child == 0:
                for other, (_, theirs) in running.items():
                    os.close(other)
                    theirs.close()
                connection.close()
                listener.close()
                return request, files
            for file in files:
                os.close(file)
            end = os.pidfd_open(child)
            running[end] = child, connection
            events.register(end, select.POLLIN)
            reply(connection, child)


def reply(connection: socket.socket, number: int) -> None:
    """Send a number to the client, if it is still connected."""
    try:
        connection.sendall(number.to_bytes(NUMBER_BYTES, "little"))
    except OSError:
        pass


def become(request: dict[str, Any], files: list[int]) -> None:
    """Run the requested program, in its directory, with its variables and files."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["variables"])
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = ["", *(path for path in added if path and path not in sys.path[1:])]  # the first is the program's
    program, *arguments = request["arguments"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if program == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    if program == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *arguments[1:]]
        code = compile(arguments[0], "<string>", "exec")
    else:
        sys.path[0] = str(Path(program).resolve().parent)
        sys.argv = [program, *arguments]
        main.__file__ = program
        code = compile(Path(program).read_bytes(), program, "exec")
    exec(code, main.__dict__)


if __name__ == "__main__":
    this = sys.modules["__main__"]  # stays alive, since it is below the program on the stack
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        opened.bind(f"{sys.argv[1]}.new")
        opened.listen(64)
        os.rename(f"{sys.argv[1]}.new", sys.argv[1])
        next_one = next_program(opened)
    become(*next_one)
