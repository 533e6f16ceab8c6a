"""Compile every touched C++ file separately: ``compile_alone.py BUILD_DIRECTORY [BASE]``.

Unity builds hide a missing include. BUILD_DIRECTORY is a tree configured without unity builds, of which only the
compile commands are read. BASE is the commit before the change; the default is the variable CI_BASE, otherwise the
newest commit that is three hours older than the last one. Sources pass the compiler's whole front end (-fsyntax-only),
and headers as well, with the options of a source beside them. A header that its own source includes first is compiled
with that source.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHANGE_SECONDS = 3 * 3600


def git(*words: str) -> str:
    """Return git's output."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def base_commit() -> str:
    """Return the commit before the change."""
    if base := os.environ.get("CI_BASE"):
        return base
    before = int(git("log", "-1", "--format=%ct")) - CHANGE_SECONDS
    return git("rev-list", "-1", f"--before={before}", "HEAD") or git("rev-list", "--max-parents=0", "HEAD")


def commands(build: Path) -> dict[Path, list[str]]:
    """Return {source: the words of its compile command, without output}."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        # A launcher may precede the compiler.
        while words and not Path(words[0]).name.startswith(("c++", "g++", "clang++")):
            words.pop(0)
        if words and entry["file"].endswith(".cc"):
            at = words.index("-o")
            found[Path(entry["file"])] = [
                word for word in words[:at] + words[at + 2 :] if word not in ("-c", entry["file"])
            ]
    return found


def neighbour(header: Path, known: dict[Path, list[str]]) -> list[str] | None:
    """Return the options of a source that includes the header, or of the nearest source."""
    include = f'"{header.relative_to(ROOT).as_posix()}"'
    for source in sorted(known):
        if header.parent == source.parent and include in source.read_text(encoding="utf-8"):
            return known[source]
    folders = [ROOT / "front_ends/torch"] if ROOT / "include" in header.parents else []  # torch.h is one of these
    for folder in [*folders, *header.parents]:
        beside = sorted(source for source in known if folder in source.parents)
        if beside:
            return known[beside[0]]
        if folder == ROOT:
            break
    return None


def is_first_include(header: Path) -> bool:
    """Return whether the header's own source includes it first."""
    source = header.with_suffix(".cc")
    if not source.exists():
        return False
    first = re.search(r'^#include [<"]([^>"]+)', source.read_text(encoding="utf-8"), re.MULTILINE)
    return first is not None and header.as_posix().endswith(f"/{first.group(1)}")


def compile_one(path: Path, options: list[str]) -> str:
    """Return the compiler's complaints about a file, or an empty text."""
    language = ["-x", "c++"] if path.suffix == ".h" else []
    quiet = ["-Wno-pragma-once-outside-header", "-Wno-error"] if "clang" in options[0] else []
    main = ["-include", str(path), "/dev/null"] if path.suffix == ".h" else [str(path)]
    done = subprocess.run(
        [*options, *quiet, "-fsyntax-only", *language, *main], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return f"{path.relative_to(ROOT)} does not compile alone:\n{done.stderr}" if done.returncode else ""


def main() -> int:
    """Compile; return the exit code."""
    known = commands(Path(sys.argv[1]))
    base = sys.argv[2] if len(sys.argv) > 2 else base_commit()
    touched = [
        ROOT / name for name in git("diff", "--name-only", "--diff-filter=d", base, "--", "*.cc", "*.h").splitlines()
    ]
    jobs, left_out = {}, []
    own = [path for path in touched if path.suffix == ".h" and is_first_include(path)]
    sources = [path for path in touched if path not in own]
    sources += [source for path in own if (source := path.with_suffix(".cc")) not in sources]
    for path in sources:
        options = known.get(path) if path.suffix == ".cc" else neighbour(path, known)
        if options is None:
            left_out.append(path.relative_to(ROOT).as_posix())
        else:
            jobs[path] = options
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda item: compile_one(*item), jobs.items()) if text]
    print("\n".join(complaints))
    print(f"{len(jobs)} files touched since {base[:8]} were compiled alone, {len(complaints)} failed")
    if left_out:
        print("not part of this build:", ", ".join(left_out))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
