"""What a wheel must be able to do where it is installed: run there, by that Python.

python smoke.py            without torch: the extension and the command line
python smoke.py 2.1        beside this torch: a training whose config is edited in its middle, and its rows compared
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = {"dynamic_on": False, "wg_distribution": True, "xy_distribution": True, "ops": ["norm", "max", "zeros"]}
COLLECTED = 5
PATIENCE = 120  # seconds
GLIBC = ("libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "ld-linux-")


def loaded_libraries() -> list[str]:
    """Return the libraries this process has loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[-1] for line in lines if ".so" in line})


def run(*command: str) -> str:
    """Run the command line of the wheel, and return what it prints."""
    program = Path(sys.executable).with_name("stepwatch")
    return subprocess.run([str(program), *command], capture_output=True, text=True, check=True).stdout


def without_torch() -> None:
    """Load the extension; let the command line validate a config and run the whole monitor on its synthetic model."""
    before = set(loaded_libraries())
    import stepwatch
    from stepwatch import _core

    config = Path("config.json")
    config.write_text(json.dumps(CONFIG))
    _core.check_config(str(config))
    for library in map(Path, sorted(set(loaded_libraries()) - before)):
        is_pythons_own = "lib-dynload" in library.parts or library.name.startswith("_core.")
        assert is_pythons_own or library.name.startswith(GLIBC), f"{library} was loaded with the extension"
    print("smoke:", stepwatch.__version__, run("doctor").strip().replace("\n", "; "))
    run("validate", str(config))
    run("rehearse", str(config), "--steps", "3", "--step-time", "1ms", "--out", "rehearsed")
    written = sorted(path.name for path in Path("rehearsed").glob("*-rank0-*/*.csv"))
    assert any(name.startswith("grad_reduced") for name in written), written
    run("csv2db", "--data", "rehearsed", "--db", "database")
    run("csv2tb", "--monitor-path", "rehearsed")


def rows(base: Path, kind: str) -> list[dict[str, str]]:
    """Return the rows of a kind, of every file under `base`."""
    found = []
    for path in sorted(base.glob(f"*-rank0-*/{kind}_*.csv")):
        with open(path, newline="") as file:
            found += list(csv.DictReader(file))
    return found


def save(path: Path, **changes: object) -> None:
    """Save the config as careful editors do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({**CONFIG, **changes}))
    os.replace(fresh, path)


def beside_torch(version: str) -> None:
    """Train, edit, compare."""
    import stepwatch
    import torch

    assert torch.__version__.startswith(version), torch.__version__
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    config, out = Path("job.json"), Path("out")
    save(config)
    norms: dict[tuple[int, str], float] = {}
    step, deadline = 0, time.monotonic() + PATIENCE
    with stepwatch.watch(model, optimizer, config=config, dynamic=True, output_dir=out):
        # The edit comes after a few steps; the job goes on until the monitor has written that it is done.
        while step < 5 or json.loads(config.read_text())["dynamic_on"]:
            assert time.monotonic() < deadline, f"dynamic_on is still true after {step} steps"
            if step == 4:
                save(config, dynamic_on=True, collect_times=COLLECTED)
            model(torch.randn(8, 16)).square().mean().backward()
            for name, parameter in model.named_parameters():
                norms[step, name] = float(parameter.grad.double().norm())
            optimizer.step()
            optimizer.zero_grad()
            step += 1
    told = rows(out, "grad_reduced")
    steps = sorted({int(row["step"]) for row in told})
    assert len(steps) == COLLECTED and steps[0] > 4, steps
    for row in told:
        expected = next(
            norm for (step, name), norm in norms.items() if step == int(row["step"]) and name in row["name"]
        )
        assert abs(float(row["norm"]) - expected) <= 1e-6 * max(1.0, expected), (row, expected)
    assert len(rows(out, "actv")) > 0, "no rows of activations"
    print(f"smoke: torch {torch.__version__}: {len(told)} rows of gradients as torch has them, of steps {steps}")


def main() -> None:
    """Do it in a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        if len(sys.argv) > 1:
            beside_torch(sys.argv[1])
        else:
            without_torch()
        os.chdir("/")


if __name__ == "__main__":
    main()
