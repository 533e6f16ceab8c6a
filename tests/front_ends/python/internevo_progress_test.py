"""Trainings that InternEvo's tracker reports as stuck wrongly, or never."""

from __future__ import annotations

from stepwatch.compat.internevo.progress_watch import ProgressWatch

Tick = tuple[float, "str | None", "str | None"]


def texts(*ticks: Tick) -> list[tuple[float, str]]:
    watch = ProgressWatch(300, now=0)
    said = [(now, watch.judge(now, phase, stamp)) for now, phase, stamp in ticks]
    return [(now, text) for now, text in said if text is not None]


def test_a_hang_alerts_once_and_its_end_once() -> None:
    found = texts((300, None, "1"), (600, None, "1"), (900, None, "1"), (1200, None, "2"), (1500, None, "3"))
    assert [now for now, _ in found] == [600, 1200]
    assert "no step for 300 s (phase: train)" in found[0][1]
    assert "goes on, after 900 s" in found[1][1]


def test_a_hang_right_after_the_first_step_alerts() -> None:
    assert [now for now, _ in texts((1, None, "1"), (301, None, "1"))] == [301]


def test_a_hang_before_the_first_step_alerts() -> None:
    found = texts(*[(now, None, None) for now in range(300, 3000, 300)])
    assert [now for now, _ in found] == [2100]
    assert "phase: init" in found[0][1]


def test_a_long_evaluation_or_checkpoint_is_no_hang() -> None:
    for phase in ("eval", "checkpoint"):
        assert texts((0, None, "1"), *[(now, phase, "1") for now in range(300, 3600, 300)], (3600, None, "2")) == []


def test_an_evaluation_that_hangs_alerts_in_the_end() -> None:
    found = texts((0, None, "1"), *[(now, "eval", "1") for now in range(300, 9000, 300)])
    assert [now for now, _ in found] == [3900]
    assert "phase: eval" in found[0][1]


def test_the_time_after_an_evaluation_begins_anew() -> None:
    assert texts((0, None, "1"), (900, "eval", "1"), (1200, None, "1"), (1400, None, "1")) == []


def test_a_pause_is_no_hang() -> None:
    assert texts((0, None, "1"), *[(now, "paused", "1") for now in range(300, 90000, 300)]) == []
