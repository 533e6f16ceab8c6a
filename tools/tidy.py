"""Check rules that a compiler does not check: line length, leftover marks, dead links, plain English.

Run from anywhere: ``python3 tools/tidy.py``. Exit code 1 and one line for each finding. Classes with many member
functions are reported as notes, which are not findings.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LINE_LENGTH_MAX = 120
# A class with more functions may need to be split.
MEMBER_FUNCTIONS_MAX = 25
CODE = {".h", ".cc", ".py", ".cmake"}
TEXT = CODE | {".md", ".json", ".txt", ".sh"}
# Split so that this file does not match itself.
MARKS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
# Not in the stable ABI of Python, but in the headers of a version.
PYTHONS_INNARDS = re.compile(r"->(?:tp|ob)_\w+|\bPy(?:Tuple|List|Float|Long|Bytes|Unicode)_(?:GET|AS)_[A-Z]+\b")
STABLE_ABI = "front_ends/python/native/"
# Text for a terminal goes through base::Print, which removes foreign control characters; these files write escape
# sequences on purpose.
PRINTS = re.compile(r"std::(?:printf|fprintf|fputs|puts|fputc|fwrite|perror|cout|cerr)\b")
PROGRAMS = ("controller/cli/", "operations/")
WRITES_ESCAPES = ("controller/cli/top/terminal.cc", "controller/cli/offline.cc", "controller/cli/print_answer.cc")
# Plain English, in documents, public headers and help texts of both programs: the subject comes first.
OPENINGS = re.compile(r"(?:^|(?<=[.:!?;|] )|(?<=^- ))(?:What|Of|Who|Whose|Whoever|Whatever|Nothing|None|Nobody)\b")
WORDS = re.compile(
    r"\b(?:nought|lately|in vain|for ever|all the same|whoever|midst|is none|are none)\b"
    r"|\b(?:tells?|told|says?|said|hears?|heard)\b"
    r"|\b(?<!there )(?:is|are) no (?!longer\b|more\b|less\b|later\b|larger\b)",
    re.IGNORECASE,
)
QUOTED = re.compile(r"`[^`]*`|\[[^]]*\]\([^)]*\)|\"[^\"]*\"")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
HELP_TEXTS = ("operations/daemon/main.cc",)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)'", re.DOTALL)
CLASS = re.compile(r"^ *(?:class|struct) (?:STEPWATCH_\w+ )?(\w+)[^;{()]*\{", re.MULTILINE)
INNER_BRACES = re.compile(r"\{[^{}]*\}")
ANGLES = re.compile(r"<[^<>;]*>")
FUNCTION = re.compile(r"\w\s*\(")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
# Intentionally wrong inputs.
EXEMPT = ("schemas/examples/",)


def tracked_files() -> list[Path]:
    """Return the files of the checkout: tracked ones, and new ones that git does not ignore."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


def line_findings(name: str, suffix: str, lines: list[str]) -> list[str]:
    """Return findings about single lines."""
    findings = []
    for number, line in enumerate(lines, 1):
        if suffix in CODE and len(line) > LINE_LENGTH_MAX:
            findings.append(f"{name}:{number}: {len(line)} characters, at most {LINE_LENGTH_MAX}")
        if line != line.rstrip():
            findings.append(f"{name}:{number}: space at the end of the line")
        if "\t" in line and suffix in CODE:
            findings.append(f"{name}:{number}: tab")
        if MARKS.search(line):
            findings.append(f"{name}:{number}: leftover mark")
        if suffix == ".cc" and name.startswith(PROGRAMS) and name not in WRITES_ESCAPES and PRINTS.search(line):
            findings.append(f"{name}:{number}: base::Print prints, without the control characters of others")
        if name.startswith(STABLE_ABI) and (found := PYTHONS_INNARDS.search(line)):
            findings.append(f"{name}:{number}: {found[0]} is not in the stable ABI, which the wheel for 3.12 needs")
    return findings


