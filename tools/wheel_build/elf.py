"""The requirements of an ELF file to the machine that loads it, read from the output of readelf."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]")
SECTION = re.compile(r"^ *\[ *\d+\] +(\S+)", re.MULTILINE)
# Num: Value Size Type Bind Vis Ndx Name[@version]
SYMBOL = re.compile(r"^ *\d+: +[0-9a-f]+ +\S+ +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class ElfFile:
    """Checked properties: needed libraries, imported symbols as (name, version), exported symbols, section names."""

    needed: frozenset[str]
    taken: frozenset[tuple[str, str]]
    given: frozenset[str]
    sections: frozenset[str]


def parse_readelf(text: str) -> ElfFile:
    """Parse the output of `readelf --wide --dynamic --dyn-syms --section-headers` for one file."""
    taken, given = set(), set()
    for kind, binding, visibility, section, symbol in SYMBOL.findall(text):
        name, _, version = symbol.partition("@")
        if section == "UND":
            taken.add((name, version.lstrip("@")))
        elif binding != "LOCAL" and visibility in ("DEFAULT", "PROTECTED") and kind not in ("SECTION", "FILE"):
            given.add(name)
    return ElfFile(
        needed=frozenset(NEEDED.findall(text)),
        taken=frozenset(taken),
        given=frozenset(given),
        sections=frozenset(SECTION.findall(text)),
    )


def read_elf(path: Path) -> ElfFile:
    """Run readelf on one file."""
    command = ["readelf", "--wide", "--dynamic", "--dyn-syms", "--section-headers", str(path)]
    return parse_readelf(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def glibc_version(version: str) -> tuple[int, ...] | None:
    """Return the numbers of GLIBC_2.34; None for a version not of glibc."""
    match = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else None
