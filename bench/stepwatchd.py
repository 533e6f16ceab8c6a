"""Measure the cost of stepwatchd itself, and its effect on a job.

Its own cost is that of the process, by the scheduler's clock, while it watches 64 ranks: once as beats over its socket,
one per rank and second, and once as 64 jobs with a monitor, each a process with a control socket and a pulse. Its
memory is read while many more runs come and end than it remembers. The duration of a start and the longest turn of its
loop are measured with a store of many unfinished runs, and with the largest and oldest accepted requests.
``control_socket_bench`` measures the effect on a job: with stepwatchd absent, watching, and stopped while it is
connected.

    ./run bench stepwatchd
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from control_socket_client import UnixConnection, ask  # noqa: E402

RANKS = 64
GPUS = 8
CORE_PERCENT_MAX = 0.5
RSS_MB_MAX = 100
WAIT_SECONDS = 120
RUNS_REMEMBERED = 4096
RUNS_OF_POST = 64
STEPS_OF_SHORT_RUN = 20
START_SECONDS_MAX = 2.0
TURN_MS_MAX = 50.0
SCRAPE_MS_MAX = 50.0
OPEN_RUNS = 10_000
LINES_OF_OPEN_RUN = 10
OLD_RUNS = 120
DAY = 86400.0


class Daemon:
    """A stepwatchd with a separate directory."""

    def __init__(self, binaries: Path, directory: Path, variables: dict[str, str] | None = None) -> None:
        self.runtime = directory / "run"
        self.runtime.mkdir(mode=0o700)
        self.socket = self.runtime / "d.sock"
        command = [
            str(binaries / "stepwatchd"),
            "run",
            "--state",
            str(directory / "state"),
            "--socket",
            str(self.socket),
        ]
        environment = {**os.environ, "STEPWATCH_RUNTIME_DIR": str(self.runtime), **(variables or {})}
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env=environment)

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()

    def runs(self) -> int:
        """Return the number of runs in training that it follows."""
        try:
            answer = json.loads(ask(self.socket, "GET", "/v1/runs")[2])
        except OSError:
            return -1
        return sum(run["state"] == "train" for run in answer["runs"])

    def await_runs(self, count: int) -> None:
        """Wait until it follows this many runs."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.runs() < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"stepwatchd follows {self.runs()} runs, not {count}")
            time.sleep(0.2)

    def cpu_seconds(self) -> float:
        """Return the processor time of its threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def rss_mb(self) -> float:
        """Return its resident memory at this moment."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def beats(step: int) -> str:
    """Return a beat of each rank."""
    lines = []
    for rank in range(RANKS):
        loss = 2.0 + ((step * 37 + rank * 11) % 17 - 8) / 400
        beat = {"step": step, "phase": "train", "loss": loss, "grad_norm": 1.0, "lr": 1e-4, "step_seconds": 0.8}
        lines.append(json.dumps({"t": time.time(), "run": "bench", "rank": rank, "beat": beat}))
    return "\n".join(lines)


class Beating:
    """A program without a monitor that sends beats of all ranks, once a second."""

    def __init__(self, daemon: Daemon) -> None:
        self.connection = UnixConnection(daemon.socket)
        self.step = 0

    def send(self) -> None:
        """Send the beats of the next step."""
        self.step += 1
        self.connection.request("POST", "/v1/beats", beats(self.step))
        if self.connection.getresponse().read() is None:
            raise SystemExit("stepwatchd takes no beats")

    def wait(self, seconds: int) -> None:
        """Send the beats of a step each second for this long."""
        begin = time.monotonic()
        for second in range(1, seconds + 1):
            self.send()
            time.sleep(max(0.0, begin + second - time.monotonic()))


@contextlib.contextmanager
def jobs(binaries: Path, directory: Path, runtime: Path) -> Iterator[None]:
    """Run this many jobs of one rank, with steps of a second."""
    config = directory / "config.json"
    config.write_text('{"dynamic_on": false}\n')
    command = [str(binaries / "stepwatch"), "rehearse", str(config), "--steps", "1000000", "--step-time", "1s"]
    command += ["--dynamic", "--sites", "4", "--elements", "16", "--out", str(directory / "out")]
    environment = {**os.environ, "STEPWATCH_RUNTIME_DIR": str(runtime)}
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) for _ in range(RANKS)]
    try:
        yield
    finally:
        for job in running:
            job.kill()
        for job in running:
            job.wait()


