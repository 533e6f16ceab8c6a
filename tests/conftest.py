"""Rules for all tests in Python: no test is skipped unnoticed, random ones have a seed, processes share the cores."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import hypothesis.core
import pytest

import python_programs
from repeat_command import given_variables, repeat_command

REQUIRE_ALL = os.environ.get("STEPWATCH_REQUIRE_ALL", "") not in ("", "0")
FIXED_SEED = 1
GIVEN_VARIABLES = given_variables()  # before the run sets its own


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        default=os.environ.get("STEPWATCH_SEED", str(FIXED_SEED)),
        help="seed of the random tests: a number, or 'random' for one that the summary prints",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Resolved before pytest-xdist passes the options to its workers, so that all have the same seed.
    if config.option.seed == "random":
        config.option.seed = str(random.SystemRandom().randrange(1 << 32))
    seed = int(config.option.seed)
    os.environ["STEPWATCH_SEED"] = str(seed)  # for tests that draw numbers, and the processes that they start
    hypothesis.settings.register_profile("fixed", derandomize=True, database=None)
    hypothesis.settings.register_profile("seeded", database=None, print_blob=True)
    hypothesis.settings.load_profile("fixed" if seed == FIXED_SEED else "seeded")
    if seed != FIXED_SEED:
        hypothesis.core.global_force_seed = seed
    gc.disable()  # until all imports are done
    _share_cores()
    _open_sockets_apart(config)
    if _leaves_long_tests_out(config) and not hasattr(config, "workerinput"):
        stack = contextlib.ExitStack()
        config.add_cleanup(stack.close)
        stack.enter_context(python_programs.serve(_short_directory(config)))


def _leaves_long_tests_out(config: pytest.Config) -> bool:
    return "not long" in config.option.markexpr


def _short_directory(config: pytest.Config) -> Path:
    """Make a directory for sockets, whose paths are limited to 107 bytes."""
    directory = tempfile.mkdtemp(prefix="sw")
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
    return Path(directory)


def _open_sockets_apart(config: pytest.Config) -> None:
    """Put the control sockets of this process into a separate directory."""
    os.environ["STEPWATCH_RUNTIME_DIR"] = str(_short_directory(config))


def _share_cores() -> None:
    """Divide the cores among the workers of pytest-xdist, in torch and in the processes that tests start."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Freeze imported objects, so that garbage collections of tests do not traverse them."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seed = int(config.option.seed)
    terminalreporter.write_line(f"random tests: repeat with --seed {seed}")
    options = ["-m", config.option.markexpr] if _leaves_long_tests_out(config) else []
    options += [] if seed == FIXED_SEED else ["--seed", str(seed)]
    stats = terminalreporter.stats
    failed = [report.nodeid for outcome in ("failed", "error") for report in stats.get(outcome, [])]
    for nodeid in dict.fromkeys(failed):
        command = repeat_command(nodeid, GIVEN_VARIABLES, options, Path(sys.executable), Path.cwd())
        terminalreporter.write_line(f"repeat with: {command}")


# A test that is skipped for lack of a tool, a package or a program looks like a passed one. STEPWATCH_REQUIRE_ALL=1
# promises that all of them exist, so a skip is then a failure.


def _refuse_skip(report: pytest.CollectReport | pytest.TestReport) -> None:
    if REQUIRE_ALL and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: {reason}; STEPWATCH_REQUIRE_ALL allows no test to be skipped"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report
