"""Check that every include and every link goes to a lower floor of the project, or to a neighbour named here.

Also check that files are accessed only through base::FileSystem, so that a test can make each call fail, and that only
src/json parses JSON, which limits its depth.

Run from anywhere: ``python3 tools/check_layers.py``. Exit code 1 and one line for each include or link that climbs and
for each call that bypasses the file system or the parser.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# folder -> (floor, neighbours on the same floor that it may include)
HOUSE: dict[str, tuple[int, tuple[str, ...]]] = {
    "include/stepwatch": (0, ()),
    "src/base": (1, ()),
    "src/vocabulary": (1, ("src/base",)),
    "kernels": (2, ()),
    "src/database": (3, ()),
    "src/json": (3, ()),
    "src/sockets": (3, ()),
    "src/http": (3, ("src/json", "src/sockets")),
    "src/config": (3, ("src/json",)),
    "src/plan": (3, ("src/config",)),
    "src/records": (3, ()),
    "src/device": (3, ("src/records",)),
    "src/stats": (3, ("src/device", "src/records")),
    "src/sinks": (3, ()),
    "src/alerts": (3, ()),
    "src/step": (4, ()),
    "src/output": (4, ()),
    "src/drain": (4, ("src/step", "src/output")),
    "src/offline": (4, ()),
    "src/logs": (4, ()),
    "controller/status": (5, ()),
    "controller/watch": (5, ()),
    "controller/writeback": (5, ()),
    "controller/agree": (5, ()),
    "controller/ask": (5, ("controller/agree",)),
    "controller/journal": (5, ("controller/watch",)),
    "controller/budget": (5, ("controller/agree", "controller/status")),
    "controller/reload": (
        5,
        (
            "controller/status",
            "controller/watch",
            "controller/writeback",
            "controller/agree",
            "controller/ask",
            "controller/journal",
            "controller/budget",
        ),
    ),
    "controller/control_socket": (5, ("controller/status",)),
    "controller/api": (
        5,
        (
            "controller/status",
            "controller/watch",
            "controller/agree",
            "controller/ask",
            "controller/budget",
            "controller/reload",
            "controller/control_socket",
        ),
    ),
    "src/testing": (5, ("controller/api",)),
    "controller/cli": (
        5,
        (
            "controller/watch",
            "controller/writeback",
            "controller/reload",
            "controller/control_socket",
            "controller/api",
            "src/testing",
        ),
    ),
    "operations/vocabulary": (6, ()),
    "operations/trace": (6, ("operations/vocabulary",)),
    "operations/runs": (6, ("operations/vocabulary",)),
    "operations/detectors": (6, ("operations/vocabulary", "operations/runs")),
    "operations/incidents": (6, ("operations/vocabulary", "operations/runs", "operations/detectors")),
    "operations/store": (6, ("operations/vocabulary", "operations/trace", "operations/runs")),
    "operations/metrics": (6, ("operations/vocabulary", "operations/runs")),
    "operations/performance": (6, ("operations/vocabulary", "operations/runs")),
    "operations/intake": (
        6,
        (
            "operations/vocabulary",
            "operations/trace",
            "operations/runs",
            "operations/store",
            "operations/performance",
            "operations/logs",
        ),
    ),
    "operations/delivery": (
        6,
        ("operations/vocabulary", "operations/store", "operations/runs", "operations/intake"),
    ),
    "operations/remedy": (6, ("operations/vocabulary", "operations/intake")),
    "operations/witness": (6, ("operations/vocabulary",)),
    "operations/gpu": (6, ("operations/vocabulary", "operations/witness")),
    "operations/logs/outputs": (
        6,
        ("operations/store", "operations/delivery", "operations/vocabulary"),
    ),
    "operations/provision": (6, ()),
    "operations/host": (6, ("operations/witness",)),
    "operations/maintenance": (6, ("operations/witness", "operations/store")),
    "operations/logs": (6, ("operations/vocabulary", "operations/trace")),
    "operations/log_intake": (
        6,
        (
            "operations/intake",
            "operations/logs",
            "operations/logs/outputs",
            "operations/delivery",
            "operations/store",
            "operations/vocabulary",
            "operations/trace",
            "operations/witness",
        ),
    ),
    "operations/discovery": (
        6,
        ("operations/vocabulary", "operations/trace", "operations/metrics", "operations/witness"),
    ),
    "operations/daemon": (
        6,
        (
            "operations/store",
            "operations/intake",
            "operations/delivery",
            "operations/logs/outputs",
            "operations/metrics",
            "operations/witness",
            "operations/discovery",
            "operations/gpu",
            "operations/provision",
            "operations/host",
            "operations/maintenance",
            "operations/logs",
            "operations/log_intake",
            "operations/vocabulary",
            "operations/trace",
            "operations/runs",
            "operations/detectors",
            "operations/incidents",
        ),
    ),
    "front_ends/shared": (6, ()),
    "front_ends/torch": (6, ()),
    "front_ends/python": (6, ()),
    "examples/gpt": (6, ()),
    "bench": (7, ()),
    "tests": (8, ()),
}
# Floor 6 sees the public vocabulary, the facade declared in include/stepwatch, and code shared by front ends. A target
# of floor 6 links the targets that define those declarations.
FRONT_ENDS_MAY_SEE = ("include/stepwatch", "front_ends/shared", "src/logs")
FRONT_ENDS_MAY_LINK = (
    "src/vocabulary",
    "controller/api",
    "src/offline",
    "src/logs",
    "front_ends/shared",
    "front_ends/torch",
)
# Operations access a job from outside: text, files, and its control socket.
OPERATIONS_MAY_USE = (
    "include/stepwatch",
    "src/base",
    "src/vocabulary",
    "src/database",
    "src/json",
    "src/sockets",
    "src/http",
    "src/config",
    "src/logs",
    "controller/watch",
    "controller/control_socket",
)
TOPS = ("include", "src", "kernels", "controller", "front_ends", "operations", "examples", "bench", "tests")
# Third-party headers and the only folders that may include them.
GUARDED: dict[str, tuple[str, ...]] = {
    r"(torch|ATen|c10)/": (
        "include/stepwatch/torch",
        "front_ends/torch",
        "examples",
        "tests/front_ends/torch",
        "bench",
    ),
    r"boost/(?!crc|intrusive)": ("src/sockets", "src/http", "controller", "operations", "tests"),
    r"boost/crc": ("src/sinks",),
    r"boost/intrusive": ("src/drain",),
    r"google/protobuf/": ("src/sinks",),
    r"hwy/": ("kernels",),
    r"re2/": ("src/config", "src/logs", "bench"),
    r"png\.h": ("src/sinks", "tests/sinks"),
    r"zlib\.h": ("operations/logs", "tests/operations/logs"),
    r"sqlite3": ("src/database", "tests/offline", "tests/operations/store"),
    r"cuda": ("kernels/cuda", "tests/kernels/cuda", "bench/gpu"),
    r"nlohmann/": (
        "src/json",
        "src/http",
        "src/config",
        "src/alerts",
        "src/output",
        "src/offline",
        "src/logs",
        "controller/status",
        "controller/control_socket",
        "controller/cli",
        "operations",
        "tests",
        "bench",
    ),
}
# Raw calls on files, allowed in src/base/file_system.cc. All other code uses a base::FileSystem.
RAW_FILE_CALL = re.compile(
    r"(?<![\w>.)])::(?:open|openat|creat|read|pread|write|pwrite|fsync|fdatasync|fallocate|ftruncate|truncate"
    r"|rename|renameat2?|link|linkat|symlink|unlink|unlinkat|remove|stat|fstat|fstatat|lstat|statx|access|faccessat"
    r"|mkdir|mkdirat|mkdtemp|mkstemp|rmdir|opendir|fdopendir|readdir|readlink|realpath|getcwd|chmod|fchmod"
    r"|chown|fchown|lchown"
    r"|flistxattr|fgetxattr|fsetxattr|inotify_add_watch|fopen)\s*\("
    r"|\bstd::(?:[io]?fstream|fopen|rename|filesystem)\b(?=\s*[({:\s])"
    r"|\bfopen\s*\("
)
# Exceptions, with their reason.
RAW_FILE_CALLERS = {
    "controller/watch/inotify_hint.cc": ("::read(",),  # the queue of events, which is on no mount
    "controller/cli/config_file.cc": ("::read(",),  # a pipe, which has no offsets
    "controller/cli/logs.cc": ("::read(",),  # files and pipes, read to their end in one way
    "controller/cli/top/terminal.cc": ("::read(",),  # keys, signals and a counter
    "operations/daemon/replay_command.cc": ("::read(",),  # a pipe, which has no offsets
    "operations/witness/run_program.cc": ("::read(", "::write("),  # likewise
}
# Calls of the JSON library's parser, which accepts values of any depth. All other code uses src/json, except a handler
# that limits the depth itself.
RAW_JSON_CALL = re.compile(
    r"\b\w*[Jj]son::(?:parse|accept|sax_parse|parser|from_\w+)(?=\s*[(<])|\b_(?:ordered_)?json\b(?=\s*\()"
    r"|\bjson_sax\w*\s*<|>>\s*\w*[jJ]son\b"
)
RAW_JSON_CALLERS = {"src/config/json_reader.cc": ("json::sax_parse",)}
PROJECT = ("include/", "src/", "kernels/", "controller/", "front_ends/", "operations/")
CODE_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
COMMENT = re.compile(r"#[^\n]*")
COMMAND = re.compile(r"\b(\w+)\s*\(([^()]*)\)")
# CMake commands that define a target; those of this project list their links after DEPS.
DEFINE = {"add_library", "add_executable", "nanobind_add_module", "stepwatch_cuda_kernels"}
OURS = {"stepwatch_library", "stepwatch_test", "stepwatch_fuzzer"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def folder_of(path: str) -> str | None:
    """Return the folder that contains a path, the longest match first."""
    matches = [folder for folder in HOUSE if path.startswith(folder + "/")]
    return max(matches, key=len, default=None)


def resolve(include: str) -> str | None:
    """Return the path from the root of an include of this project; None for a foreign one."""
    candidate = "include/" + include if include.startswith("stepwatch/") else include
    return candidate if folder_of(candidate) else None


def complaint(source: str, include: str) -> str | None:
    """Return a complaint about one include, or None."""
    here = folder_of(source)
    if here is None:
        return f"{source}: lies in no folder of the house"
    for pattern, allowed in GUARDED.items():
        if re.match(pattern, include) and not source.startswith(allowed):
            return f"{source}: <{include}> may be included only in {', '.join(allowed)}"
    target = resolve(include)
    there = folder_of(target) if target else None
    if there is None or there == here:
        return None
    floor, neighbours = HOUSE[here]
    if floor == 6:
        below = OPERATIONS_MAY_USE if here.startswith("operations/") else FRONT_ENDS_MAY_SEE
        return None if there in (*below, *neighbours) else f"{source}: {here} may not include {include}"
    if HOUSE[there][0] < floor or there in neighbours:
        return None
    return f"{source}: {here} (floor {floor}) may not include {include} (floor {HOUSE[there][0]})"


def raw_file_calls(source: str, text: str) -> list[str]:
    """Return a line for each call on files that bypasses base::FileSystem."""
    if not source.startswith(PROJECT) or source.startswith("src/base/"):
        return []
    allowed = RAW_FILE_CALLERS.get(source, ())
    code = CODE_COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    found = []
    for call in RAW_FILE_CALL.finditer(code):
        if call.group() in allowed:
            continue
        line = code.count("\n", 0, call.start()) + 1
        found.append(f"{source}:{line}: {call.group().rstrip('(')}: files are touched through base::FileSystem")
    return found


def raw_json_calls(source: str, text: str) -> list[str]:
    """Return a line for each call that parses JSON without a limit on its depth."""
    if not source.startswith(PROJECT) or source.startswith("src/json/"):
        return []
    code = CODE_COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    return [
        f"{source}:{code.count(chr(10), 0, call.start()) + 1}: {call.group()}: JSON is parsed by bounded::ParseJson"
        for call in RAW_JSON_CALL.finditer(code)
        if call.group() not in RAW_JSON_CALLERS.get(source, ())
    ]


def links(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the targets that a CMakeLists defines, and its links as (from, to)."""
    defined, edges = [], []
    for command, arguments in COMMAND.findall(COMMENT.sub("", text)):
        words = arguments.split()
        if command in DEFINE | OURS and words:
            defined.append(words[0])
        if command in OURS and "DEPS" in words:
            edges += [(words[0], word) for word in words[words.index("DEPS") + 1 :]]
        if command == "target_link_libraries":
            edges += [(words[0], word) for word in words[1:]]
    return defined, edges


