"""The checks of a wheel: its name, its files, and the output of readelf for its module."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from wheel_build import contents
from wheel_build.elf import ElfFile, glibc_version, parse_readelf

# As binutils 2.40 prints it, but for lines left out.
READELF = """There are 27 section headers, starting at offset 0x5b9f78:

Section Headers:
  [Nr] Name              Type            Address          Off    Size   ES Flg Lk Inf Al
  [ 0]                   NULL            0000000000000000 000000 000000 00      0   0  0
  [ 1] .note.gnu.build-id NOTE            0000000000000270 000270 000024 00   A  0   0  4
  [ 3] .dynsym           DYNSYM          0000000000009a18 009a18 01e330 18   A  4   1  8
  [26] .shstrtab         STRTAB          0000000000000000 5b9e60 000112 00      0   0  1
Key to Flags:
  W (write), A (alloc), X (execute), M (merge), S (strings), I (info),

Dynamic section at offset 0x5a2ba0 contains 36 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000c (INIT)               0xc1000

Symbol table '.dynsym' contains 5154 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND
     1: 0000000000000000     0 NOTYPE  GLOBAL DEFAULT  UND PyErr_FormatV
     2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND strdup@GLIBC_2.2.5 (2)
     3: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND pthread_create@GLIBC_2.34 (3)
     4: 00000000002badb0     1 FUNC    GLOBAL DEFAULT   12 PyInit__core
     5: 00000000002bad10     8 OBJECT  LOCAL  DEFAULT   24 kept_to_itself
     6: 00000000002bad18     8 OBJECT  WEAK   HIDDEN    24 hidden
"""
SYMBOL = "     7: {value:016x}     0 {kind:7} GLOBAL DEFAULT  {index} {name}\n"
CP311 = "stepwatch-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl"
FILES = [
    "stepwatch/__init__.py",
    "stepwatch/_core.cpython-311-x86_64-linux-gnu.so",
    "stepwatch/_core.pyi",
    "stepwatch/hooks/__init__.py",
    "stepwatch/py.typed",
    "uniscale_monitoring/__init__.py",
    "stepwatch-0.1.0.data/scripts/stepwatch",
    "stepwatch-0.1.0.dist-info/METADATA",
    "stepwatch-0.1.0.dist-info/licenses/THIRD_PARTY_NOTICES",
]


def module(*, more: str = "", **replaced: str) -> ElfFile:
    text = READELF + more
    for old, new in replaced.items():
        text = text.replace(old, new)
    return parse_readelf(text)


def test_a_module_that_needs_glibc_alone_and_shows_its_entry_alone_is_good() -> None:
    elf = module()
    assert elf.needed == {"libm.so.6", "libc.so.6"}
    assert elf.given == {"PyInit__core"}
    assert ("pthread_create", "GLIBC_2.34") in elf.taken and ("PyErr_FormatV", "") in elf.taken
    assert ".dynsym" in elf.sections
    assert contents.complaints_of_elf(elf, is_module=True) == []


@pytest.mark.parametrize("library", ["libstdc++.so.6", "libgcc_s.so.1", "libsqlite3.so.0", "libcudart.so.13"])
def test_a_library_that_is_not_glibcs_is_named(library: str) -> None:
    (complaint,) = contents.complaints_of_elf(module(**{"libm.so.6": library}), is_module=True)
    assert library in complaint and "glibc" in complaint


@pytest.mark.parametrize(
    ("symbol", "version"),
    [
        ("arc4random", "GLIBC_2.36"),
        ("_dl_find_object", "GLIBC_2.35"),
        ("strtol", "GLIBC_2.100"),
        ("_ZNSt6thread4joinEv", "GLIBCXX_3.4.11"),
        ("_dl_argv", "GLIBC_PRIVATE"),
    ],
)
def test_a_symbol_that_an_older_system_does_not_have_is_named(symbol: str, version: str) -> None:
    more = SYMBOL.format(value=0, kind="FUNC", index="UND", name=f"{symbol}@{version} (5)")
    (complaint,) = contents.complaints_of_elf(module(more=more), is_module=True)
    assert symbol in complaint and version in complaint


def test_versions_are_compared_as_numbers() -> None:
    assert glibc_version("GLIBC_2.4") == (2, 4)
    assert glibc_version("GLIBC_2.2.5") == (2, 2, 5)
    assert glibc_version("GLIBCXX_3.4.11") is None


def test_a_symbol_that_other_libraries_could_meet_is_named_for_a_module_only() -> None:
    more = SYMBOL.format(value=16, kind="FUNC", index=" 12", name="_ZN6google8protobuf7Message5ClearEv")
    (complaint,) = contents.complaints_of_elf(module(more=more), is_module=True)
    assert "protobuf" in complaint
    assert contents.complaints_of_elf(module(more=more), is_module=False) == []


def test_device_code_is_for_the_extension_and_not_for_the_program_as_well() -> None:
    elf = module(**{".note.gnu.build-id": ".nv_fatbin"})
    assert contents.complaints_of_elf(elf, is_module=True) == []
    (complaint,) = contents.complaints_of_elf(elf, is_module=False)
    assert "device code" in complaint


@pytest.mark.parametrize("section", [".symtab", ".debug_info"])
def test_what_strip_takes_away_is_named_if_it_is_still_there(section: str) -> None:
    (complaint,) = contents.complaints_of_elf(module(**{".shstrtab": section}), is_module=True)
    assert section in complaint and "stripped" in complaint


def test_a_wheel_holds_the_package_the_program_and_the_licences() -> None:
    assert contents.complaints_of_names(CP311, FILES) == []
    for missing in set(FILES) - {"stepwatch/hooks/__init__.py", "stepwatch-0.1.0.dist-info/METADATA"}:
        found = contents.complaints_of_names(CP311, [name for name in FILES if name != missing])
        assert found == [f"{missing} is missing"]


def test_a_wheel_for_the_stable_abi_holds_a_module_for_it() -> None:
    name = CP311.replace("cp311-cp311", "cp312-abi3")
    assert any("_core.abi3.so is missing" in found for found in contents.complaints_of_names(name, FILES))
    abi3 = [file.replace("cpython-311-x86_64-linux-gnu", "abi3") for file in FILES]
    assert contents.complaints_of_names(name, abi3) == []


@pytest.mark.parametrize("name", ["stepwatch-0.1.0.libs/libsqlite3.so.0", "stepwatch/native/session.cc", "lib/libsw.a"])
def test_a_file_that_does_not_belong_into_a_wheel_is_named(name: str) -> None:
    assert contents.complaints_of_names(CP311, [*FILES, name]) == [f"{name} does not belong into it"]


@pytest.mark.parametrize(
    "name",
    [
        CP311.replace("manylinux_2_34", "linux"),
        CP311.replace("2_34", "2_36"),
        CP311.replace("cp311-cp311", "cp311-cp310"),
    ],
)
def test_a_name_that_promises_something_else_is_refused(name: str) -> None:
    assert contents.complaints_of_names(name, FILES) != []


def test_a_wheel_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / CP311
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in FILES:
            archive.writestr(name, "text")
    assert contents.complaints_of(wheel) == []
    monkeypatch.setattr(contents, "BYTES_MAX", 100)
    (complaint,) = contents.complaints_of(wheel)
    assert "more than 100" in complaint
