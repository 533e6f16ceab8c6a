"""Keep ptxas' report on the CUDA kernels during compilation, and check it afterwards.

``check_ptxas.py compile REPORTS -- nvcc …`` runs the compiler and stores its ``ptxas -v`` lines and the PTX under
REPORTS. ``check_ptxas.py check REPORTS`` reads them: exit code 1 and one line for each kernel that spills, has a stack
frame, uses more registers than four blocks of 256 threads allow, or does not read its tensors in 128 bits.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REGISTERS_MAX = 64
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
# Tolerated bytes of stack, stores or loads: without instructions for pairs of 16-bit floats the registers do not
# suffice.
SPILL_MAX = {"sm_75": 320}
# Kernels that read no tensor.
LOADLESS = ("AdvanceStep",)
WIDE_LOAD = "ld.global.cs.v4.u32"


def compile_and_keep(reports: Path, command: list[str]) -> int:
    """Run nvcc; keep its report and its PTX. Return its exit code."""
    source = next((Path(word) for word in command if word.endswith(".cu")), None)
    if source is None or "-c" not in command:
        return subprocess.run(command, check=False).returncode
    home = reports / source.stem
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([*command, "--keep", "--keep-dir", scratch], capture_output=True, text=True, check=False)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for ptx in Path(scratch).glob("*.ptx"):
            shutil.copy(ptx, home)
    (home / "ptxas.txt").write_text(done.stderr, encoding="utf-8")
    rest = [line for line in done.stderr.splitlines() if not re.match(r"ptxas info|\s+\d+ bytes stack frame|$", line)]
    sys.stdout.write(done.stdout)
    sys.stderr.write("".join(line + "\n" for line in rest))
    return done.returncode


def read_report(text: str) -> dict[tuple[str, str], dict[str, int]]:
    """Return {(kernel, architecture): {"stack", "stores", "loads", "registers"}} of a ``ptxas -v`` text."""
    kernels: dict[tuple[str, str], dict[str, int]] = {}
    current: dict[str, int] = {}
    for line in text.splitlines():
        if entry := ENTRY.search(line):
            current = kernels.setdefault((entry[1], entry[2]), {})
        elif frame := FRAME.search(line):
            current.update(stack=int(frame[1]), stores=int(frame[2]), loads=int(frame[3]))
        elif registers := REGISTERS.search(line):
            current["registers"] = int(registers[1])
    return kernels


def complaints_of(kernel: str, architecture: str, figures: dict[str, int]) -> list[str]:
    """Return complaints about one kernel on one architecture."""
    name = f"{kernel} for {architecture}"
    if set(figures) != {"stack", "stores", "loads", "registers"}:
        return [f"{name}: the report is incomplete: {figures}"]
    borne = SPILL_MAX.get(architecture, 0)
    found = [f"{name}: {figures[key]} bytes of {key}" for key in ("stack", "stores", "loads") if figures[key] > borne]
    if figures["registers"] > REGISTERS_MAX:
        found.append(f"{name}: {figures['registers']} registers, more than {REGISTERS_MAX}")
    return found


def narrow_kernels(ptx: str) -> list[str]:
    """Return the kernels of a PTX text that have no 128-bit load, or that use local memory."""
    found = []
    for body in re.split(r"^\.visible \.entry |^\.entry ", ptx, flags=re.MULTILINE)[1:]:
        name = body.split("(", 1)[0]
        if any(word in name for word in LOADLESS):
            continue
        if WIDE_LOAD not in body:
            found.append(f"{name}: no {WIDE_LOAD} in its PTX")
        if "ld.local" in body or "st.local" in body:
            found.append(f"{name}: local memory in its PTX")
    return found


def check(reports: Path) -> int:
    """Check all reports; return the exit code."""
    complaints: list[str] = []
    kernels = texts = spilling = 0
    for report in sorted(reports.glob("*/ptxas.txt")):
        for (name, architecture), figures in read_report(report.read_text(encoding="utf-8")).items():
            kernels += 1
            spilling += figures.get("stack", 0) > 0
            complaints += complaints_of(name, architecture, figures)
        for ptx in sorted(report.parent.glob("*.ptx")):
            texts += 1
            complaints += narrow_kernels(ptx.read_text(encoding="utf-8"))
    if kernels == 0 or texts == 0:
        complaints.append(f"{reports}: no reports of ptxas, or no PTX; build the kernels first")
    spills = f"spills in {spilling}, where they are borne" if spilling else "no spills"
    print("\n".join(complaints) or f"{kernels} kernels: at most {REGISTERS_MAX} registers, {spills}, 128-bit loads")
    return 1 if complaints else 0


def main(arguments: list[str]) -> int:
    """Run one of the two commands."""
    if len(arguments) > 3 and arguments[0] == "compile" and arguments[2] == "--":
        return compile_and_keep(Path(arguments[1]), arguments[3:])
    if len(arguments) == 2 and arguments[0] == "check":
        return check(Path(arguments[1]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
