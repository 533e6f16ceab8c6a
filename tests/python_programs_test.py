"""A forked program starts, prints and ends like one in a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import python_programs
from python_programs import VARIABLE, run, start


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    pytest.importorskip("torch")
    with tempfile.TemporaryDirectory(prefix="sw") as directory, python_programs.serve(Path(directory)):
        yield


@pytest.fixture(params=["new", "forked"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "new":
        monkeypatch.delenv(VARIABLE)


def test_it_has_its_arguments_directory_variables_and_files(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys; print(sys.argv, os.getcwd(), os.environ['A'], __name__, sys.stdin.read() == '')")
    variables = {**os.environ, "A": "b"}
    seen = run([str(script), "x", "y"], tmp_path, variables)
    assert seen.stdout.strip() == f"['{script}', 'x', 'y'] {tmp_path} b __main__ True", seen.stderr
    seen = run(["-c", script.read_text(), "x"], tmp_path, variables)
    assert seen.stdout.strip() == f"['-c', 'x'] {tmp_path} b __main__ True", seen.stderr
    seen = run(["-m", "script", "x"], tmp_path, variables)
    assert seen.stdout.strip() == f"['{script}', 'x'] {tmp_path} b __main__ True", seen.stderr


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("import os; os._exit(4)", 4, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(60)", -signal.SIGINT, "K"),
    ],
)
def test_it_ends_as_it_would(text: str, code: int, error: str) -> None:
    begin = "import atexit, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    seen = run(["-c", begin + "atexit.register(print, 'the end')\n" + text])
    assert seen.returncode == code
    assert (seen.stdout == "the end\n") == ("_exit" not in text and code != -signal.SIGTERM)
    assert error in seen.stderr and (error != "" or seen.stderr == "")


def test_it_is_waited_for_and_killed() -> None:
    program = start(["-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.send_signal(signal.SIGSTOP)
    program.kill()
    assert program.wait(60) == -signal.SIGKILL
    assert program.poll() == -signal.SIGKILL
    program.kill()  # has no effect


def test_it_holds_no_files_of_others() -> None:
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), True)
        others = start(["-c", "import time; time.sleep(600)"])
        seen = run(["-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"])
        others.kill()
        others.wait(60)
    assert seen.stdout == "[0, 1, 2, 3]\n"  # the last descriptor is that of the directory
