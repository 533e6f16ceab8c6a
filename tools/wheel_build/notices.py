"""The licences of a wheel's contents, in one file: those of the pinned sources, and of headers that Debian installs."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
DOC = Path("/usr/share/doc")
# Package, and the paragraphs of its debian/copyright that apply to code compiled into a wheel; none: the whole file.
INSTALLED = {
    "libboost1.81-dev": ("Files: *", "License: BSL-1.0"),
    "libcli11-dev": (),
    "libssl-dev": (),
    "nlohmann-json3-dev": (),
}
NAMES = ("LICENSE*", "COPYING*")


def pinned() -> list[str]:
    """Return the names of the source packages in sources.txt."""
    lines = (HERE / "sources.txt").read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def of_source(folder: Path) -> str:
    """Return the licence in a source package."""
    found = sorted(path for name in NAMES for path in folder.glob(name) if path.is_file())
    files = found or [folder / "debian/copyright"]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").strip() for path in files)


def chosen(copyright_file: str, beginnings: tuple[str, ...]) -> str:
    """Return the paragraphs of a debian/copyright that begin with these names, or the whole file."""
    if not beginnings:
        return copyright_file.strip()
    paragraphs = copyright_file.split("\n\n")
    first = [next((each for each in paragraphs if each.startswith(f"{start}\n")), "") for start in beginnings]
    return "\n\n".join(paragraph.strip() for paragraph in first if paragraph)


def write(path: Path, sources: Path) -> None:
    """Write the file."""
    parts = {name: of_source(sources / name) for name in pinned()}
    for name, beginnings in INSTALLED.items():
        parts[name] = chosen((DOC / name / "copyright").read_text(encoding="utf-8"), beginnings)
    rule = "=" * 100
    path.write_text(
        "\n\n".join(f"{rule}\n{name}\n{rule}\n\n{text}" for name, text in parts.items()) + "\n", encoding="utf-8"
    )
