"""`stepwatch start`, `stop` and `apply` of a config file without a job."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import stepwatch
from rehearse_process import BINARY

OFF = (
    '\ufeff{\r\n  // by night\r\n  "dynamic_on" : false, /* the word */\r\n  "wg_distribution": true\r\n}\r\n'.encode()
)
ON = OFF.replace(b"false", b"true")
NOBODY = 65534


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_bytes(OFF)
    return path


def test_start_and_stop_change_one_word_or_report_no_change(config: Path) -> None:
    started = stepwatch("start", config)
    assert (started.returncode, config.read_bytes()) == (0, ON)
    assert '"dynamic_on": true' in started.stdout
    assert stepwatch("start", config).returncode == 7
    assert stepwatch("stop", config).returncode == 0
    again = stepwatch("stop", config)
    assert (again.returncode, config.read_bytes()) == (7, OFF)
    assert "no change" in again.stdout
    assert os.listdir(config.parent) == ["config.json"]


def test_the_result_of_a_verb_is_one_json_object(config: Path) -> None:
    answer = json.loads(stepwatch("start", config, "--json").stdout)
    assert answer == {
        "version": 1,
        "via": "file",
        "config": str(config),
        "outcome": "written",
        "method": "exchange",
        "replaced_sha256": sha256(OFF),
        "sha256": sha256(ON),
    }
    assert json.loads(stepwatch("start", config, "--json").stdout)["outcome"] == "unchanged"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"wg_distribution": true}', 'add "dynamic_on": false'),
        ('{"dynamic_on": false,\n "ops": "norm"}', ':2:9: error: "ops"'),
        ('{"dynamic_on": false', "error"),
    ],
)
def test_a_config_that_no_job_would_start_with_is_left_alone(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    for verb in ("start", "stop"):
        refused = stepwatch(verb, config)
        assert refused.returncode == 2 and words in refused.stderr
        error = json.loads(stepwatch(verb, config, "--json").stdout)["error"]
        assert error["code"] == "invalid" and error["message"]
    assert config.read_text() == text
    assert stepwatch("start", tmp_path / "missing.json").returncode == 2


def test_apply_replaces_a_config_by_a_usable_one(config: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text('{"dynamic_on": true, "opps": []}')
    applied = stepwatch("apply", new, "--config", config)
    assert (applied.returncode, config.read_text()) == (0, new.read_text())
    assert 'did you mean "ops"' in applied.stderr and sha256(new.read_bytes()) in applied.stdout
    assert stepwatch("apply", new, "--config", config).returncode == 7
    bad = tmp_path / "bad.json"
    bad.write_text('{\n  "ops": "norm"\n}')
    refused = stepwatch("apply", bad, "--config", config)
    assert refused.returncode == 2 and f'{bad}:2:10: error: "ops"' in refused.stderr
    error = json.loads(stepwatch("apply", bad, "--config", config, "--json").stdout)["error"]
    assert (error["line"], error["column"], error["key"]) == (2, 10, "ops")
    assert config.read_text() == new.read_text()


def test_apply_creates_a_config_that_is_not_there(tmp_path: Path, config: Path) -> None:
    made = tmp_path / "made.json"
    assert stepwatch("apply", config, "--config", made).returncode == 0
    assert made.read_bytes() == OFF
    nowhere = stepwatch("apply", config, "--config", tmp_path / "no" / "config.json")
    assert nowhere.returncode == 5 and "cannot be created" in nowhere.stderr


def test_a_hash_guards_an_edit(config: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_bytes(ON)
    for command in (["apply", new, "--config", config], ["start", config]):
        conflict = stepwatch(*command, "--if-match", sha256(ON))
        assert (conflict.returncode, config.read_bytes()) == (3, OFF)
        assert sha256(ON) in conflict.stderr and sha256(OFF) in conflict.stderr
        error = json.loads(stepwatch(*command, "--if-match", sha256(ON), "--json").stdout)["error"]
        assert (error["code"], error["expected_sha256"], error["found_sha256"]) == ("conflict", sha256(ON), sha256(OFF))
    assert stepwatch("start", config, "--if-match", sha256(OFF)).returncode == 0
    assert stepwatch("start", config, "--if-match", "abc").returncode == 2


def test_a_file_that_cannot_be_written_is_5_with_a_remedy(tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    place.mkdir()
    config = place / "config.json"
    config.write_bytes(OFF)
    config.chmod(0o444)
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        for directory in (place, *place.parents):
            if directory.stat().st_uid == 0 and directory != Path("/"):
                directory.chmod(directory.stat().st_mode | 0o055)
    try:
        result = stepwatch("start", config, user=user)
    except PermissionError:
        pytest.skip("nobody cannot run the binary")
    assert result.returncode == 5
    assert "is read-only: Permission denied" in result.stderr and "as its owner" in result.stderr
    assert config.read_bytes() == OFF


LATE = b'{"dynamic_on": true, "start_step": 12345}'


def verb_with_a_late_editor(config: Path, late: Callable[[int], None]) -> subprocess.CompletedProcess[str]:
    """Run `start`, stop it as soon as it has answered, and let an editor write to the file that it displaced.

    `late` gets a descriptor of the file, found before the verb and not opened. A verb that has done its waiting by then
    is run again: this machine was slow.
    """
    for _ in range(50):
        config.write_bytes(OFF)
        found = os.open(config, os.O_PATH)
        with subprocess.Popen(
            [str(BINARY), "start", str(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as verb:
            assert verb.stdout is not None
            line = verb.stdout.readline()
            verb.send_signal(signal.SIGSTOP)
            is_in_time = any("displaced" in name for name in os.listdir(config.parent))
            if is_in_time:
                late(found)
            verb.send_signal(signal.SIGCONT)
            output, errors = verb.communicate(timeout=60)
        os.close(found)
        if is_in_time:
            return subprocess.CompletedProcess(verb.args, verb.returncode, line + output, errors)
    raise AssertionError("the verb has never waited for a late editor")


def test_a_save_into_the_file_that_a_verb_displaced_is_the_config(config: Path) -> None:
    def save(found: int) -> None:
        with open(f"/proc/self/fd/{found}", "wb") as file:
            file.write(LATE)

    verb = verb_with_a_late_editor(config, save)
    assert verb.returncode == 0
    assert "is in the config now" in verb.stderr
    assert config.read_bytes() == LATE
    assert os.listdir(config.parent) == ["config.json"]


def test_a_verb_waits_for_an_editor_that_has_the_displaced_file_open(config: Path) -> None:
    """The editor is stopped in mid-save: nobody may remove what it has open."""
    editors = []

    def open_and_wait(found: int) -> None:
        script = f"exec 9> /proc/self/fd/{found}; read line; cat >&9"
        editor = subprocess.Popen(
            ["sh", "-c", f"echo; {script}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[found],
        )
        assert editor.stdout is not None and editor.stdin is not None
        editor.stdout.readline()
        editor.stdin.write(b"go on\n" + LATE)
        editors.append(editor)
        while not os.path.exists(f"/proc/{editor.pid}/fd/9"):
            pass
        # It goes on once the verb has waited for longer than for anybody who has nothing open.
        subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {editor.pid}"])
        editor.send_signal(signal.SIGSTOP)
        editor.stdin.close()

    verb = verb_with_a_late_editor(config, open_and_wait)
    for editor in editors:
        editor.wait()
    assert verb.returncode == 0
    assert config.read_bytes() == LATE
    assert os.listdir(config.parent) == ["config.json"]
