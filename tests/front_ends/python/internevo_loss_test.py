"""Losses that InternEvo's monitor judges wrongly, and the texts that the replacement sends."""

from __future__ import annotations

import math

import pytest

from stepwatch.compat.internevo.loss_watch import LossWatch


def texts(losses: list[float]) -> list[tuple[int, str]]:
    watch = LossWatch(1.5)
    return [(step, text) for step, loss in enumerate(losses) for text in watch.judge(step, loss)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_alerts_once_an_episode(bad: float) -> None:
    found = texts([2.0, 2.0, bad, bad, bad, 2.0, 2.0, bad])
    assert [step for step, _ in found] == [2, 5, 7]
    assert str(bad) in found[0][1]
    assert "a number again" in found[1][1]


def test_the_step_after_a_nan_is_judged_as_any_other() -> None:
    found = texts([2.0, 2.0, math.nan, 9.0])
    assert ["again" in found[1][1], "rises" in found[2][1]] == [True, True]


def test_a_steady_blow_up_of_1_4_times_a_step_alerts_once() -> None:
    found = texts([2.0] * 10 + [2.0 * 1.4**n for n in range(1, 20)])
    assert [step for step, _ in found] == [11]


def test_a_slow_blow_up_of_1_1_times_a_step_alerts() -> None:
    found = texts([2.0] * 20 + [2.0 * 1.1**n for n in range(1, 40)])
    assert found and found[0][0] < 30


def test_a_spike_alerts_once_and_its_end_once() -> None:
    found = texts([2.0] * 5 + [4.0, 5.0, 4.0] + [2.1] * 5)
    assert [step for step, _ in found] == [5, 8]
    assert "from about 2 to 4" in found[0][1]
    assert "back at 2.1" in found[1][1]


def test_a_new_height_is_the_level_after_a_while() -> None:
    found = texts([2.0] * 5 + [4.0] * 300 + [8.0])
    assert [step for step, _ in found] == [5, 305]


def test_losses_that_fall_fast_are_judged_by_the_newest_ones() -> None:
    found = texts([12.0 - 0.6 * step for step in range(16)] + [6.0])
    assert [step for step, _ in found] == [16]


def test_a_loss_of_0_is_a_loss() -> None:
    assert texts([0.0, 0.0, 0.0, 0.01]) == []
    assert [step for step, _ in texts([0.0, 0.0, 0.5])] == [2]


def test_a_negative_loss_that_stays_alerts_never() -> None:
    assert texts([-2.0, -1.9, -2.1, -1.8, -2.0]) == []


def test_a_negative_loss_that_rises_alerts() -> None:
    assert [step for step, _ in texts([-2.0, -2.0, -2.0, 1.0])] == [3]


def test_a_loss_of_minus_1_is_a_level_like_any_other() -> None:
    assert [step for step, _ in texts([-1.0, -1.0, 0.5])] == [2]


def test_a_tiny_loss_that_doubles_is_noise() -> None:
    assert texts([0.01, 0.02, 0.01, 0.02]) == []
