"""`apply`, `plan` and `validate` of a config that comes through a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest

from command_line import answer, stepwatch
from rehearse_process import BINARY, open_job

OFF = '{"dynamic_on": false, "wg_distribution": true}\n'
ON = OFF.replace("false", "true")
TOO_LONG = "{" + " " * (1 << 20)  # a config has at most 1 MiB


def in_bash(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", script, "bash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(OFF)
    return path


def test_apply_takes_standard_input_byte_for_byte(config: Path) -> None:
    text = ON + "// é, and no line end"
    applied = stepwatch("apply", "-", "--config", config, given=text)
    assert (applied.returncode, config.read_text()) == (0, text)
    assert "now holds the text of standard input" in applied.stdout
    assert answer("apply", "-", "--config", config, given=text)[1]["outcome"] == "unchanged"


def test_apply_takes_a_pipe_of_the_shell_and_a_fifo(config: Path, tmp_path: Path) -> None:
    script = '"$1" apply <(sed s/false/true/ "$2") --config "$2"'
    assert (in_bash(script, BINARY, config).returncode, config.read_text()) == (0, ON)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(OFF,))
    writer.start()
    assert stepwatch("apply", fifo, "--config", config).returncode == 0
    writer.join()
    assert config.read_text() == OFF


def test_a_pipe_that_does_not_wait_is_waited_for(config: Path) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    command = [str(BINARY), "apply", "-", "--config", str(config)]
    with subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE) as verb:
        os.write(writer, ON[:9].encode())
        unread = 9
        while unread and verb.poll() is None:
            time.sleep(0.001)
            (unread,) = struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"    "))
        os.write(writer, ON[9:].encode())
        os.close(writer)
        os.close(reader)
        assert verb.wait(timeout=60) == 0
    assert config.read_text() == ON


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "standard input: error: empty input"),
        (TOO_LONG, "longer than 1048576 bytes"),
        (ON[:20], "standard input:1:"),  # its writer has failed in the midst
        ('{\n  "ops": "norm"\n}', 'standard input:2:10: error: "ops"'),
        (b"\xff\xfe\x00", "standard input:1:"),
    ],
    ids=["nothing", "too long", "cut off", "refused", "not text"],
)
def test_a_pipe_without_a_config_changes_nothing(config: Path, given: str | bytes, words: str) -> None:
    applied = stepwatch("apply", "-", "--config", config, given=given)
    assert applied.returncode == 2 and words in applied.stderr and "the config is unchanged" in applied.stderr
    error = json.loads(stepwatch("apply", "-", "--config", config, "--json", given=given).stdout)["error"]
    assert error["code"] == "invalid" and error["message"]
    for words_of_verb, place in ((["validate", "-"], "stdout"), (["plan", "-", "--rank", "1"], "stderr")):
        refused = stepwatch(*words_of_verb, given=given)
        assert refused.returncode == 2 and words in getattr(refused, place), words_of_verb
    assert config.read_text() == OFF


def test_a_writer_that_fails_before_its_first_byte_changes_nothing(config: Path) -> None:
    refused = in_bash('"$1" apply <(exit 1) --config "$2"', BINARY, config)
    assert refused.returncode == 2 and "empty input" in refused.stderr
    closed = in_bash('"$1" apply - --config "$2" <&-', BINARY, config)
    assert closed.returncode == 2 and "cannot be read" in closed.stderr
    directory = in_bash('"$1" validate - < /', BINARY)
    assert directory.returncode == 2 and "Is a directory" in directory.stdout
    endless = in_bash('"$1" validate - < /dev/zero', BINARY)
    assert endless.returncode == 2 and "longer than" in endless.stdout
    assert config.read_text() == OFF


def test_validate_and_plan_take_standard_input_and_a_pipe() -> None:
    usable = stepwatch("validate", "-", given='{"opps": []}')
    assert usable.returncode == 0
    assert 'standard input:1:2: warning: "opps"' in usable.stdout and "standard input: valid" in usable.stdout
    assert json.loads(stepwatch("validate", "-", "--json", given=ON).stdout)["valid"] is True
    assert in_bash('"$1" validate <(echo {})', BINARY).returncode == 0
    planned = stepwatch("plan", "-", "--rank", "1", given='{"step_interval": 2, "collect_times": 3}')
    assert planned.returncode == 0 and "0, 2, 4" in planned.stdout


def test_a_file_of_the_name_minus_has_a_path(tmp_path: Path) -> None:
    (tmp_path / "-").write_text('{"collect_times": 7}')
    checked = in_bash('cd "$2" && "$1" validate ./- < /dev/null', BINARY, tmp_path)
    assert checked.returncode == 0 and "./-: valid" in checked.stdout


def test_a_job_takes_a_config_from_a_pipe_and_previews_its_changes(tmp_path: Path, runtime: Path) -> None:
    with open_job(tmp_path, OFF, step_time="50ms") as job:
        differs = stepwatch("plan", "-", "--job", job.config, "--json", given=ON)
        assert differs.returncode == 1
        assert json.loads(differs.stdout)["effect"] == "collects"
        assert stepwatch("plan", "-", "--job", job.config, given=OFF).returncode == 0
        dry = stepwatch("apply", "-", "--config", job.config, "--dry-run", given=ON)
        assert dry.returncode == 0 and job.config.read_text() == OFF
        ranks = stepwatch("apply", "-", "--config", job.config, "--dry-run=ranks", given=ON)
        assert ranks.returncode == 0
        applied = stepwatch("apply", "-", "--config", job.config, "--wait", "applied", "--timeout", "60", given=ON)
        assert applied.returncode == 0 and job.config.read_text() == ON
