"""Every way to save a file, watched by the real binary with inotify and by the one-second look alone.

Each story has its own process and directory and spends its time waiting, so all of them run at the same time; the tests
collect what came out. STEPWATCH_SEED repeats the random story, STEPWATCH_NOISE_FILES and STEPWATCH_RANDOM_SAVES make it
longer.
"""

import concurrent.futures
import mmap
import os
import pathlib
import random
import shutil
import subprocess
import time

import pytest
from watch_process import BINARY, WatchProcess

SEED = int(os.environ.get("STEPWATCH_SEED", "1"))
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
    """What a story gets: an empty directory and a way to start watching in it."""

    def __init__(self, directory: pathlib.Path, poll_only: bool):
        self.directory = directory
        self.path = directory / "config.json"
        self._poll_only = poll_only
        self.latencies: list[float] = []

    def watch(self, path: pathlib.Path | None = None) -> WatchProcess:
        process = WatchProcess(path or self.path, self._poll_only)
        self.latencies = process.latencies
        return process

    def watch_good(self) -> WatchProcess:
        """Watches an ordinary file whose first version was accepted."""
        write(self.path, config(0))
        process = self.watch()
        process.version(config(0))
        process.wait_good(config(0))
        return process


def rename_save(story: Story):
    with story.watch_good() as watch:
        for number in (1, 2, 3):
            rename_over(story.path, watch.version(config(number)))
            watch.wait_good(config(number))


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


def hostile_text_is_refused(story: Story):
    with story.watch_good() as watch:
        texts = (b"\xff\xfe{", b"[" * 100_000, b'{"dynamic_on": "\x80"}', b'{"start_step": 1e999}', b"\0" * 1000)
        for text in texts:
            write(story.path, watch.version(text))
            watch.wait_refused(text)
        write(story.path, watch.version(config(1)))
        watch.wait_good(config(1))


def config_map_swap(story: Story):
    for version in (1, 2, 3, 4):
        (story.directory / f"..v{version}").mkdir()
        write(story.directory / f"..v{version}" / "config.json", config(min(version, 3)))
    os.symlink("..v1", story.directory / "..data")
    os.symlink("..data/config.json", story.path)
    with story.watch() as watch:
        for version in (1, 2, 3):
            watch.version(config(version))
        watch.wait_good(config(1))
        for version in (2, 3, 1, 3):
            swap_link(story.directory / "..data", f"..v{version}")
            watch.wait_good(config(version))
        count = len(watch.events)
        swap_link(story.directory / "..data", "..v4")  # equal content: no event
        shutil.rmtree(story.directory / "..v3")
        write(story.directory / "..v4" / "config.json", watch.version(config(4)))
        watch.wait_good(config(4))
        assert len(watch.events) == count + 1


def delete_and_recreate(story: Story):
    with story.watch_good() as watch:
        story.path.unlink()
        watch.wait_event("missing")
        write(story.path, config(0))
        assert watch.wait_good(config(0))["event"] == "restored"
        story.path.unlink()
        write(story.path, watch.version(config(1)))
        watch.wait_good(config(1))


def missing_at_first(story: Story):
    with story.watch(story.directory / "not" / "yet" / "config.json") as watch:
        watch.wait_event("missing")
        (story.directory / "not" / "yet").mkdir(parents=True)
        write(story.directory / "not" / "yet" / "config.json", watch.version(config(1)))
        watch.wait_good(config(1))


