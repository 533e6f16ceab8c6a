"""Records of logs from Python."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from stepwatch import logs  # noqa: E402


def test_lines_become_typed_records() -> None:
    records = list(
        logs.parse(
            [
                "[rank3]: 2024-01-15 10:30:15,000 - train - INFO - Step 7: loss=nan, lr=1e-4\n",
                b"[rank3]: Traceback (most recent call last):\n",
                '[rank3]:   File "train.py", line 7, in <module>\n',
                "[rank3]: ValueError: bad\n",
                "key=value \udcff\n",
            ]
        )
    )
    assert [record.rank for record in records] == [3, None, 3]  # an exception is complete when its writer goes on
    step = records[0]
    assert step.progress is not None and step.progress.step == 7
    assert math.isnan(step.progress.numbers["loss"]) and step.progress.numbers["lr"] == 1e-4
    assert (step.level, step.component, step.t) == ("info", "train", 1705314615.0)
    failed = records[2].exception
    assert failed is not None and (failed.type, failed.message) == ("ValueError", "bad")
    assert failed.stack.startswith("Traceback")
    assert records[1].attributes == [("key", "value")] and "\N{REPLACEMENT CHARACTER}" in records[1].message


def test_rank_and_zone_are_parameters() -> None:
    (record,) = logs.parse(["2024-01-15 18:30:15 text"], rank=5, utc_offset_seconds=28800)
    assert (record.rank, record.t) == (5, 1705314615.0)


def test_one_text_is_refused() -> None:
    with pytest.raises(TypeError, match="splitlines"):
        next(logs.parse("a text"))