def spoken_text(name: str, lines: list[str]) -> list[tuple[int, str]]:
    """Return the lines of prose with their numbers: of a document, of comments in a public header, of help texts."""
    if name.endswith(".md") and (name.startswith("docs/") or "/" not in name):
        fenced = [line.startswith("```") for line in lines]
        inside = [sum(fenced[: index + 1]) % 2 == 1 for index in range(len(lines))]
        return [
            (number, line)
            for number, (line, code) in enumerate(zip(lines, inside), 1)
            if not code and not line.startswith("    ")
        ]
    if name.startswith("include/stepwatch/"):
        comments = [(number, line.partition("//")) for number, line in enumerate(lines, 1)]
        return [(number, text.lstrip("/ ")) for number, (_, slashes, text) in comments if slashes]
    if name in HELP_TEXTS or (name.startswith("controller/cli/") and name.endswith(".cc")):
        texts = ((number, text) for number, line in enumerate(lines, 1) for text in LITERAL.findall(line))
        return [(number, text) for number, text in texts if " " in text]
    return []


def english_findings(name: str, lines: list[str]) -> list[str]:
    """Return sentences without a leading subject, and archaic words."""
    findings = []
    if name.endswith((".h", ".cc")) and not name.startswith("include/stepwatch/"):
        for number, line in enumerate(lines, 1):
            comment = QUOTED.sub("", line.strip())
            if comment.startswith("//") and (found := OPENINGS.search(comment.lstrip("/ "))):
                findings.append(f'{name}:{number}: a sentence of a comment begins with "{found[0]}"')
    for number, text in spoken_text(name, lines):
        prose = QUOTED.sub("", text)
        for found in (*OPENINGS.finditer(prose), *WORDS.finditer(prose)):
            findings.append(f'{name}:{number}: "{found[0].strip()}" is not plain English here: {text.strip()[:60]}')
    return findings


@functools.cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", prose, flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def link_findings(path: Path, name: str, text: str) -> list[str]:
    """Return links of a document to files or headings that the checkout does not have."""
    findings = []
    for target, anchor in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        place = path.parent / target if target else path
        if not place.exists():
            findings.append(f"{name}: link to {target}, which is not there")
        elif anchor and place.suffix == ".md" and anchor not in anchors(place):
            findings.append(f"{name}: link to {target}#{anchor}, a heading that is not there")
    return findings


def member_functions(body: str) -> int:
    """Return the number of functions that the body of a class declares, without those of classes inside it."""
    while (shorter := INNER_BRACES.sub(";", body)) != body:
        body = shorter
    while (shorter := ANGLES.sub("", body)) != body:
        body = shorter
    statements = [statement.strip() for statement in body.split(";")]
    return sum(1 for each in statements if FUNCTION.search(each) and not each.startswith(("using ", "friend ")))


def class_notes(name: str, text: str) -> list[str]:
    """Return the classes of a file that have many member functions."""
    code = COMMENT.sub("", text)
    notes = []
    for found in CLASS.finditer(code):
        depth, end = 1, found.end()
        while end < len(code) and depth > 0:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        count = member_functions(code[found.end() : end - 1])
        if count > MEMBER_FUNCTIONS_MAX:
            notes.append(f"note: {name}: {found[1]} has {count} member functions; {MEMBER_FUNCTIONS_MAX} are many")
    return notes


def main() -> int:
    """Check all files; return the exit code."""
    findings: list[str] = []
    notes: list[str] = []
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in TEXT or name.startswith(EXEMPT):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if text and not text.endswith("\n"):
            findings.append(f"{name}: no newline at the end")
        if path.suffix in (".h", ".cc") and not name.startswith("tests/"):
            notes += class_notes(name, text)
        findings += line_findings(name, path.suffix, lines)
        findings += english_findings(name, lines)
        if path.suffix == ".md":
            findings += link_findings(path, name, text)
    print("\n".join([*notes, *findings] if findings else [*notes, "tidy"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
