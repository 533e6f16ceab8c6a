"""`stepwatch top` in a terminal of its own, as somebody who looks at it sees it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest

from command_line import stepwatch
from rehearse_process import BINARY, Rehearsal, open_job

ON = (
    '{"dynamic_on": true, "collect_times": 1000000, "wg_distribution": true, "param_distribution": true,'
    ' "ops": ["norm", "max", "min", "mean"]}'
)


class Terminal:
    """A terminal with one program in it."""

    def __init__(self, *arguments: object, width: int = 80, height: int = 24) -> None:
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.output = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            time.sleep(0.2)  # for its size
            os.execv(BINARY.resolve(), [str(BINARY), "top", *map(str, arguments)])
        self.before = termios.tcgetattr(self.fd)
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(height, width)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", height, width, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def look(self, seconds: float = 0.05) -> bool:
        """Take in what has been written; False: the program has closed the terminal."""
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                output = os.read(self.fd, 65536)
            except OSError:
                return False
            self.output += output
            self.stream.feed(output)
        return True

    def is_whole(self) -> bool:
        """Whether a screen has been drawn to its end, which erases what is below; of one half drawn the rest is old."""
        return self.output.endswith(b"\x1b[J")

    def until(self, wanted: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.is_whole() and wanted(self.text()):
                return self.text()
            if not self.look():
                break
        raise AssertionError("the screen has not come to that:\n" + self.text())

    def end(self) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.look():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def is_given_back(self) -> bool:
        """The screen of before, with its cursor, and lines instead of keys."""
        modes = termios.tcgetattr(self.fd)
        return self.output.rstrip().count(b"\x1b[?1049l") == 1 and b"\x1b[?25h" in self.output and modes == self.before

    def close(self) -> None:
        os.close(self.fd)


@pytest.fixture
def job(tmp_path: Path, runtime: Path) -> Iterator[Rehearsal]:
    with open_job(tmp_path, ON, "--sites", "30", step_time="20ms") as job:
        yield job


def has_values(text: str) -> bool:
    return "rows, sorted" in text


def column(text: str, name: str) -> list[float]:
    """Return the numbers below a heading."""
    lines = text.splitlines()
    heading = next(line for line in lines if line.startswith("SITE"))
    place = heading.split().index(name)
    rows = lines[lines.index(heading) + 1 : -1]
    return [float(row.split()[place]) for row in rows if row]


def test_keys_sort_filter_scroll_and_change_the_kind(job: Rehearsal) -> None:
    terminal = Terminal("--kind", "grad_reduced", "--sort", "norm")
    text = terminal.until(lambda text: "sorted by norm" in text and "*norm" in text)
    assert column(text, "*norm") == sorted(column(text, "*norm"), reverse=True)
    terminal.type("r")
    text = terminal.until(lambda text: "reversed" in text)
    assert column(text, "*norm") == sorted(column(text, "*norm"))
    terminal.type(">")
    terminal.until(lambda text: "*max" in text)
    terminal.type("<<")
    terminal.until(lambda text: "sorted by the plan's order" in text)
    terminal.type("r")
    top = terminal.until(lambda text: "reversed" not in text)
    terminal.type("\x1b[6~")
    terminal.until(lambda text: text.split("\n")[5] != top.split("\n")[5])
    terminal.type("\x1b[H")
    site = top.split("\n")[5].split()[0]
    terminal.until(lambda text: text.split("\n")[5].startswith(site))
    terminal.type("/29")
    text = terminal.until(lambda text: "filter: 29_" in text)
    assert all("29" in line.split()[0] for line in text.split("\n")[5:-1] if line)
    terminal.type("\r")
    terminal.until(lambda text: "filter: 29\n" in text)
    terminal.type("\x1b")
    terminal.until(lambda text: "filter" not in text.replace("/ filter", ""))
    terminal.type("\t")
    terminal.until(lambda text: "param_origin: " in text and has_values(text))
    terminal.type("\x1b[Z\x1b[Z")
    terminal.until(lambda text: "grad_unreduced: " in text and has_values(text))
    terminal.type("q")
    assert terminal.end() == 0
    terminal.close()


def test_a_resized_terminal_is_filled_anew(job: Rehearsal) -> None:
    terminal = Terminal(width=120, height=40)
    terminal.until(lambda text: has_values(text) and text.split("\n")[-1].startswith("q quit"))
    terminal.resize(40, 10)
    text = terminal.until(lambda text: text.split("\n")[9].startswith("q quit") and "SITE" in text)
    assert text.split("\n")[4].split() == ["SITE", "STEP", "norm"]
    terminal.resize(100, 30)
    terminal.until(lambda text: text.split("\n")[29].startswith("q quit") and "mean" in text)
    terminal.type("q")
    assert terminal.end() == 0 and terminal.is_given_back()
    terminal.close()


@pytest.mark.parametrize("how", ["key", signal.SIGTERM, signal.SIGHUP])
def test_a_program_that_is_interrupted_gives_the_terminal_back(job: Rehearsal, how: str | signal.Signals) -> None:
    terminal = Terminal()
    terminal.until(has_values)
    if how == "key":
        terminal.type("\x03")
    else:
        os.kill(terminal.pid, how)
    assert terminal.end() == 130 and terminal.is_given_back()
    terminal.close()


def test_a_job_that_is_killed_ends_it_with_a_sentence(job: Rehearsal) -> None:
    terminal = Terminal()
    terminal.until(has_values)
    job.process.kill()
    job.process.wait()
    assert terminal.end() == 6 and terminal.is_given_back()
    assert b"has ended" in terminal.output.rpartition(b"\x1b[?1049l")[2]
    terminal.close()


def test_a_job_that_hangs_is_reported_while_keys_work(job: Rehearsal) -> None:
    terminal = Terminal()
    terminal.until(has_values)
    job.process.send_signal(signal.SIGSTOP)
    text = terminal.until(lambda text: "does not respond; retrying" in text)
    assert has_values(text)
    terminal.type("/x")
    terminal.until(lambda text: "filter: x_" in text)
    job.process.send_signal(signal.SIGCONT)
    terminal.until(lambda text: "COLLECTING" in text)
    terminal.type("\x1bq")
    assert terminal.end() == 0
    terminal.close()


def test_it_can_be_put_to_sleep_and_comes_back(job: Rehearsal) -> None:
    terminal = Terminal()
    terminal.until(has_values)
    os.kill(terminal.pid, signal.SIGTSTP)
    while os.waitpid(terminal.pid, os.WUNTRACED | os.WNOHANG) == (0, 0):
        terminal.look()
    terminal.look()
    assert terminal.is_given_back()
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.screen.reset()
    terminal.until(has_values)
    terminal.type("q")
    assert terminal.end() == 0
    terminal.close()


def test_without_a_terminal_one_table_is_printed(job: Rehearsal, tmp_path: Path) -> None:
    def top(*arguments: object) -> subprocess.CompletedProcess[str]:
        return stepwatch("top", *arguments, given="")

    lines: list[str] = []
    deadline = time.monotonic() + 60
    while len(lines) <= 24:  # rows of the first step may still be on their way
        assert time.monotonic() < deadline, lines
        table = top("--kind", "param_updated", "--sort", "norm", "--filter", "weight")
        assert table.returncode == 0 and "\x1b" not in table.stdout
        lines = table.stdout.splitlines()
    assert lines[3].startswith("param_updated: ") and "filter: weight" in lines[3]
    assert all("weight" in line for line in lines[5:])
    snapshot = json.loads(top("--json").stdout)
    assert snapshot["kind"] == "grad_unreduced" and snapshot["version"] == 1
    assert snapshot["status"]["state"] == "COLLECTING" and snapshot["ranks"]["world_size"] == 1
    assert snapshot["values"][0]["values"]["norm"] > 0
    assert "grad_reduced" in top("--kind", "cost", "--sort", "ms/step").stdout
    assert top("nobody").returncode == 6
    assert top("--kind", "nothing").returncode == 2
    terminal = Terminal("--once")
    assert terminal.end() == 0 and b"\x1b[?1049h" not in terminal.output and b"grad_unreduced: " in terminal.output
    terminal.close()
