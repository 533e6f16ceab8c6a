"""The control socket of a running job on TCP: the API as described, the metrics as Prometheus reads them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from build_tree import ROOT
from rehearse_process import BINARY, Rehearsal

described_api = pytest.importorskip("described_api", reason="hypothesis or schemathesis is not installed")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
prometheus = pytest.importorskip("prometheus_client.parser")

if TYPE_CHECKING:
    from prometheus_client import Metric

API = ROOT / "schemas/control_api.json"
TOKEN = described_api.TOKEN
CONFIG = '{"dynamic_on": true, "collect_times": 1000000, "wg_distribution": true, "ops": ["norm", "nans"]}'
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class TcpJob:
    """A rehearsal with its control socket on TCP, at a port of its own."""

    def __init__(self, rehearsal: Rehearsal, address: str) -> None:
        self.rehearsal = rehearsal
        self.address = address

    def ask(self, target: str, method: str = "GET", **headers: str) -> tuple[int, Message, str]:
        return described_api.ask(self.address, target, method, **headers)


@contextlib.contextmanager
def open_tcp(directory: Path) -> Iterator[TcpJob]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPWATCH_RUNTIME_DIR", str(directory / "r"))
        patch.setenv("STEPWATCH_SOCKET_TCP", "127.0.0.1:0")
        patch.setenv("STEPWATCH_SOCKET_TOKEN_FILE", str(described_api.token_file(directory)))
        patch.setenv("STEPWATCH_METRICS_SITES_MAX", "12")
        rehearsal = Rehearsal(directory, CONFIG, "--steps", "100000000", "--step-time", "5ms")
    with rehearsal:
        note = rehearsal.until_event("note")["message"]
        assert note.startswith("the control socket is open on TCP at 127.0.0.1:"), note
        # A job whose output nobody reads stands still when the pipe is full.
        reader = threading.Thread(target=rehearsal.finish, daemon=True)
        reader.start()
        yield TcpJob(rehearsal, note.split()[8])
        assert rehearsal.process.poll() is None, "the job has ended"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TcpJob]:
    """For tests that ask and change nothing."""
    with open_tcp(tmp_path_factory.mktemp("tcp")) as opened:
        yield opened


@pytest.fixture
def steered_job(tmp_path: Path) -> Iterator[TcpJob]:
    """For tests that may do anything to it."""
    with open_tcp(tmp_path) as opened:
        yield opened


def test_the_token_is_nowhere_to_be_seen(job: TcpJob) -> None:
    job.ask("/v1/status", Authorization="Bearer guess-guess-guess-guess")
    process = Path("/proc") / str(job.rehearsal.process.pid)
    for text in ((process / "cmdline").read_text(), (process / "environ").read_text()):
        assert TOKEN not in text
    shown = json.dumps(job.rehearsal.lines) + job.ask("/v1/status")[2] + job.ask("/metrics")[2]
    for path in job.rehearsal.out.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a temporary file that has replaced another meanwhile
            shown += path.read_text() if path.is_file() else ""
    assert TOKEN not in shown and "guess-guess" not in shown


# --- the description ---


def test_no_route_answers_without_the_token(job: TcpJob) -> None:
    described_api.check_that_the_token_is_needed(API, job.address)


@pytest.mark.parametrize("examples", [3, pytest.param(25, marks=pytest.mark.long)])
def test_every_route_answers_as_described(steered_job: TcpJob, examples: int) -> None:
    described_api.check_all_routes(
        API,
        steered_job.address,
        examples,
        # A description cannot express parameters that exclude each other,
        excluded=lambda case: case.path == "/v1/rollback" and case.query and case.body,
        # nor the meaning of the keys of a config, nor the hash of the file at this moment.
        allowed_statuses=("412", "422"),
    )


# --- metrics ---


def values(families: list[Metric]) -> dict[str, float]:
    return {
        sample.name + "".join(f",{label}={value}" for label, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def scrape(job: TcpJob, accept: str) -> tuple[str, str]:
    """A page with all that takes a while: sites are kept from the first question on, costs and times are measured."""
    for _ in range(3000):
        status, headers, text = job.ask("/metrics", Accept=accept)
        assert status == 200
        if all(sample in text for sample in ("_site_value{", '_cost_seconds_total{kind="boundary"}', "_step_seconds ")):
            return headers["Content-Type"], text
        # The job waits for a reader of its output, and would make no step.
        job.rehearsal.until_step(job.rehearsal.steps()[-1]["step"] + 5 if job.rehearsal.steps() else 1)
    raise AssertionError("not all has been shown")


def test_both_formats_are_equal_for_the_parsers_of_prometheus(job: TcpJob) -> None:
    plain_type, plain = scrape(job, "*/*")
    open_type, text = scrape(job, OPENMETRICS)
    assert plain_type == "text/plain; version=0.0.4; charset=utf-8"
    assert open_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    old = values(list(prometheus.text_string_to_metric_families(plain)))
    families = list(openmetrics.text_string_to_metric_families(text))
    new = values(families)
    assert old.keys() == new.keys()
    assert new["stepwatch_state,state=COLLECTING"] == old["stepwatch_state,state=COLLECTING"] == 1
    assert new["stepwatch_applied_total"] == new["stepwatch_last_edit_success"] == 1
    assert new["stepwatch_decision_latency_seconds_count"] == 1
    assert 0 < new["stepwatch_decision_latency_seconds_sum"] < 60
    assert new["stepwatch_watch_mode,mode=inotify"] + new["stepwatch_watch_mode,mode=poll"] == 1
    assert sum(name.startswith("stepwatch_site_value") for name in new) == 12
    assert new["stepwatch_site_series_left_out"] > 0
    assert {family.unit for family in families} == {"", "seconds"}


def promtool(*arguments: object, page: str = "") -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (apt-get install prometheus, 19 MB)")
    return subprocess.run([found, *map(str, arguments)], input=page, capture_output=True, text=True, check=False)


def test_promtool_finds_nothing_wrong(job: TcpJob) -> None:
    checked = promtool("check", "metrics", page=scrape(job, "text/plain")[1])
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_prometheus_takes_every_sample_of_the_openmetrics_page(job: TcpJob, tmp_path: Path) -> None:
    """`check metrics` reads the older format alone, so the page is stored as a scrape of it would be."""
    _, page = scrape(job, OPENMETRICS)
    sampled = tmp_path / "page"
    now = int(time.time())
    sampled.write_text("".join(line + ("" if line[0] == "#" else f" {now}") + "\n" for line in page.splitlines()))
    stored = promtool("tsdb", "create-blocks-from", "openmetrics", sampled, tmp_path / "data")
    assert stored.returncode == 0, stored.stderr
    (tmp_path / "data/wal").mkdir()  # a server would have made it
    dumped = promtool("tsdb", "dump", tmp_path / "data")
    assert dumped.returncode == 0, dumped.stderr
    taken = {line[line.index("{") : line.rindex("}") + 1] for line in dumped.stdout.splitlines()}
    assert len(taken) == sum(not line.startswith("#") for line in page.splitlines())
    sampled.write_text(page.replace("# EOF\n", ""))
    assert promtool("tsdb", "create-blocks-from", "openmetrics", sampled, tmp_path / "less").returncode != 0


# --- other users ---


def test_another_user_of_the_group_finds_and_reads_the_job_and_steers_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for directory in (tmp_path, *tmp_path.parents[:3]):
        directory.chmod(directory.stat().st_mode | 0o011)
    runtime = tmp_path / "r"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPWATCH_RUNTIME_DIR", str(runtime))
        patch.setenv("STEPWATCH_SOCKET_GROUP", "34567")
        rehearsal = Rehearsal(tmp_path, CONFIG, "--steps", "100000000", "--step-time", "5ms")

    def stepwatch(group: int, *arguments: str, named: bool = True) -> subprocess.CompletedProcess[str]:
        user = ["setpriv", "--reuid=23456", "--regid=23456", f"--groups={group}", "--"]
        environment = {"PATH": os.environ["PATH"], **({"STEPWATCH_RUNTIME_DIR": str(runtime)} if named else {})}
        command = [*user, str(BINARY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)

    with rehearsal:
        rehearsal.until_event("applied")
        listed = json.loads(stepwatch(34567, "ps", "--json").stdout)["jobs"]
        assert [(job["pid"], job["uid"]) for job in listed] == [(rehearsal.process.pid, 0)]
        assert "(of uid 0)" in stepwatch(34567, "ps").stdout
        shown = stepwatch(34567, "status", listed[0]["socket"], named=False)
        assert shown.returncode == 0 and " of uid 0, rank 0 of 1" in shown.stdout
        assert stepwatch(45678, "status").returncode == 6
        assert stepwatch(34567, "status", named=False).returncode == 6
