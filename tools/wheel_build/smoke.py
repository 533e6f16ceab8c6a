"""Test an installed wheel; the Python of the installation runs this file.

python smoke.py            without torch: the extension, the command line, and the control socket of its synthetic job
python smoke.py 2.1        with this torch: a training whose config is edited during the run, as a file and through the
                           control socket, and whose rows are compared
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CONFIG = {"dynamic_on": False, "wg_distribution": True, "xy_distribution": True, "ops": ["norm", "max", "zeros"]}
COLLECTED = 5
PATIENCE = 120  # seconds
PROGRAM = Path(sys.executable).with_name("stepwatch")
GLIBC = ("libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "ld-linux-")


def loaded_libraries() -> list[str]:
    """Return the libraries this process has loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[-1] for line in lines if ".so" in line})


def run(*command: str) -> str:
    """Run the wheel's command line; return its output."""
    return subprocess.run([str(PROGRAM), *command], stdout=subprocess.PIPE, text=True, check=True).stdout


def saved(path: Path, **changes: object) -> Path:
    """Save the config by renaming a new file over it; return its path."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({**CONFIG, **changes}))
    os.replace(fresh, path)
    return path


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


def without_torch() -> None:
    """Load the extension; with the command line validate a config, run the whole monitor and convert its output."""
    before = set(loaded_libraries())
    import stepwatch
    from stepwatch import _core

    config = saved(Path("config.json"))
    _core.check_config(str(config))
    for library in map(Path, sorted(set(loaded_libraries()) - before)):
        is_pythons_own = "lib-dynload" in library.parts or library.name.startswith("_core.")
        assert is_pythons_own or library.name.startswith(GLIBC), f"{library} was loaded with the extension"
    print("smoke:", stepwatch.__version__, run("doctor").strip().replace("\n", "; "))
    run("validate", str(config))
    through_the_control_socket(config)
    written = sorted(path.name for path in Path("rehearsed").glob("*-rank0-*/*.csv"))
    assert any(name.startswith("grad_reduced") for name in written), written
    run("csv2db", "--data", "rehearsed", "--db", "database")
    run("csv2tb", "--monitor-path", "rehearsed")


def through_the_control_socket(config: Path) -> None:
    """Change the collection of a running job, from the command line and from Python."""
    from stepwatch.jobs import jobs

    asked = ("rehearse", str(config), "--dynamic", "--steps", "100000", "--step-time", "10ms", "--out", "rehearsed")
    with subprocess.Popen([str(PROGRAM), *asked], stdout=subprocess.DEVNULL) as job:
        try:
            wait_until(lambda: len(jobs()) == 1, "the job opens its control socket")
            (found,) = jobs()
            assert str(job.pid) in run("ps")
            assert found.pid == job.pid and found.config_path == str(config.absolute()), found
            edit = saved(Path("edit.json"), dynamic_on=True, collect_times=COLLECTED)
            run("apply", str(edit), "--config", str(config), "--wait", "drained")
            found.apply({**CONFIG, "ops": ["mean"], "dynamic_on": True, "collect_times": 1}, wait="drained")
            assert json.loads(run("status", "--json"))["run_id"] == found.run_id
            outcomes = [line["outcome"] for line in found.history()]
        finally:
            job.kill()
    assert outcomes.count("finished") == 2, outcomes


def rows(base: Path, kind: str) -> list[dict[str, str]]:
    """Return the rows of a kind, of every file under `base`."""
    found = []
    for path in sorted(base.glob(f"*-rank0-*/{kind}_*.csv")):
        with open(path, newline="") as file:
            found += list(csv.DictReader(file))
    return found


def beside_torch(version: str) -> None:
    """Train; edit the config as a file, then through the control socket; compare both windows with torch."""
    import stepwatch
    import torch

    assert torch.__version__.startswith(f"{version}."), torch.__version__
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    config, out = saved(Path("job.json")), Path("out")
    expected: dict[tuple[int, str], dict[str, float]] = {}

    def train(until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not until():
            step = len(expected) // len(list(model.parameters()))
            assert time.monotonic() < deadline, f"step {step}, and {config} says {config.read_text()}"
            model(torch.randn(8, 16)).square().mean().backward()
            for name, parameter in model.named_parameters():
                wide = parameter.grad.double()
                expected[step, name] = {"norm": float(wide.norm()), "mean": float(wide.mean())}
            optimizer.step()
            optimizer.zero_grad()

    with stepwatch.watch(model, optimizer, config=config, dynamic=True, output_dir=out):
        train(lambda: len(expected) >= 20)
        saved(config, dynamic_on=True, collect_times=COLLECTED)
        train(lambda: not json.loads(config.read_text())["dynamic_on"])
        # Another process sends the request, while this one continues to train.
        edit = saved(Path("edit.json"), dynamic_on=True, collect_times=COLLECTED, ops=["mean"], xy_distribution=False)
        asked = [str(PROGRAM), "apply", str(edit), "--config", str(config), "--wait", "drained"]
        with subprocess.Popen(asked, stdout=subprocess.DEVNULL) as client:
            train(lambda: client.poll() is not None)
        assert client.returncode == 0, client.returncode
    for statistic in ("norm", "mean"):
        found = [row for row in rows(out, "grad_reduced") if statistic in row]
        steps = sorted({int(row["step"]) for row in found})
        assert len(steps) == COLLECTED and steps[0] > 4, steps
        for row in found:
            is_it = [
                each for (step, name), each in expected.items() if step == int(row["step"]) and name in row["name"]
            ]
            assert abs(float(row[statistic]) - is_it[0][statistic]) <= 1e-6, (row, is_it)
        print(
            f"smoke: torch {torch.__version__}: {statistic} of {len(found)} gradients as torch has it, of steps {steps}"
        )
    assert len(rows(out, "actv")) > 0, "no rows of activations"


def main() -> None:
    """Run in a temporary directory."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        if len(sys.argv) > 1:
            beside_torch(sys.argv[1])
        else:
            without_torch()
        os.chdir("/")


if __name__ == "__main__":
    main()
