"""A job that is killed for the memory limit of its cgroup, and its incident."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearse_process import Rehearsal
from stepwatchd_process import Stepwatchd, own_jobs

OFF = json.dumps({"dynamic_on": False, "targets": {}, "format": "csv"})


@contextlib.contextmanager
def cgroup_with_limit(mib: int) -> Iterator[Path]:
    """Make a cgroup, or skip the test where one may not."""
    legacy, unified = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    parent, limit = (legacy, "memory.limit_in_bytes") if legacy.exists() else (unified, "memory.max")
    directory = parent / f"stepwatch-test-{os.getpid()}"
    try:
        directory.mkdir()
        (directory / limit).write_text(str(mib << 20))
    except OSError as error:
        with contextlib.suppress(OSError):
            directory.rmdir()
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        yield directory
    finally:
        deadline = time.monotonic() + 60
        while directory.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                directory.rmdir()
            time.sleep(0.05)


def test_a_kill_for_the_memory_of_a_cgroup_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    arguments = ("--steps", "100000000", "--step-time", "20ms")
    with cgroup_with_limit(256) as cgroup, Rehearsal(tmp_path / "job", OFF, *arguments) as job:
        (cgroup / "cgroup.procs").write_text(str(job.process.pid))
        # It is the one that the kernel takes.
        Path(f"/proc/{job.process.pid}/oom_score_adj").write_text("1000")
        with Stepwatchd(tmp_path, own_jobs()) as daemon:

            def trains() -> list[str]:
                return [run["id"] for run in daemon.get("/v1/runs")["runs"] if (run["step"] or 0) > 20]

            (run,) = daemon.until(trains)
            fill = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); x = b'x' * (512 << 20)"
            subprocess.run([sys.executable, "-c", fill, str(cgroup / "cgroup.procs")], timeout=120, check=False)
            incident = daemon.incident_of(run)
            assert (incident["incident"], incident["ranks"]) == ("out_of_memory", [0])
            assert incident["evidence"]["where"] == "cgroup"
            assert incident["evidence"]["cgroup_bytes_max"] == 256 << 20
