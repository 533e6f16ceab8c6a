"""A file system that hangs while the monitor is closed, and answers when the monitor is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import write_config

from build_tree import BUILD

HANGING_FILE = BUILD / "lib/libstepwatch_hanging_file.so"

pytestmark = pytest.mark.skipif(not HANGING_FILE.exists(), reason=f"{HANGING_FILE} is not built")

EDIT = '{"dynamic_on": "a value that is refused"}'
JOB = """
import gc, os, pathlib, sys, time, torch
sys.path.insert(0, {tests!r})
from jobs import mlp
import stepwatch

def wait_until(what, holds, in_a_row=1):
    held = 0
    for _ in range(3000):
        held = held + 1 if holds() else 0
        if held == in_a_row:
            return
        time.sleep(0.02)
    raise SystemExit("waited a minute until " + what)

def waits_in(thread):
    "Return the number of the system call in which a thread sleeps, or another word for one that runs or has ended."
    try:
        return pathlib.Path(f"/proc/self/task/{{thread}}/syscall").read_text().split()[0]
    except OSError:
        return "ended"

config = pathlib.Path(os.environ["HANGING_FILE"])
hang, hung = pathlib.Path(f"{{config}}.hang"), pathlib.Path(f"{{config}}.hung")
model = mlp()
before = set(os.listdir("/proc/self/task"))
monitor = stepwatch.watch(
    model, torch.optim.SGD(model.parameters(), lr=0.1), config=config, dynamic=True, output_dir="out"
)
started = set(os.listdir("/proc/self/task")) - before
wait_until("all threads wait for work", lambda: all(waits_in(thread).isdecimal() for thread in started))
at_rest = {{thread: waits_in(thread) for thread in started}}
hang.touch()
edit = pathlib.Path(f"{{config}}.new")
edit.write_text({edit!r})
edit.replace(config)
wait_until("the monitor hangs", hung.exists)
monitor.close(timeout=0.2)
del monitor, model
gc.collect()
hang.unlink()
wait_until(
    "all threads have ended or wait for work again",
    lambda: all(waits_in(thread) in ("ended", at_rest[thread]) for thread in started),
    in_a_row=50,  # looks at the file follow each other within a tenth of a second
)
print("survived")
"""


def test_events_that_come_after_a_hung_close_find_the_object_that_prints_them(tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.json", dynamic_on=False, wg_distribution=True)
    done = subprocess.run(
        [sys.executable, "-c", JOB.format(tests=str(Path(__file__).parent), edit=EDIT)],
        cwd=tmp_path,
        env={
            **os.environ,
            "HANGING_FILE": str(config),
            "HANGING_BYTES": str(len(EDIT)),
            "LD_PRELOAD": str(HANGING_FILE),
            # Freed memory is overwritten, so that a mutex in it looks locked.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=1",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.endswith("survived\n"), done.stdout
