"""Scripts of the changes that people and machines make to a config file, and of the reports that a watcher owes.

A scenario is a few lines of text. Most of them are shell, run by one bash in the scenario's directory; $V is a folder
of versions to save ($V/0 to $V/9 are valid configs of the same size, VERSIONS has the others). The
other lines begin with one of these words:

  needs WORD     a condition without which the scenario cannot be played: see NEEDS
  watch PATH     starts watching; without this line config.json holds version 0 and is watched, and 0 is seen first
  see VERSION    waits until the watcher accepts this version
  see restored VERSION, see refused VERSION, see missing, see unreadable TEXT
                 waits until it reports that; TEXT is a part of the reason
  may VERSION    allows this version to be accepted or refused on the way to the next one that is waited for
  reports COUNT  so many reports there have been in all
  rest SECONDS   a pause between the edits

One oracle holds for all of them: the version that is waited for comes in the end, and every version that comes was a
full version of the file: those of the lines `see` and `may` are, and no other.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from watch_process import DEADLINE_S, WatchProcess

HERE = pathlib.Path(__file__).resolve().parent
# Read once: scenarios start in threads, while pytest writes the name of each test into os.environ and takes it out.
ENVIRONMENT = dict(os.environ)


def config(number: int) -> bytes:
    """Return a valid config of which no proper beginning is valid: it ends with its closing brace."""
    return f'{{\n  // version {number}\n  "dynamic_on": true,\n  "start_step": {number}\n}}'.encode()


VERSIONS = {
    **{str(number): config(number) for number in range(10)},
    "long": config(1).replace(b"version 1", b"version 1" + b"." * 300_000),
    "mark": b"\xef\xbb\xbf" + config(1),  # as Windows editors save
    "crlf": config(1).replace(b"\n", b"\r\n"),
    "sixteen": config(1).decode().encode("utf-16"),
    "empty": b"",
    "zeros": b"\0" * len(config(1)),
    "half": config(1)[:30],
    "twice": config(1) + config(2),
    "deep": b"[" * 100_000,
    "wrong": b'{"ops": "norm"}',
    "torn": b'{"dynamic_on": "\x80"}',
}

# A command in front of the watcher, or nothing; a scenario that needs `mounts` has a mount namespace of its own.
ROOT_WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
WITH_LIMIT = ["unshare", "--user", "--map-root-user", "sh", "-c", 'echo {} > /proc/sys/user/{} && exec "$@"', "limited"]
NEEDS = {
    "permissions": ROOT_WITHOUT_RIGHTS if os.geteuid() == 0 else [],
    "root": [],
    "no-instances": [word.format(0, "max_inotify_instances") for word in WITH_LIMIT],
    "no-watches": [word.format(0, "max_inotify_watches") for word in WITH_LIMIT],
    "two-watches": [word.format(2, "max_inotify_watches") for word in WITH_LIMIT],
    "mounts": [],
    "overlay": [],
    "fuse": [],
}


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    lines: tuple[str, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(word for line in self.lines if line.startswith("needs ") for word in line.split()[1:])

    @property
    def versions(self) -> set[str]:
        """Those that the watcher may ever report."""
        names = set() if self.sets_the_scene else {"0"}
        for word, *rest in map(str.split, self.lines):
            if word == "may":
                names.update(rest)
            elif word == "see" and rest[0] not in ("missing", "unreadable"):
                names.add(rest[-1])
        return names

    @property
    def sets_the_scene(self) -> bool:
        return any(line.startswith("watch ") for line in self.lines)


def read_scenarios(path: pathlib.Path) -> list[Scenario]:
    """Read a file of scenarios: each begins with a line "== NAME"."""
    parts = re.split(r"^== (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        Scenario(name, tuple(line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")))
        for name, text in zip(parts[1::2], parts[2::2])
    ]


def lacks(needs: tuple[str, ...]) -> str:
    """Say why the machine, not a missing tool, rules a scenario out; or nothing."""
    probes = {
        "permissions": ["true"],
        "root": ["test", "-O", "/"],
        "mounts": ["unshare", "--mount", "true"],
        "overlay": ["unshare", "--mount", "sh", "-c", OVERLAY_PROBE],
        "fuse": ["unshare", "--mount", "sh", "-c", "true < /dev/fuse"],
    }
    for need in needs:
        command = probes.get(need, [*NEEDS[need], "true"])
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return f"this machine does not let us: {' '.join(command)}"
    return ""


# In a tmpfs: an overlay over an overlay, as the root of a container is, is refused by many kernels.
OVERLAY_PROBE = (
    "mount -t tmpfs none /mnt && cd /mnt && mkdir a b c d && mount -t overlay none -olowerdir=a,upperdir=b,workdir=c d"
)


class Stage:
    """One scenario, played in a directory of its own."""

    def __init__(self, scenario: Scenario, directory: pathlib.Path, poll_only: bool):
        self.scenario = scenario
        self.directory = directory / "d"
        self.directory.mkdir()
        self.versions = directory / "v"
        self.versions.mkdir()
        for name, text in VERSIONS.items():
            (self.versions / name).write_bytes(text)
        directory.chmod(0o755)
        self.poll_only = poll_only
        self.watch: WatchProcess | None = None

    def play(self) -> list[float]:
        """Play it; return how long each wait has taken."""
        command = ["bash", "--norc"]
        if {"mounts", "overlay", "fuse"} & set(self.scenario.needs):
            command = ["unshare", "--mount", "--propagation", "private", *command]
        variables = {"V": str(self.versions), "TOOLS": str(HERE), "PYTHON": sys.executable, "LC_ALL": "C.UTF-8"}
        self.shell = subprocess.Popen(
            command,
            cwd=self.directory,
            env={**ENVIRONMENT, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        try:
            if not self.scenario.sets_the_scene:
                for line in ("cp $V/0 config.json", "watch config.json", "see 0"):
                    self.perform(line)
            for line in self.scenario.lines:
                self.perform(line)
        except BaseException as error:
            self.leave(error)
            raise
        self.leave(None)
        return self.watch.latencies

    def leave(self, error: BaseException | None) -> None:
        """Stop watching, which checks the oracle, then end all that the shell has started."""
        try:
            if self.watch is not None:
                self.watch.__exit__(type(error) if error else None, error, None)
        finally:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.communicate()

    def perform(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        action = {"needs": lambda _: None, "watch": self.start, "see": self.see, "may": lambda _: None}
        action.update(reports=self.reports, rest=lambda seconds: time.sleep(float(seconds)))
        try:
            action[word](rest) if word in action else self.run(line)
        except AssertionError as error:
            raise AssertionError(f"{self.scenario.name}: at `{line}`: {error}") from error

    def start(self, path: str) -> None:
        prefix = [word for need in self.scenario.needs for word in NEEDS[need]]
        if self.shell.args[0] == "unshare":
            # The directory as it is in there: nsenter would take it along from out here.
            enter = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.directory)]
            prefix = ["nsenter", f"--target={self.shell.pid}", "--mount", *enter, *prefix]
        self.watch = WatchProcess(pathlib.Path(path), self.poll_only, prefix=prefix, cwd=self.directory)
        for version in self.scenario.versions:
            self.watch.version(VERSIONS[version])
        self.run(f"WATCHER={self.watch.pid}")

    def see(self, what: str) -> None:
        word, _, rest = what.partition(" ")
        if word == "missing":
            self.watch.wait_event("missing")
        elif word == "unreadable":
            self.watch.wait_for(what, lambda e: e["event"] == "unreadable" and rest in e["error"])
        elif word == "refused":
            event = self.watch.wait_refused(VERSIONS[rest])
            assert event["error"], "a refusal without a reason"
        else:
            event = self.watch.wait_good(VERSIONS[rest or word])
            assert event["event"] == ("restored" if rest else "accepted"), event

    def reports(self, count: str) -> None:
        assert len(self.watch.events) == int(count), self.watch.events

    def run(self, line: str) -> None:
        """Have the shell run a line; it must succeed."""
        self.shell.stdin.write(f"{line}\necho done $?\n")
        self.shell.stdin.flush()
        deadline = time.monotonic() + 6 * DEADLINE_S
        output = ""
        while time.monotonic() < deadline:
            answer = self.shell.stdout.readline()
            if answer == "done 0\n":
                return
            assert answer and not answer.startswith("done "), f"{output}{answer}"
            output += answer
        raise AssertionError(f"{output} takes too long")