def print_figure(what: str, daemon: Daemon, seconds: int, cpu: float) -> None:
    """Print the figures of one case."""
    percent, rss = 100 * cpu / seconds, daemon.rss_mb()
    verdict = "" if percent <= CORE_PERCENT_MAX and rss <= RSS_MB_MAX else "  MISSED"
    print(f"{what}: {percent:.2f} % of a core, {rss:.1f} MB resident{verdict}", flush=True)


def measure_itself(binaries: Path, seconds: int, warm_up: int) -> None:
    """Measure the cost of stepwatchd itself."""
    print(f"stepwatchd itself, over {seconds} s: at most {CORE_PERCENT_MAX} % of a core and {RSS_MB_MAX} MB")
    with tempfile.TemporaryDirectory(prefix="sw") as name, contextlib.closing(Daemon(binaries, Path(name))) as daemon:
        daemon.await_runs(0)
        before = daemon.cpu_seconds()
        time.sleep(seconds)
        print_figure("nothing to do", daemon, seconds, daemon.cpu_seconds() - before)
        beating = Beating(daemon)
        beating.wait(warm_up)
        before = daemon.cpu_seconds()
        beating.wait(seconds)
        print_figure(
            f"{RANKS} ranks of one run, a beat of each a second over the socket",
            daemon,
            seconds,
            daemon.cpu_seconds() - before,
        )
    with tempfile.TemporaryDirectory(prefix="sw") as name, contextlib.closing(Daemon(binaries, Path(name))) as daemon:
        daemon.await_runs(0)
        with jobs(binaries, Path(name), daemon.runtime):
            daemon.await_runs(RANKS)
            time.sleep(warm_up)
            before = daemon.cpu_seconds()
            time.sleep(seconds)
            print_figure(
                f"{RANKS} jobs with control sockets and pulses, a step each a second",
                daemon,
                seconds,
                daemon.cpu_seconds() - before,
            )


