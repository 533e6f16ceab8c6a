"""The control socket of a fake job, with the lines and metrics of a test.

python fake_job.py DIRECTORY RUN [LINES [METRICS]], the last two being files that are read anew after each change.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import socketserver
import sys
from pathlib import Path

DIRECTORY, RUN = Path(sys.argv[1]), sys.argv[2]
LINES, METRICS = (Path(path) for path in (*sys.argv[3:], *["/dev/null"] * 2)[:2])


@functools.lru_cache(maxsize=1)
def beats_since(since: int, _changed: tuple[int, int]) -> bytes:
    """Return the answer about beats; made once, since many jobs with large ones would slow each other down."""
    lines = LINES.read_bytes().splitlines()
    head = {"version": 1, "run": RUN, "rank": 0, "next": len(lines), "newest": len(lines), "lost": 0, "dropped": 0}
    return json.dumps(head, separators=(",", ":"))[:-1].encode() + b',"beats":[' + b",".join(lines[since:]) + b"]}"


class Socket(http.server.BaseHTTPRequestHandler):
    """Answers about beats and metrics."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        if self.path == "/metrics":
            body = METRICS.read_bytes()
        else:
            since = re.search(r"since=(\d+)", self.path)
            file = LINES.stat()
            body = beats_since(int(since.group(1)) if since else 0, (file.st_mtime_ns, file.st_size))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """One thread a connection."""

    daemon_threads = True

    def get_request(self) -> tuple[object, tuple[str, int]]:
        """Return a connection with an address that the handler can print."""
        return super().get_request()[0], ("", 0)


if __name__ == "__main__":
    Server(str(DIRECTORY / f"{os.getpid()}-1.sock"), Socket).serve_forever()
