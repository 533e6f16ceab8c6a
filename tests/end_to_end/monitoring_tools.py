"""Programs of Prometheus and Alertmanager, and the files of `stepwatchd provision`, in tests."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import yaml

from build_tree import STEPWATCHD, skip_without

skip_without(STEPWATCHD)
DEADLINE_SECONDS = 60
PACKAGES = {
    "promtool": "prometheus",
    "prometheus": "prometheus",
    "amtool": "prometheus-alertmanager",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "docker-compose": "docker-compose",
    "rsyslogd": "rsyslog",
}


def tool(name: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of the monitoring stack to its end; skip the test if it is not installed."""
    return subprocess.run(
        [found(name), *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, timeout=120
    )


def render(place: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Fill in a template of Alertmanager with an example of alerts."""
    (place / "none.tmpl").write_text("")
    return tool("amtool", "template", "render", "--template.glob", place / "none.tmpl", "--template.text", text)


def found(name: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (apt-get install {PACKAGES[name]})")
    return path


def provision(directory: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Run `stepwatchd provision`."""
    command = [str(STEPWATCHD), "provision", str(directory), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def secrets_of(directory: Path) -> Path:
    """Make a directory with every file of secrets."""
    directory.mkdir()
    for name in ("stepwatchd_token", "smtp_password", "slack_url", "pagerduty_key", "grafana_password"):
        (directory / name).write_text(f"secret-of-{name}\n")
    for name in ("kibana", "logstash"):
        (directory / f"{name}.env").write_text(f"TOKEN=secret-of-{name}\n")
    return directory


def provisioned(place: Path, *options: object) -> Path:
    """Provision a directory whose secrets exist, and return it."""
    secrets = secrets_of(place / "secrets")
    done = provision(place / "p", "--secrets", secrets, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "p"


def read_yaml(path: Path) -> Any:
    """Return the document of a YAML file."""
    return yaml.safe_load(path.read_text())


def free_ports(count: int) -> list[int]:
    """Return loopback ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def until(holds: Callable[[], Any], explain: Callable[[], object] = lambda: "") -> Any:
    """Wait until a condition holds, and return its value."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (value := holds()):
        assert time.monotonic() < deadline, explain()
        time.sleep(0.1)
    return value


class Server:
    """A server of the monitoring stack on a loopback port, killed at the end."""

    def __init__(self, log: Path, port: int, name: str, *arguments: object) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.command = [found(name), *map(str, arguments), f"--web.listen-address=127.0.0.1:{port}"]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        until(self.is_ready, self.log.read_text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def is_ready(self) -> bool:
        """Return whether it serves requests."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(self.url + "/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def get(self, target: str) -> Any:
        """Return the JSON response to a request."""
        with urllib.request.urlopen(self.url + target, timeout=10) as response:
            return json.load(response)


def prometheus(place: Path, port: int, config: Path) -> Server:
    """Return a Prometheus whose database is below a directory of the test.

    It sends a firing alert again each second, not each minute: alerts before it has found the Alertmanager are lost.
    """
    data = place / "data"
    arguments = (f"--config.file={config}", f"--storage.tsdb.path={data}", "--rules.alert.resend-delay=1s")
    return Server(place / "prometheus.log", port, "prometheus", *arguments)


def alertmanager(place: Path, port: int, config: Path) -> Server:
    """Return an Alertmanager without peers."""
    arguments = (f"--config.file={config}", f"--storage.path={place / 'alerts'}", "--cluster.listen-address=")
    return Server(place / "alertmanager.log", port, "prometheus-alertmanager", *arguments)


@contextlib.contextmanager
def rsyslog(place: Path, config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run rsyslogd with this configuration; its process ends with the block."""
    command = [found("rsyslogd"), "-n", "-f", str(config), "-i", str(place / "pid")]
    with (place / "rsyslogd.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