def same_size_and_time(story: Story):
    with story.watch_good() as watch:
        for number, save in ((1, rename_over), (2, write), (3, rename_over), (4, write)):
            times = story.path.stat()
            new = watch.version(config(number))
            assert len(new) == times.st_size
            if save is rename_over:
                write(story.directory / "new", new)
                os.utime(story.directory / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
                os.rename(story.directory / "new", story.path)
            else:
                write(story.path, new)
                os.utime(story.path, ns=(times.st_atime_ns, times.st_mtime_ns))
            watch.wait_good(new)


def two_saves_within_a_millisecond(story: Story):
    with story.watch_good() as watch:
        for save in (write, rename_over):
            for number in range(1, 20, 2):
                first, second = watch.version(config(number)), watch.version(config(number + 1))
                save(story.path, first)
                save(story.path, second)
                time.sleep(0.03)
            watch.wait_good(config(20))


def directory_replaced(story: Story):
    inner = story.directory / "d"
    inner.mkdir()
    write(inner / "config.json", config(0))
    with story.watch(inner / "config.json") as watch:
        watch.version(config(0))
        watch.wait_good(config(0))
        for number in (1, 2):
            os.rename(inner, story.directory / f"old{number}")
            inner.mkdir()
            write(inner / "config.json", watch.version(config(number)))
            watch.wait_good(config(number))
            write(story.directory / f"old{number}" / "config.json", config(99))  # the old one is nobody's config now
        write(inner / "config.json", watch.version(config(3)))
        watch.wait_good(config(3))


def links_changed_at_each_hop(story: Story):
    for name in ("a", "b", "c"):
        (story.directory / name).mkdir()
    files = []
    for number in (1, 2, 3, 4):
        files.append(story.directory / "c" / f"real{number}.json")
        write(files[-1], config(number))
    os.symlink("../b/link", story.directory / "a" / "config.json")
    os.symlink(story.directory / "c" / "link", story.directory / "b" / "link")
    os.symlink("real1.json", story.directory / "c" / "link")
    with story.watch(story.directory / "a" / "config.json") as watch:
        for number in (1, 2, 3, 4):
            watch.version(config(number))
        watch.wait_good(config(1))
        swap_link(story.directory / "c" / "link", "real2.json")
        watch.wait_good(config(2))
        swap_link(story.directory / "b" / "link", "../c/real3.json")
        watch.wait_good(config(3))
        swap_link(story.directory / "a" / "config.json", str(files[3]))
        watch.wait_good(config(4))
        write(files[3], watch.version(config(5)))
        watch.wait_good(config(5))


def hard_link_edited_elsewhere(story: Story):
    elsewhere = story.directory / "elsewhere"
    elsewhere.mkdir()
    with story.watch_good() as watch:
        os.link(story.path, elsewhere / "same")
        for number in (1, 2):
            write(elsewhere / "same", watch.version(config(number)))
            watch.wait_good(config(number))


def writer_keeps_the_file_open(story: Story):
    with story.watch_good() as watch, open(story.path, "r+b", buffering=0) as file:
        for number in (1, 2):
            file.seek(0)
            file.write(watch.version(config(number)))
            watch.wait_good(config(number))
        with mmap.mmap(file.fileno(), 0) as memory:
            memory[:] = watch.version(config(3))
            watch.wait_good(config(3))


def no_permission_for_a_while(story: Story):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    with story.watch_good() as watch:
        story.path.chmod(0)
        watch.wait_event("unreadable")
        story.path.chmod(0o644)
        assert watch.wait_good(config(0))["event"] == "restored"


def something_else_in_its_place(story: Story):
    with story.watch_good() as watch:
        story.path.unlink()
        os.mkfifo(story.path)
        assert "FIFO" in watch.wait_event("unreadable")["error"]
        story.path.unlink()
        write(story.path, config(0))
        assert watch.wait_good(config(0))["event"] == "restored"
        story.path.unlink()
        story.path.mkdir()
        assert "directory" in watch.wait_event("unreadable")["error"]
        story.path.rmdir()
        os.symlink("config.json", story.path)
        assert "symbolic links" in watch.wait_for("a loop", lambda e: "symbolic" in e.get("error", ""))["error"]
        story.path.unlink()
        write(story.path, watch.version(config(1)))
        watch.wait_good(config(1))


def too_big_a_file(story: Story):
    with story.watch_good() as watch:
        write(story.path, b" " * (2 << 20))
        assert "2097152 bytes" in watch.wait_event("unreadable")["error"]
        with open(story.path, "ab") as file:
            file.truncate(1 << 34)  # a sparse one of 16 GiB costs no memory
        write(story.path, watch.version(config(1)))
        watch.wait_good(config(1))


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
    rename_save,
    write_in_pieces_with_pauses,
    broken_text_is_refused_with_its_place,
    hostile_text_is_refused,
    config_map_swap,
    delete_and_recreate,
    missing_at_first,
    same_size_and_time,
    two_saves_within_a_millisecond,
    directory_replaced,
    links_changed_at_each_hop,
    hard_link_edited_elsewhere,
    writer_keeps_the_file_open,
    no_permission_for_a_while,
    something_else_in_its_place,
    too_big_a_file,
    noise_beside_it,
]
MODES = ["inotify", "poll"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    if not BINARY.exists():
        pytest.skip(f"{BINARY} is not built")

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
    print(f"repeat with STEPWATCH_SEED={SEED}")
    latencies = outcomes[tell, mode].result()
    print(f"slowest of {len(latencies)} waits: {max(latencies):.3f} s, {sorted(round(x, 3) for x in latencies)}")


def test_it_ends_after_its_time(tmp_path):
    if not BINARY.exists():
        pytest.skip(f"{BINARY} is not built")
    write(tmp_path / "config.json", config(1))
    command = [str(BINARY), "watch", str(tmp_path / "config.json"), "--for", "0.5"]
    done = subprocess.run(command, capture_output=True, timeout=30, text=True)
    assert done.returncode == 0
    assert "accepted" in done.stdout
