"""The page of metrics of stepwatchd as Prometheus reads it, files of other programs, and the discovery of targets."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import control_socket_client
from stepwatchd_process import NO_JOBS, Stepwatchd, beat, event, own_jobs, start

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
prometheus = pytest.importorskip("prometheus_client.parser")

if TYPE_CHECKING:
    from prometheus_client import Metric

FAKE_JOB = Path(__file__).with_name("fake_job.py")
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
# The headers of Prometheus 2.42, of the first of 3 and of later ones.
ACCEPTED = {
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1": OPENMETRICS,
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": OPENMETRICS,
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.4,*/*;q=0.2": TEXT,
    "*/*": TEXT,
}
# Families of all types, also some that OpenMetrics cannot express.
JOB_PAGE = """\
# HELP rows_total Rows "so far".
# TYPE rows_total counter
rows_total{reason="a"} 7
# TYPE odd counter
odd 3
# TYPE debt_total counter
debt_total -1
# TYPE delay_seconds histogram
delay_seconds_bucket{le="0.5"} 1
delay_seconds_bucket{le="+Inf"} 2
delay_seconds_sum 1.25
delay_seconds_count 2
# TYPE broken histogram
broken_bucket{le="1"} 5
broken_sum 1
broken_count 5
# TYPE size summary
size{quantile="0.5"} 3
size_sum 9
size_count 3
free 1.5 1700000000123
"""


def ask(daemon: Stepwatchd, target: str, accept: str = "*/*") -> tuple[int, Message, str]:
    """Send a GET request with this header."""
    return control_socket_client.ask(daemon.socket, "GET", target, headers={"Accept": accept})


def values(families: list[Metric]) -> dict[str, float]:
    """Return the samples by name and labels."""
    return {
        sample.name + "".join(f",{label}={value}" for label, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def samples(daemon: Stepwatchd) -> dict[str, float]:
    """Return the samples of the page in OpenMetrics."""
    return values(list(openmetrics.text_string_to_metric_families(ask(daemon, "/metrics", OPENMETRICS)[2])))


def send_run(daemon: Stepwatchd, run: str, ranks: int, steps: int) -> None:
    """Send the lines of a run that reports all it can."""
    work = {
        "flops": 1e12,
        "peak_flops": 1e15,
        "data_seconds": 0.01,
        "communication_seconds": 0.02,
        "cuda_allocated_bytes": 1e9,
        "cuda_reserved_bytes": 2e9,
        "cuda_alloc_retries": 1,
        "cuda_ooms": 0,
        "checkpoint_bytes": 5e8,
    }
    lines = [start(run, ranks)]
    begin = time.time() - steps * 0.1
    for step in range(1, steps + 1):
        for rank in range(ranks):
            loss = "nan" if step == steps else 2.0
            line = beat(step, loss, run, rank, lr=1e-4, loss_scale=2.0, tokens=100, samples=2, **work)
            lines.append({**line, "t": begin + step * 0.1})
    lines.append(event(run, "checkpoint", step=steps))
    assert daemon.send(*lines)["refused"] == 0


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A job whose page has what is hard to merge."""
    runtime = Path(os.environ["STEPWATCH_RUNTIME_DIR"])
    runtime.mkdir(mode=0o700, exist_ok=True)
    page, lines = tmp_path / "page", tmp_path / "lines"
    page.write_text(JOB_PAGE)
    lines.write_text(json.dumps({**beat(1, run="fake")}) + "\n")
    process = subprocess.Popen([sys.executable, str(FAKE_JOB), str(runtime), "fake", str(lines), str(page)])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def daemon(tmp_path: Path, job: subprocess.Popen[bytes]) -> Iterator[Stepwatchd]:
    """Stepwatchd that knows a run, a job and a file."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "eval.prom").write_text("# HELP eval_score Of the test set.\n# TYPE eval_score gauge\neval_score 0.5\n")
    (files / "torn.prom").write_text("# TYPE torn gauge\ntorn 1")
    settings = {**own_jobs(), "metrics": {"directory": str(files)}}
    with Stepwatchd(tmp_path, settings) as running:
        send_run(running, "r1", 4, 40)
        running.until(lambda: "rows_total" in (page := ask(running, "/metrics")[2]) and "eval_score" in page)
        yield running


def test_each_client_gets_the_format_that_it_prefers(daemon: Stepwatchd) -> None:
    for accept, content_type in ACCEPTED.items():
        status, headers, page = ask(daemon, "/metrics", accept)
        assert (status, headers["Content-Type"]) == (200, content_type)
        assert page.endswith("# EOF\n") == (content_type == OPENMETRICS)


def test_both_formats_have_the_same_samples(daemon: Stepwatchd) -> None:
    plain = list(prometheus.text_string_to_metric_families(ask(daemon, "/metrics")[2]))
    families = list(openmetrics.text_string_to_metric_families(ask(daemon, "/metrics", OPENMETRICS)[2]))
    old, new = values(plain), values(families)
    # The parser of the older format gives counters their end.
    assert set(new) == {name.replace("odd_total", "odd") for name in old}
    types = {family.name: family.type for family in families}
    assert types["rows"] == "counter" and types["delay_seconds"] == "histogram" and types["size"] == "summary"
    assert {types[name] for name in ("odd", "debt_total", "broken_bucket", "broken_count", "free")} == {"unknown"}
    assert types["stepwatch_run"] == "info" and types["stepwatch_run_tokens"] == "counter"


def test_a_run_has_its_numbers(daemon: Stepwatchd) -> None:
    page = samples(daemon)
    assert page["stepwatch_run_step,run=r1"] == 40
    assert page["stepwatch_run_tokens_total,run=r1"] == 4 * 40 * 100
    assert page["stepwatch_run_nonfinite_steps_total,run=r1"] == 1
    assert math.isnan(page["stepwatch_run_loss,run=r1"])
    assert page["stepwatch_run_state,run=r1,state=train"] == 1
    assert page["stepwatch_run_peak_flops,run=r1"] == 4e15
    assert page["stepwatch_run_step_part_seconds,part=communication,run=r1"] == 0.02
    assert page["stepwatch_run_cuda_reserved_bytes,rank=3,run=r1"] == 2e9
    assert page["stepwatch_run_checkpoint_step,run=r1"] == 40
    assert page["eval_score"] == 0.5
    assert page["stepwatchd_files_left_out,reason=bad"] == 1


def test_promtool_finds_nothing_wrong(daemon: Stepwatchd, job: subprocess.Popen[bytes]) -> None:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (apt-get install prometheus, 19 MB)")
    job.kill()
    job.wait()
    daemon.until(lambda: "rows_total" not in ask(daemon, "/metrics")[2])
    page = ask(daemon, "/metrics")[2]
    checked = subprocess.run([found, "check", "metrics"], input=page, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_counters_begin_at_zero_after_a_restart(daemon: Stepwatchd) -> None:
    daemon.kill()
    daemon.start()
    name = "stepwatch_run_tokens_total,run=r1"
    daemon.until(lambda: name in samples(daemon))
    assert samples(daemon)[name] == 0
    daemon.send(beat(41, run="r1", tokens=100))
    daemon.until(lambda: samples(daemon)[name] == 100)


def test_a_collector_gets_the_metrics_with_its_headers(tmp_path: Path) -> None:
    got: list[tuple[str, str | None, dict[str, Any]]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["X-Token"], json.loads(body)))
            # The first request fails, and is repeated.
            self.send_response(503 if len(got) == 1 else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    headers = tmp_path / "headers"
    headers.write_text("X-Token: secret-of-the-collector\n")
    url = f"http://127.0.0.1:{server.server_address[1]}"
    settings = {**NO_JOBS, "otlp": {"url": url, "headers_file": str(headers), "seconds": 1}}
    with Stepwatchd(tmp_path, settings) as running:
        send_run(running, "r1", 2, 10)
        running.until(lambda: len(got) > 1 and "stepwatch_run_tokens_total" in json.dumps(got[-1]))
        path, token, body = got[-1]
        assert (path, token) == ("/v1/metrics", "secret-of-the-collector")
        metrics = {each["name"]: each for each in body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
        (point,) = metrics["stepwatch_run_tokens_total"]["sum"]["dataPoints"]
        assert point["asDouble"] == 2 * 10 * 100
        assert point["attributes"] == [{"key": "run", "value": {"stringValue": "r1"}}]
        on_page = {name for name in re.findall("(?m)^# TYPE (\\S+)", ask(running, "/metrics")[2])}
        assert {"stepwatchd_uptime_seconds", "stepwatchd_host_oom_kills_total"} < on_page
        assert {name for name in on_page if not name.startswith("stepwatchd_jobs_")} <= set(metrics)
        assert running.metric("stepwatchd_otlp_failed_total") >= 1
        assert "secret-of" not in running.log.read_text()
    server.shutdown()


def test_targets_are_found_over_http_and_in_a_file(tmp_path: Path) -> None:
    token, file = tmp_path / "token", tmp_path / "targets.json"
    token.write_text("0123456789abcdef0123456789abcdef")
    token.chmod(0o600)
    settings: dict[str, Any] = {
        "listen": {"tcp": "127.0.0.1:0", "token_file": str(token)},
        "metrics": {"targets_file": str(file)},
        **NO_JOBS,
    }
    with Stepwatchd(tmp_path, settings) as running:
        status, headers, body = ask(running, "/v1/sd/stepwatchd")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        (own,) = json.loads(body)
        assert own["targets"][0].startswith("127.0.0.1:")
        assert own["labels"]["__meta_stepwatch_kind"] == "stepwatchd"
        assert ask(running, "/v1/sd/all")[2] == body
        assert json.loads(ask(running, "/v1/sd/jobs")[2]) == []
        assert ask(running, "/v1/sd/others")[0] == 404
        running.until(file.exists)
        assert file.read_text() == body