def measure_scrape(binaries: Path, scrapes: int) -> None:
    """Measure the time of a scrape of a run of many ranks, with GPUs, and with jobs that are fetched for it."""
    print(f"one scrape of {RANKS} ranks, median and longest of {scrapes}: at most {SCRAPE_MS_MAX:.0f} ms")

    def scrape(what: str, daemon: Daemon) -> None:
        for name, accept in (("text", "*/*"), ("OpenMetrics", "application/openmetrics-text;version=1.0.0")):
            times, size = [], 0
            for _ in range(scrapes):
                begin = time.monotonic()
                size = len(ask(daemon.socket, "GET", "/metrics", headers={"Accept": accept})[2])
                times.append(1e3 * (time.monotonic() - begin))
            middle = sorted(times)[len(times) // 2]
            verdict = "" if middle <= SCRAPE_MS_MAX else "  MISSED"
            print(f"{what}, {name}: {middle:.1f} ms, {max(times):.1f} ms, {size / 1e3:.0f} KB{verdict}", flush=True)

    # The library of the tests stands for NVIDIA's.
    fake = binaries.parent / "fake_nvml/new/libnvidia-ml.so.1"
    with tempfile.TemporaryDirectory(prefix="sw") as name, contextlib.ExitStack() as stack:
        control = Path(name) / "nvml"
        control.write_text(f"count {GPUS}\n")
        library = {"LD_LIBRARY_PATH": str(fake.parent), "FAKE_NVML": str(control)}
        daemon = stack.enter_context(contextlib.closing(Daemon(binaries, Path(name), library)))
        daemon.await_runs(0)
        Beating(daemon).wait(3)
        deadline = time.monotonic() + WAIT_SECONDS
        while fake.exists() and ask(daemon.socket, "GET", "/metrics")[2].count("stepwatchd_gpu_power_watts{") < GPUS:
            if time.monotonic() > deadline:
                raise SystemExit(f"stepwatchd does not sample {GPUS} GPUs")
            time.sleep(0.2)
        scrape(f"a run that sends beats, {GPUS if fake.exists() else 'no'} GPUs", daemon)
        with jobs(binaries, Path(name), daemon.runtime):
            daemon.await_runs(RANKS)
            scrape(f"and {RANKS} jobs with control sockets", daemon)


def short_runs(first: int, count: int) -> str:
    """Return the lines of runs that start, train and end."""
    lines: list[dict[str, object]] = []
    now = time.time()
    for number in range(first, first + count):
        about: dict[str, object] = {"t": now, "run": f"run-{number}"}
        lines.append({**about, "event": {"kind": "start", "world": 1, "host": "bench"}})
        for step in range(STEPS_OF_SHORT_RUN):
            lines.append({**about, "rank": 0, "beat": {"step": step, "phase": "train", "loss": 2.0 + number % 7 / 10}})
        lines.append({**about, "event": {"kind": "end", "reason": "ok"}})
    return "\n".join(json.dumps(line) for line in lines)


def post_patiently(daemon: Daemon, body: str) -> None:
    """Send lines, and repeat while the response is 429."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (status := ask(daemon.socket, "POST", "/v1/beats", body)[0]) == 429:
        if time.monotonic() > deadline:
            raise SystemExit("stepwatchd is behind for good")
        time.sleep(0.5)
    if status != 200:
        raise SystemExit(f"stepwatchd takes no beats: {status}")


def measure_growth(binaries: Path, times: int) -> None:
    """Measure its memory after several times as many runs as it remembers."""
    print(f"memory while runs come and end, of which it remembers {RUNS_REMEMBERED:,}: at most {RSS_MB_MAX} MB")
    with tempfile.TemporaryDirectory(prefix="sw") as name, contextlib.closing(Daemon(binaries, Path(name))) as daemon:
        daemon.await_runs(0)
        for begun in range(0, times * RUNS_REMEMBERED, RUNS_OF_POST):
            post_patiently(daemon, short_runs(begun, RUNS_OF_POST))
            done = begun + RUNS_OF_POST
            if done % RUNS_REMEMBERED == 0:
                rss = daemon.rss_mb()
                print(f"{done:,} runs: {rss:.1f} MB resident{'' if rss <= RSS_MB_MAX else '  MISSED'}", flush=True)


class Turns:
    """Sends the smallest request repeatedly: the longest response time approximates the loop's longest turn."""

    def __init__(self, daemon: Daemon) -> None:
        self.socket = daemon.socket
        self.longest = 0.0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.ask)

    def ask(self) -> None:
        """Send requests until the end."""
        while not self.ends.is_set():
            begin = time.monotonic()
            ask(self.socket, "GET", "/-/healthy")
            self.longest = max(self.longest, time.monotonic() - begin)
            time.sleep(0.002)

    def __enter__(self) -> Turns:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join()


def fill_store(path: Path, runs: int, seconds: float, lines: int) -> None:
    """Write unfinished runs into the store, which began one after the other within this time."""
    now, number = time.time(), 0
    with contextlib.closing(sqlite3.connect(path)) as store:
        for run in range(runs):
            name, began = f"open-{run}", now - seconds * (runs - run) / runs
            number += 1
            begin = {"t": began, "run": name, "event": {"kind": "start", "world": 1, "host": "bench"}}
            store.execute("INSERT INTO begins VALUES (?, ?, ?, ?)", (name, number, began, json.dumps(begin)))
            store.execute("INSERT INTO runs VALUES (?, 0, ?, ?)", (name, began, json.dumps({"id": name})))
            text, t = "", began
            for step in range(lines):
                number, t = number + 1, min(now, began + 1 + step)
                line = {"t": t, "run": name, "rank": 0, "beat": {"step": step, "phase": "train", "loss": 2.0}}
                text += f"{number}\t{json.dumps(line)}\n"
            values = (name, t, len(text), text)
            store.execute("INSERT INTO lines (run, t_last, bytes, text) VALUES (?, ?, ?, ?)", values)
        store.commit()


