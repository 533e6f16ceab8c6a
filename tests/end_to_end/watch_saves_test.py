"""Saves that a program has to think up, watched by the real binary with inotify and by the one-second look alone.

The ways of people and machines to save a file are in tests/watch/scenarios.

Each story has its own process and directory and spends its time waiting, so all of them run at the same time; the tests
collect what came out. --seed repeats the random story, STEPWATCH_NOISE_FILES and STEPWATCH_RANDOM_SAVES make it
longer.
"""

import concurrent.futures
import os
import pathlib
import random
import subprocess
import time

import pytest

from build_tree import skip_without
from watch_process import BINARY, WatchProcess

skip_without(BINARY)

SEED = int(os.environ["STEPWATCH_SEED"])
NOISE_FILES = int(os.environ.get("STEPWATCH_NOISE_FILES", "2000"))
RANDOM_SAVES = int(os.environ.get("STEPWATCH_RANDOM_SAVES", "300"))


def config(number: int, padding: int = 0) -> bytes:
    """A valid config of which no proper beginning is valid: it ends with its closing brace."""
    text = f'{{\n  // version {number}{"." * padding}\n  "dynamic_on": true,\n  "start_step": {number}\n}}'
    return text.encode()


def write(path: pathlib.Path, text: bytes):
    path.write_bytes(text)


def write_in_pieces(path: pathlib.Path, text: bytes, pauses: list[float]):
    size = max(1, len(text) // (len(pauses) + 1))
    with open(path, "wb", buffering=0) as file:
        for i, pause in enumerate(pauses):
            file.write(text[i * size : (i + 1) * size])
            time.sleep(pause)
        file.write(text[len(pauses) * size :])


def rename_over(path: pathlib.Path, text: bytes):
    new = path.with_name(path.name + ".new")
    write(new, text)
    os.rename(new, path)


def swap_link(link: pathlib.Path, target: str):
    new = link.with_name(link.name + "_tmp")
    os.symlink(target, new)
    os.rename(new, link)


class Story:
    """An empty directory for a story, and a way to start watching in it."""

    def __init__(self, directory: pathlib.Path, poll_only: bool):
        self.directory = directory
        self.path = directory / "config.json"
        self._poll_only = poll_only
        self.latencies: list[float] = []

    def watch(self) -> WatchProcess:
        process = WatchProcess(self.path, self._poll_only)
        self.latencies = process.latencies
        return process

    def watch_good(self) -> WatchProcess:
        """Watches an ordinary file whose first version was accepted."""
        write(self.path, config(0))
        process = self.watch()
        process.version(config(0))
        process.wait_good(config(0))
        return process


def write_in_pieces_with_pauses(story: Story):
    with story.watch_good() as watch:
        for number, pauses in enumerate(([0.02] * 6, [0.15] * 3, [0.3], [0.0] * 20), start=1):
            write_in_pieces(story.path, watch.version(config(number)), pauses)
            watch.wait_good(config(number))


def broken_text_is_refused_with_its_place(story: Story):
    with story.watch_good() as watch:
        for text, line in ((b'{\n "dynamic_on": tru\n}', 2), (b"", 1), (b'{"eps": 1,\n\n "ops": [,]}', 3)):
            write(story.path, watch.version(text))
            event = watch.wait_refused(text)
            assert event["line"] == line
            assert event["column"] >= 1
            assert event["error"]
        write(story.path, config(0))
        assert watch.wait_good(config(0))["event"] == "restored"


def two_saves_within_a_millisecond(story: Story):
    with story.watch_good() as watch:
        for save in (write, rename_over):
            for number in range(1, 20, 2):
                first, second = watch.version(config(number)), watch.version(config(number + 1))
                save(story.path, first)
                save(story.path, second)
                time.sleep(0.03)
            watch.wait_good(config(20))


def noise_beside_it(story: Story):
    with story.watch_good() as watch:
        for i in range(NOISE_FILES):
            write(story.directory / f"noise{i}", b"x")
            if i == NOISE_FILES // 2:
                write(story.path, watch.version(config(1)))
        write(story.path, watch.version(config(2)))
        for i in range(NOISE_FILES):
            (story.directory / f"noise{i}").unlink()
        watch.wait_good(config(2))


def hundreds_of_random_saves(story: Story):
    dice = random.Random(SEED)
    text = config(0)

    def two_in_a_row(path: pathlib.Path, last: bytes):
        rename_over(path, watch.version(config(dice.randrange(1000), 7)))
        write(path, last)

    def gone_and_back(path: pathlib.Path, last: bytes):
        path.unlink(missing_ok=True)
        time.sleep(dice.random() * 0.02)
        write(path, last)

    def by_link(path: pathlib.Path, last: bytes):
        real = path.with_name(f"real{dice.randrange(5)}.json")
        rename_over(real, last)
        swap_link(path, real.name)

    def in_pieces(path: pathlib.Path, last: bytes):
        write_in_pieces(path, last, [dice.random() * 0.06 for _ in range(dice.randrange(1, 4))])

    saves = [write, rename_over, in_pieces, two_in_a_row, gone_and_back, by_link]
    with story.watch_good() as watch:
        for number in range(1, RANDOM_SAVES + 1):
            text = watch.version(config(number, dice.randrange(300)))
            dice.choice(saves)(story.path, text)
            time.sleep(dice.random() * 0.03)
            if number % 60 == 0:
                watch.wait_good(text)
        watch.wait_good(text)


STORIES = [
    hundreds_of_random_saves,
    write_in_pieces_with_pauses,
    broken_text_is_refused_with_its_place,
    two_saves_within_a_millisecond,
    noise_beside_it,
]
MODES = ["inotify", "poll"]
pytestmark = pytest.mark.xdist_group("watch-saves")  # one worker plays all of them


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    def play(tell, story):
        tell(story)
        return story.latencies

    cast = [(tell, mode) for tell in STORIES for mode in MODES]
    stories = {key: Story(tmp_path_factory.mktemp(f"{key[0].__name__}-{key[1]}"), key[1] == "poll") for key in cast}
    with concurrent.futures.ThreadPoolExecutor(len(cast)) as pool:
        yield {key: pool.submit(play, key[0], stories[key]) for key in cast}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_the_last_version_always_wins(tell, mode, outcomes):
    print(f"repeat with --seed {SEED}")
    latencies = outcomes[tell, mode].result()
    print(f"slowest of {len(latencies)} waits: {max(latencies):.3f} s, {sorted(round(x, 3) for x in latencies)}")


def test_it_ends_after_its_time(tmp_path):
    write(tmp_path / "config.json", config(1))
    command = [str(BINARY), "watch", str(tmp_path / "config.json"), "--for", "0.5"]
    done = subprocess.run(command, capture_output=True, timeout=30, text=True)
    assert done.returncode == 0
    assert "accepted" in done.stdout