def link_complaint(here: str, source: str, there: str, target: str) -> str | None:
    """Return a complaint about the link of a target in folder `here` to one in folder `there`, or None."""
    floor, neighbours = HOUSE[here]
    if there == here or there in neighbours:
        return None
    above = OPERATIONS_MAY_USE if here.startswith("operations/") else FRONT_ENDS_MAY_LINK
    allowed = there in above if floor == 6 else HOUSE[there][0] < floor
    return None if allowed else f"{here}: {source} (floor {floor}) may not link {target} (floor {HOUSE[there][0]})"


def link_complaints() -> list[str]:
    """Check the links in the CMakeLists of all folders."""
    homes: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("CMakeLists.txt")):
            folder = folder_of(path.relative_to(ROOT).as_posix())
            text = path.read_text(encoding="utf-8")
            if folder is None or "project(" in text:  # a separately built program
                continue
            defined, found = links(text)
            homes.update(dict.fromkeys(defined, folder))
            edges += found
    known = [
        (homes[source], source, homes[target], target) for source, target in edges if {source, target} <= set(homes)
    ]
    return [found for edge in known if (found := link_complaint(*edge))]


def main() -> int:
    """Check all sources; return the exit code."""
    complaints = link_complaints()
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            source = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            complaints += [found for include in INCLUDE.findall(text) if (found := complaint(source, include))]
            complaints += raw_file_calls(source, text)
            complaints += raw_json_calls(source, text)
    fine = "every include and every link goes down the floors, files go through base::FileSystem, JSON through src/json"
    print("\n".join(complaints) if complaints else fine)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