def measure_start(binaries: Path, runs: int, days: float) -> None:
    """Measure a start with unfinished runs, and the turns after it."""
    with tempfile.TemporaryDirectory(prefix="sw") as name:
        with contextlib.closing(Daemon(binaries, Path(name))) as daemon:
            daemon.await_runs(0)
        (Path(name) / "run").rmdir()
        fill_store(Path(name) / "state/stepwatchd.db", runs, days * DAY, LINES_OF_OPEN_RUN)
        begin = time.monotonic()
        with contextlib.closing(Daemon(binaries, Path(name))) as daemon:
            while daemon.runs() < 0:
                time.sleep(0.01)
            seconds = time.monotonic() - begin
            with Turns(daemon) as turns:
                time.sleep(5)
            quiet = turns.longest
            with Turns(daemon) as turns:
                ask(daemon.socket, "GET", "/v1/runs")
            print_turns(
                f"{runs:,} runs without an end, of {days:g} days: start {seconds:.2f} s; longest turn",
                max(quiet, turns.longest),
                seconds,
            )


def print_turns(what: str, turn: float, start: float = 0.0) -> None:
    """Print the figures of one case."""
    verdict = "" if 1000 * turn <= TURN_MS_MAX and start <= START_SECONDS_MAX else "  MISSED"
    print(f"{what} {1000 * turn:.0f} ms{verdict}", flush=True)


def measure_turns(binaries: Path) -> None:
    """Measure starts, and the longest turns of the loop."""
    print(f"starts of at most {START_SECONDS_MAX:g} s, turns of the loop of at most {TURN_MS_MAX:g} ms")
    measure_start(binaries, OLD_RUNS, 30)
    measure_start(binaries, OPEN_RUNS, 30)
    measure_start(binaries, OPEN_RUNS, 1 / 50)
    now = time.time()
    old = [{"t": now - DAY * 30 * i / OLD_RUNS, "run": f"old-{i}", "event": {"kind": "start"}} for i in range(OLD_RUNS)]
    beat = {"phase": "train", "loss": 2.0}
    many = [{"t": now, "run": "many", "rank": 0, "beat": {"step": step, **beat}} for step in range(70_000)]
    for what, lines in (("one request with 120 lines of a month", old[::-1]), ("one request with 70,000 lines", many)):
        with (
            tempfile.TemporaryDirectory(prefix="sw") as name,
            contextlib.closing(Daemon(binaries, Path(name))) as daemon,
        ):
            daemon.await_runs(0)
            with Turns(daemon) as turns:
                post_patiently(daemon, "\n".join(json.dumps(line) for line in lines))
            print_turns(f"{what}: longest turn", turns.longest)


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=Path, help="where stepwatchd, stepwatch and control_socket_bench are")
    parser.add_argument("--seconds", type=int, default=60, help="how long each is measured")
    parser.add_argument("--warm-up", type=int, default=20, help="seconds before that")
    parser.add_argument("--rounds", type=int, default=101, help="of the job's steps")
    parser.add_argument("--times", type=int, default=5, help="as many runs as it remembers, to look at its memory")
    parser.add_argument("--only-turns", action="store_true", help="only starts and the turns of the loop")
    parser.add_argument("--scrapes", type=int, default=20, help="scrapes of each page")
    parser.add_argument("--only-scrapes", action="store_true", help="only the time of a scrape")
    arguments = parser.parse_args()
    if arguments.only_scrapes:
        return measure_scrape(arguments.binaries, arguments.scrapes)
    measure_turns(arguments.binaries)
    if arguments.only_turns:
        return
    measure_itself(arguments.binaries, arguments.seconds, arguments.warm_up)
    measure_growth(arguments.binaries, arguments.times)
    command = [str(arguments.binaries / "control_socket_bench"), "--rounds", str(arguments.rounds)]
    command += ["--stepwatchd", str(arguments.binaries / "stepwatchd")]
    subprocess.run(command, check=True)
    measure_scrape(arguments.binaries, arguments.scrapes)


if __name__ == "__main__":
    main()
