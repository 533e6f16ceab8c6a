"""Every way to save, replace, hide and hold up a config file, under a watcher with inotify or with looks alone.

The scenarios are text, in the folder scenarios; scenario.py reads them. Each has a process and a directory
of its own and spends its time waiting, so many play at the same time.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from scenario import HERE, Scenario, Stage, lacks, read_scenarios
from watch_process import BINARY

AT_ONCE = 24
SCENARIOS = [scenario for path in sorted((HERE / "scenarios").glob("*.txt")) for scenario in read_scenarios(path)]
# One worker of pytest-xdist plays all of a mode.
MODES = [pytest.param(mode, marks=pytest.mark.xdist_group(f"watch-{mode}")) for mode in ("inotify", "poll")]


@pytest.fixture(scope="module", params=MODES)
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, concurrent.futures.Future]]:
    """Play the scenarios that were chosen, in one mode."""
    chosen = {item.callspec.params["scenario"] for item in request.session.items if "scenario" in item.fixturenames}

    def play(scenario: Scenario, directory: pathlib.Path) -> str | list[float]:
        return lacks(scenario.needs) or Stage(scenario, directory, request.param == "poll").play()

    # Not in pytest's own directory: other users cannot enter that.
    with tempfile.TemporaryDirectory(prefix="stepwatch-watch-", ignore_cleanup_errors=True) as root:
        pathlib.Path(root).chmod(0o755)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            played = {}
            for i, scenario in enumerate(SCENARIOS):
                if scenario not in chosen:
                    continue
                directory = pathlib.Path(root, str(i))
                directory.mkdir()
                played[scenario.name] = pool.submit(play, scenario, directory)
            yield played


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_last_full_version_is_what_is_taken(
    scenario: Scenario, outcomes: dict[str, concurrent.futures.Future]
) -> None:
    outcome = outcomes[scenario.name].result()
    if isinstance(outcome, str):
        # Not a skip, which STEPWATCH_REQUIRE_ALL takes for a tool that somebody has to install.
        pytest.xfail(outcome)
    print(f"waited {sorted(round(seconds, 3) for seconds in outcome)} s")


def test_there_are_sixty_scenarios_and_no_two_have_the_same_name() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names)) >= 60
