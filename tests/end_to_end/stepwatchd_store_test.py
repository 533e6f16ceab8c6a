"""stepwatchd goes on whatever happens to its store, and reports each incident that it loses.

The random story is ``./run soak``'s test of the store: bytes are changed, files cut, removed and made read-only, the
disk is full, the daemon is killed, all of it in random order.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatchd_process import NO_JOBS, Stepwatchd, beat, event, start

PAGE = 4096
ENDINGS = ("", "-wal", "-shm")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Stepwatchd]:
    with Stepwatchd(tmp_path, NO_JOBS) as running:
        yield running


@pytest.fixture
def dice() -> random.Random:
    return random.Random(int(os.environ["STEPWATCH_SEED"]))


def database(daemon: Stepwatchd) -> Path:
    return daemon.directory / "state/stepwatchd.db"


def ready(daemon: Stepwatchd) -> bool:
    return daemon.ask("GET", "/-/ready")[0] == 200


def set_aside(daemon: Stepwatchd) -> list[Path]:
    found = [path for path in (daemon.directory / "state").glob("*.damaged-*") if not path.name.endswith(ENDINGS[1:])]
    return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))


def known(daemon: Stepwatchd) -> set[str]:
    return {each["id"] for each in daemon.incidents()}


def stored(daemon: Stepwatchd) -> set[str]:
    with daemon.store() as store:
        return {row[0] for row in store.execute("SELECT id FROM incidents")}


def kill_when_stored(daemon: Stepwatchd, *ids: str) -> None:
    """Kill it once it has stored incidents: while a slow disk is taken for a hanging one, they wait in memory."""
    daemon.until(lambda: ready(daemon) and stored(daemon) >= set(ids))
    daemon.kill()


def start_with_store(daemon: Stepwatchd) -> None:
    """Start it, and wait for its store, which may open later than it answers."""
    daemon.start()
    daemon.until(lambda: ready(daemon))


def keeps(daemon: Stepwatchd, *ids: str) -> None:
    """Check that it stores incidents, and still has them after a kill."""
    kill_when_stored(daemon, *ids)
    start_with_store(daemon)
    assert known(daemon) >= set(ids)


def works(daemon: Stepwatchd, run: str) -> None:
    """Check that it stores what it notices."""
    daemon.until(lambda: ready(daemon))
    keeps(daemon, daemon.make_incident(run)["id"])


def nothing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def odd_size(path: Path) -> None:
    os.truncate(path, 3 * PAGE + 17)


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def garbled_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database at all")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def by_sql(name: str, statement: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as store:
            store.execute(statement)
            store.commit()

    damage.__name__ = name
    return damage


later_version = by_sql("later_version", "PRAGMA user_version = 99")
missing_table = by_sql("missing_table", "DROP TABLE changes")
other_columns = by_sql("other_columns", "ALTER TABLE incidents RENAME COLUMN json TO text")
strange_table = by_sql("strange_table", "CREATE TABLE t (x)")


def other_program(path: Path) -> None:
    path.unlink()
    strange_table(path)


def directory(path: Path) -> None:
    path.unlink()
    (path / "with").mkdir(parents=True)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere/at/all")


def link_to_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/full")


DAMAGES = (
    nothing,
    empty,
    half,
    odd_size,
    garbage,
    garbled_header,
    zeros,
    later_version,
    missing_table,
    other_columns,
    other_program,
    directory,
    fifo,
    link_to_nowhere,
    link_to_a_device,
)


def test_damaged_files_are_set_aside_one_after_the_other_and_it_starts_and_stores(daemon: Stepwatchd) -> None:
    daemon.make_incident()
    for count, damage in enumerate(DAMAGES):
        daemon.kill(signal.SIGTERM)
        before = len(set_aside(daemon))
        damage(database(daemon))
        is_there = os.path.lexists(database(daemon))
        daemon.start()
        works(daemon, f"{damage.__name__}-{count}")
        assert len(set_aside(daemon)) == before + is_there, damage.__name__
        assert set_aside(daemon)[-1:] == [] or not is_there or set_aside(daemon)[-1].name.endswith(str(before + 1))
    assert "version 99" in daemon.log.read_text()
    assert "is missing, although a stepwatchd had its store there" in daemon.log.read_text()


def test_each_page_may_be_damaged_and_readable_incidents_stay(daemon: Stepwatchd) -> None:
    ids = {daemon.make_incident(f"run {i}")["id"] for i in range(8)}
    daemon.kill(signal.SIGTERM)
    whole = database(daemon).read_bytes()
    assert len(whole) % PAGE == 0
    kept = 0
    pages = range(0, len(whole), PAGE)
    for count, page in enumerate(pages):
        shutil.rmtree(daemon.directory / "state")
        (daemon.directory / "state").mkdir()
        damaged = bytearray(whole)
        damaged[page : page + PAGE] = bytes(PAGE) if count % 2 else random.Random(page).randbytes(PAGE)
        database(daemon).write_bytes(damaged)
        start_with_store(daemon)
        kept += known(daemon) == ids
        if known(daemon) != ids:
            assert set_aside(daemon)[0].read_bytes() == damaged
        daemon.kill()
    # Only the first page, the tables of tables, and those with incidents cost incidents.
    assert kept > len(pages) // 2
    daemon.start()


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_files_beside_the_database_may_be_missing_damaged_or_strange(daemon: Stepwatchd, ending: str) -> None:
    strange: tuple[Callable[[Path], None], ...] = (nothing, empty, garbage, directory, fifo, link_to_nowhere)
    for damage in strange:
        incident = daemon.make_incident(damage.__name__)
        kill_when_stored(daemon, incident["id"])
        damage(Path(f"{database(daemon)}{ending}"))
        start_with_store(daemon)
        assert incident["id"] in known(daemon) or daemon.metric("stepwatchd_store_changes_lost_total") > 0, (
            damage.__name__
        )
        works(daemon, f"after {damage.__name__}")


@pytest.mark.parametrize("ending", ENDINGS)
def test_damage_to_open_files_is_noticed_and_costs_no_incident(daemon: Stepwatchd, ending: str) -> None:
    happens: tuple[Callable[[Path], None], ...] = (nothing, empty, half, garbage, zeros, directory, fifo)
    for damage in happens:
        before = daemon.make_incident(f"before {damage.__name__}")
        damage(Path(f"{database(daemon)}{ending}"))
        after = daemon.make_incident(f"after {damage.__name__}")
        keeps(daemon, before["id"], after["id"])


def test_a_state_directory_that_is_removed_is_made_again(daemon: Stepwatchd) -> None:
    before = daemon.make_incident("before")
    shutil.rmtree(daemon.directory / "state")
    after = daemon.make_incident("after")
    daemon.until(lambda: database(daemon).exists())
    keeps(daemon, before["id"], after["id"])


def test_a_disk_that_is_full_at_the_start_does_not_stop_the_watching(daemon: Stepwatchd) -> None:
    before = daemon.make_incident("before")
    kill_when_stored(daemon, before["id"])
    with daemon.log.open("ab") as log:
        daemon.process = subprocess.Popen(
            daemon.command(),
            stderr=log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY)),
        )
    daemon.until(daemon.answers)
    assert not ready(daemon)
    after = daemon.make_incident("after")
    assert not ready(daemon)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    daemon.until(lambda: ready(daemon))
    assert known(daemon) == {before["id"], after["id"]}
    keeps(daemon, before["id"], after["id"])


def test_a_state_directory_that_cannot_be_made_does_not_stop_the_watching(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with Stepwatchd(tmp_path) as daemon:
        assert not ready(daemon)
        incident = daemon.make_incident()
        (tmp_path / "state").unlink()
        keeps(daemon, incident["id"])


def test_a_log_without_a_reader_delays_no_answer(daemon: Stepwatchd) -> None:
    daemon.kill(signal.SIGTERM)
    reading, writing = os.pipe()
    daemon.process = subprocess.Popen(daemon.command(), stderr=writing)
    os.close(writing)
    daemon.until(daemon.answers)
    for number in range(3000):
        daemon.send(start(f"r{number % 40}"), *[beat(step, run=f"r{number % 40}") for step in range(2)])
        if number % 200 == 0 and daemon.metric("stepwatchd_log_lines_dropped_total") > 0:
            break
        daemon.send(event(f"r{number % 40}", "end", reason="ok"))
    os.close(reading)
    assert daemon.answers()


def test_a_run_whose_only_process_is_gone_has_ended_also_after_a_restart(daemon: Stepwatchd) -> None:
    daemon.send(start(), *[beat(step) for step in range(10)])
    daemon.send(event("r1", "process_gone", rank=0))
    for _ in range(2):
        run = daemon.until(lambda: daemon.get("/v1/runs/r1"))
        assert (run["state"], run["end_reason"]) == ("ended", "lost")
        daemon.kill(signal.SIGTERM)
        daemon.start()
    daemon.send(event("r1", "restart", world=1), beat(3))
    assert daemon.get("/v1/runs/r1")["state"] == "train"


def story(daemon: Stepwatchd, dice: random.Random, turns: int) -> None:
    """Damage the store, kill the daemon and open incidents in random order; then look for every incident."""
    reported: dict[str, str] = {}

    def where() -> Path:
        return Path(f"{database(daemon)}{dice.choice(ENDINGS)}")

    def some_bytes() -> None:
        path = where()
        with contextlib.suppress(OSError), path.open("r+b") as file:
            file.seek(dice.randrange(max(1, path.stat().st_size)))
            file.write(dice.randbytes(dice.choice((1, 16, PAGE))))

    def cut() -> None:
        path = where()
        with contextlib.suppress(OSError):
            os.truncate(path, dice.randrange(1 + path.stat().st_size))

    def remove() -> None:
        where().unlink(missing_ok=True)

    def limit(size: int) -> None:
        assert daemon.process is not None
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def full() -> None:
        limit(dice.choice((0, PAGE, 20 * PAGE)))

    def room() -> None:
        limit(resource.RLIM_INFINITY)

    def read_only() -> None:
        with contextlib.suppress(OSError):
            database(daemon).chmod(0o400)

    def writable() -> None:
        with contextlib.suppress(OSError):
            database(daemon).chmod(0o600)

    def kill() -> None:
        if not ready(daemon):
            # A kill takes all that waits in memory for the store: that is promised.
            return
        daemon.kill()
        for _ in range(dice.randrange(2)):
            dice.choice((some_bytes, cut, remove))()
        daemon.start()

    happens = (some_bytes, cut, remove, full, room, read_only, writable, kill)
    for turn in range(turns):
        incident = daemon.make_incident(f"run {turn}")
        reported[incident["id"]] = f"turn {turn}"
        dice.choice(happens)()
    room()
    writable()
    daemon.until(lambda: ready(daemon))
    daemon.kill()
    start_with_store(daemon)
    missing = set(reported) - known(daemon)
    log = daemon.log.read_text()
    is_reported = "lost" in log and set_aside(daemon) != [] or "had its store there" in log
    assert not missing or is_reported, (sorted(os.listdir(database(daemon).parent)), log)


def test_incidents_outlive_random_damage_or_are_reported_as_lost(daemon: Stepwatchd, dice: random.Random) -> None:
    story(daemon, dice, 12)


@pytest.mark.long
def test_incidents_outlive_much_random_damage_or_are_reported_as_lost(daemon: Stepwatchd, dice: random.Random) -> None:
    story(daemon, dice, 150)
