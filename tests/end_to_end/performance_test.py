"""`stepwatch performance` beside a real stepwatchd, also over its restart."""

from __future__ import annotations

import html.parser
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import command_line
from stepwatchd_process import NO_JOBS, Stepwatchd, beat, event, start


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stepwatchd]:
    """Run one where verbs look for it; it looks for no jobs."""
    monkeypatch.setenv("STEPWATCH_RUNTIME_DIR", str(Path(os.environ["STEPWATCH_RUNTIME_DIR"]) / "perf"))
    monkeypatch.chdir(tmp_path)
    with Stepwatchd(tmp_path, NO_JOBS, "stepwatchd.sock") as running:
        yield running


def performance(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = command_line.stepwatch("performance", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def report(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(performance(*arguments, "--json").stdout)
    return found


def train(daemon: Stepwatchd, first: int, last: int) -> None:
    for step in range(first, last + 1):
        daemon.send(beat(step, 5 - step / 100, tokens=1000, samples=4))


def stored_step(daemon: Stepwatchd) -> float:
    with daemon.store() as store:
        row = store.execute("SELECT max(max) FROM series WHERE run = 'r1' AND name = 'time.step'").fetchone()
        return float(row[0] or 0)


def test_steps_count_once_over_restarts_of_the_run_and_of_stepwatchd(daemon: Stepwatchd) -> None:
    daemon.send(start())
    train(daemon, 1, 30)
    daemon.send(event("r1", "restart", world=1))
    train(daemon, 11, 15)
    found = report("r1")
    assert found["steps_counted"] == 30
    assert "restart" in found["lost_seconds"] and "repeated" in found["lost_seconds"]
    assert 0 < found["goodput"] < 1 and found["tokens_per_second"] > 0
    assert found["mfu"] is None and found["gpu"]["utilization"] is None

    daemon.until(lambda: stored_step(daemon) == 30)
    daemon.kill()
    second = int(time.time())
    daemon.until(lambda: int(time.time()) > second)
    daemon.start()
    assert report("r1")["steps_counted"] == 30
    # Steps 16 to 30 were done before both restarts.
    train(daemon, 16, 40)
    assert report("r1")["steps_counted"] == 40


def test_the_page_is_whole_and_has_no_reference_to_anything_outside(daemon: Stepwatchd, tmp_path: Path) -> None:
    daemon.send(start())
    train(daemon, 1, 30)
    assert performance("r1", "--html", "report.html").stdout == "wrote report.html\n"
    tags: list[str] = []
    names: list[str] = []
    boxes: list[list[float]] = []
    outside: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            names.extend(name for name, _ in attrs)
            found = dict(attrs)
            if box := found.get("viewbox"):
                boxes.append([float(each) for each in box.split()])
            for point in (found.get("points") or "").split():
                x, y = (float(each) for each in point.split(","))
                left, top, width, height = boxes[-1]
                if not (left <= x <= left + width and top <= y <= top + height):
                    outside.append(point)

    Reader().feed((tmp_path / "report.html").read_text())
    assert boxes and not outside
    assert "svg" in tags and "polyline" in tags
    assert not {"script", "link", "img", "iframe"} & set(tags)
    assert not {"src", "href"} & set(names)


def test_text_shows_missing_numbers_as_dashes_and_errors_name_what_is_accepted(daemon: Stepwatchd) -> None:
    daemon.send(start())
    text = performance("r1").stdout
    assert "goodput                -" in text and "MFU                    -" in text
    assert "examples: 90m, 24h, 7d" in performance("r1", "--last", "soon", code=2).stderr
    assert "no run with the id prefix" in performance("other", code=2).stderr
    for query in ("last=0", "last=-5", "last=nan", "last=x", "reference=0"):
        status, _, body = daemon.ask("GET", f"/v1/runs/r1/performance?{query}")
        assert status == 400 and query.split("=")[0] in body
    assert daemon.ask("GET", "/v1/runs/other/performance")[0] == 404
