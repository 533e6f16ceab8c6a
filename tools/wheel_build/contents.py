"""Checks of a wheel, made on the file itself."""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from pathlib import Path

from wheel_build.elf import ElfFile, glibc_version, read_elf

GLIBC_MAX = (2, 34)
BYTES_MAX = 15 * 1024 * 1024
PLATFORM = f"manylinux_{GLIBC_MAX[0]}_{GLIBC_MAX[1]}_x86_64"
NAME = re.compile(rf"stepwatch-(?P<version>[\w.]+)-(?P<python>cp\d+)-(?P<abi>cp\d+|abi3)-{PLATFORM}\.whl")
# glibc's own files, and the loader.
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
SUFFIXES = {".py", ".pyi", ".typed"}
PACKAGES = ("stepwatch/", "uniscale_monitoring/")


def complaints_of_elf(elf: ElfFile, *, is_module: bool) -> list[str]:
    """Return properties of a module or program that break loading elsewhere, or conflict with other libraries."""
    complaints = [f"needs {name}, which is no part of glibc" for name in sorted(elf.needed - GLIBC)]
    refused: dict[str, list[str]] = {}
    for name, version in elf.taken:
        if version and (glibc_version(version) or (sys.maxsize,)) > GLIBC_MAX:
            refused.setdefault(version, []).append(name)
    for version, names in refused.items():
        why = f"later than {'.'.join(map(str, GLIBC_MAX))}" if glibc_version(version) else "not of glibc's public ones"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        complaints.append(f"takes {', '.join(sorted(names)[:3])}{more} of {version}, {why}")
    if is_module and elf.given != {"PyInit__core"}:
        others = sorted(elf.given - {"PyInit__core"})
        complaints.append(f"shows {len(others)} symbols beside PyInit__core: {', '.join(others[:5])}")
    if not is_module and ".nv_fatbin" in elf.sections:
        complaints.append("holds device code, which the extension has already")
    left = sorted(name for name in elf.sections if name in (".symtab", ".strtab") or name.startswith(".debug"))
    if left:
        complaints.append(f"is not stripped: {', '.join(left)}")
    return sorted(complaints)


def module_suffix(python: str, abi: str) -> str:
    """Return the required suffix of the extension's file: .abi3.so, or .cpython-311-x86_64-linux-gnu.so."""
    return ".abi3.so" if abi == "abi3" else f".cpython-{python[2:]}-x86_64-linux-gnu.so"


def complaints_of_names(wheel: str, names: list[str]) -> list[str]:
    """Return complaints about the wheel's name, and the names of its files."""
    match = NAME.fullmatch(wheel)
    if match is None:
        return [f"its name is not that of a wheel for {PLATFORM}"]
    python, abi = match["python"], match["abi"]
    complaints = []
    if abi not in ("abi3", python):
        complaints.append(f"{python} and {abi} do not go together")
    base = f"stepwatch-{match['version']}"
    wanted = {f"stepwatch/_core{module_suffix(python, abi)}", f"{base}.data/scripts/stepwatch"}
    notices = {f"{base}.dist-info/licenses/THIRD_PARTY_NOTICES"}
    expected = wanted | notices | {"stepwatch/__init__.py", "stepwatch/_core.pyi", "stepwatch/py.typed"}
    expected.add("uniscale_monitoring/__init__.py")
    complaints += [f"{name} is missing" for name in sorted(expected - set(names))]
    for name in names:
        is_known = name in wanted or name.startswith(f"{base}.dist-info/")
        if not is_known and not (name.startswith(PACKAGES) and Path(name).suffix in SUFFIXES):
            complaints.append(f"{name} does not belong into it")
    return complaints


def complaints_of(wheel: Path) -> list[str]:
    """Return all complaints about a wheel."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        complaints = complaints_of_names(wheel.name, names)
        if wheel.stat().st_size > BYTES_MAX:
            complaints.append(f"has {wheel.stat().st_size} bytes, more than {BYTES_MAX}")
        for name in names:
            file = Path(archive.extract(name, scratch))
            with open(file, "rb") as data:
                is_elf = data.read(4) == b"\x7fELF"
            if is_elf:
                found = complaints_of_elf(read_elf(file), is_module=name.endswith(".so"))
                complaints += [f"{name} {complaint}" for complaint in found]
    return complaints


def report(wheel: Path) -> list[str]:
    """Print and return the complaints about a wheel."""
    complaints = complaints_of(wheel)
    for complaint in complaints:
        print(f"{wheel.name}: {complaint}", file=sys.stderr)
    if not complaints:
        version = ".".join(map(str, GLIBC_MAX))
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB, needs glibc {version} and nothing else")
    return complaints
