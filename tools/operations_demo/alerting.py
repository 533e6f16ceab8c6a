"""A real Prometheus and a real Alertmanager beside the demo, and a chat that keeps the messages it gets.

Prometheus and Alertmanager run with the files that `stepwatchd provision` writes. stepwatchd sends its incidents to the
chat and to Alertmanager; Alertmanager passes its alerts, also those of Prometheus's rules, to the second chat group of
stepwatchd.
"""

from __future__ import annotations

import html
import http.server
import json
import os
import secrets
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operations_demo.processes import Processes

PROMETHEUS = "prometheus"
ALERTMANAGER = "prometheus-alertmanager"
REQUEST_SECONDS = 5.0
BODY_BYTES_MAX = 1 << 20
# Prometheus waits for five seconds between scrapes, so that a fault of some seconds is on at least one of them.
SCRAPE_SECONDS = 5


def are_installed() -> bool:
    """Return whether Prometheus and Alertmanager are installed."""
    return all(shutil.which(name) for name in (PROMETHEUS, ALERTMANAGER))


def free_port() -> int:
    """Return a TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def get(url: str) -> Any:
    """Return the JSON answer to a GET request; None if there is none."""
    try:
        with urllib.request.urlopen(url, timeout=REQUEST_SECONDS) as answer:
            return json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None


@dataclass
class Message:
    """A card as a chat shows it.

    Attributes
    ----------
    group : str
        The last part of the address that it was sent to.
    title : str
    lines : list of str
    """

    group: str
    title: str
    lines: list[str]


def _texts(element: dict[str, Any]) -> list[str]:
    if element.get("tag") == "action":
        return [str(action["text"]["content"]) + ": " + str(action["url"]) for action in element["actions"]]
    if "fields" in element:
        return [str(item["text"]["content"]).replace("**\n", ": ").replace("**", "") for item in element["fields"]]
    return str(element["text"]["content"]).replace("**", "").split("\n")


def message_of(group: str, body: dict[str, Any]) -> Message:
    """Return the message of a request to a Feishu bot."""
    card = body["card"]
    lines = [html.unescape(line) for element in card["elements"] for line in _texts(element) if line]
    return Message(group, str(card["header"]["title"]["content"]), lines)


@dataclass
class Chat:
    """A server that accepts the messages of a Feishu bot.

    Attributes
    ----------
    messages : list of Message
        In the order of their arrival. Other threads append to it.
    """

    messages: list[Message] = field(default_factory=list)

    def __enter__(self) -> Chat:
        chat = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = min(int(self.headers.get("Content-Length", "0")), BODY_BYTES_MAX)
                body = json.loads(self.rfile.read(size))
                chat.messages.append(message_of(self.path.rsplit("/", 1)[-1], body))
                answer = b'{"code":0,"msg":"success"}'
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *of_the_block: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def address(self, group: str) -> str:
        """Return the address of the bot of a chat group."""
        return f"http://127.0.0.1:{self._server.server_port}/open-apis/bot/v2/hook/{group}"

    def of(self, group: str) -> list[Message]:
        """Return the messages of a group so far."""
        return [message for message in self.messages if message.group == group]


class Alerting(Processes):
    """Prometheus and Alertmanager, with the files of `stepwatchd provision`.

    Parameters
    ----------
    program : pathlib.Path
        stepwatchd.
    directory : pathlib.Path
        Directory of all their files.
    chat : Chat
    """

    def __init__(self, program: Path, directory: Path, chat: Chat) -> None:
        super().__init__()
        self._program = program
        self._directory = directory
        self._chat = chat
        self.stepwatchd = f"127.0.0.1:{free_port()}"
        self.prometheus = f"127.0.0.1:{free_port()}"
        self.alertmanager = f"127.0.0.1:{free_port()}"
        self.token_file = directory / "secrets" / "stepwatchd_token"

    def settings(self) -> dict[str, Any]:
        """Write the secrets; return the settings of stepwatchd."""
        (self._directory / "secrets").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._keep(self.token_file, secrets.token_hex(16))
        receivers: list[dict[str, Any]] = [
            {"name": "alertmanager", "type": "alertmanager", "url": f"http://{self.alertmanager}"}
        ]
        for group in ("oncall", "chat"):
            file = self._directory / "secrets" / f"{group}_url"
            self._keep(file, self._chat.address(group))
            receivers.append({"name": group, "type": "feishu", "url_file": str(file)})
        return {
            "listen": {"tcp": self.stepwatchd, "token_file": str(self.token_file)},
            "delivery": {"receivers": receivers, "routes": [{"receivers": ["oncall", "alertmanager"]}]},
        }

    def __enter__(self) -> Alerting:
        files = self._directory / "files"
        options = ["--cluster=demo", f"--interval={SCRAPE_SECONDS}", f"--stepwatchd={self.stepwatchd}"]
        options += [f"--alertmanager={self.alertmanager}", f"--secrets={self.token_file.parent}"]
        command = [str(self._program), "provision", str(files), "--prometheus", "2.42", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"stepwatchd provision failed: {done.stderr.strip()}")
        log = self._directory / "alertmanager.log"
        self.start(
            [
                ALERTMANAGER,
                f"--config.file={files}/alertmanager/alertmanager.yml",
                f"--storage.path={self._directory}/alertmanager",
                f"--web.listen-address={self.alertmanager}",
                "--cluster.listen-address=",
            ],
            log,
            dict(os.environ),
        )
        self.start(
            [
                PROMETHEUS,
                f"--config.file={files}/prometheus/prometheus.yml",
                f"--storage.tsdb.path={self._directory}/prometheus",
                f"--web.listen-address={self.prometheus}",
            ],
            self._directory / "prometheus.log",
            dict(os.environ),
        )
        return self

    def answer(self) -> bool:
        """Return whether both answer requests."""
        return (
            get(f"http://{self.alertmanager}/api/v2/status") is not None
            and get(f"http://{self.prometheus}/api/v1/status/buildinfo") is not None
        )

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts of Alertmanager's API."""
        return get(f"http://{self.alertmanager}/api/v2/alerts") or []

    def alert_of(self, incident: str) -> dict[str, Any] | None:
        """Return the alert of an incident by its id; None if there is none."""
        for alert in self.alerts():
            if incident in (alert["labels"].get("incident"), alert["annotations"].get("incident")):
                return dict(alert)
        return None

    def series(self) -> int:
        """Return the number of series about runs that Prometheus has scraped."""
        query = urllib.request.quote("count(last_over_time({__name__=~'stepwatch_run_.+'}[10m]))")
        answer = get(f"http://{self.prometheus}/api/v1/query?query={query}") or {}
        found = answer.get("data", {}).get("result", [])
        return int(found[0]["value"][1]) if found else 0

    @staticmethod
    def _keep(file: Path, text: str) -> None:
        file.write_text(text + "\n", encoding="utf-8")
        file.chmod(0o600)
