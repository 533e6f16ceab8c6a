"""Messages to a Feishu bot, whatever it answers."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from internevo_world import HANG, OK, Bot, Context

from stepwatch.compat.background_sender import BackgroundSender
from stepwatch.compat.internevo import alert, configure, feishu, send_alert_message, send_feishu_msg_with_webhook

SECRET = "demo-secret"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses between attempts instead of waiting."""
    pauses: list[float] = []
    monkeypatch.setattr(feishu.deliver, "__kwdefaults__", {**feishu.deliver.__kwdefaults__, "pause": pauses.append})
    return pauses


def secret_file(tmp_path: Path, mode: int = 0o600) -> str:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(mode)
    return str(path)


def test_the_body_is_that_of_the_original(bot: Bot) -> None:
    assert send_feishu_msg_with_webhook(bot.webhook, "a title", "a text") == OK[1]
    path, headers, _ = bot.requests[0]
    (body,) = bot.bodies()
    assert path.endswith(bot.token)
    assert headers["Content-Type"] == "application/json;charset=utf-8"
    assert isinstance(body.pop("timestamp"), int)
    content = [[{"tag": "text", "text": "a text"}]]
    assert body == {"msg_type": "post", "content": {"post": {"zh_cn": {"title": "a title", "content": content}}}}


def test_the_signature_is_the_documented_one() -> None:
    assert feishu.sign(1599360473, SECRET) == "3/MaVZ8JLIy4TUG+7KSFJqvUkTKd+HWY8g+56DZWq8s="


def test_a_secret_from_a_file_signs_each_request(bot: Bot, tmp_path: Path) -> None:
    configure(feishu_secret_file=secret_file(tmp_path))
    assert send_feishu_msg_with_webhook(bot.webhook, "t", "m") == OK[1]
    (body,) = bot.bodies()
    assert body["sign"] == feishu.sign(int(body["timestamp"]), SECRET)


def test_a_secret_that_others_can_read_is_not_used(bot: Bot, tmp_path: Path) -> None:
    configure(feishu_secret_file=secret_file(tmp_path, 0o644))
    assert send_feishu_msg_with_webhook(bot.webhook, "t", "m") is None
    assert bot.requests == []


@pytest.mark.parametrize(
    ("script", "attempts", "answer"),
    [
        ([(429, {"code": 11232})], 2, OK[1]),
        ([(500, "oops")], 2, OK[1]),
        ([(200, {"code": 9499, "msg": "too many"})], 2, OK[1]),
        ([(200, "no JSON")], 2, OK[1]),
        ([(500, "oops")] * 9, 4, None),
        ([(429, {"code": 11232})] * 9, 4, {"code": 11232}),
        ([(200, {"code": 19021, "msg": "sign"})], 1, {"code": 19021, "msg": "sign"}),
        ([(200, {"code": 19024})], 1, {"code": 19024}),
        ([(404, "nothing here")], 1, None),
        ([(302, "")], 1, None),
    ],
)
def test_an_answer_decides_whether_another_attempt_follows(
    bot: Bot, script: list[Any], attempts: int, answer: Any
) -> None:
    bot.script = list(script)
    assert send_feishu_msg_with_webhook(bot.webhook, "t", "m") == answer
    assert len(bot.requests) == attempts


def test_status_200_with_a_code_is_a_failure(bot: Bot, context: Context) -> None:
    sent, failed = alert.alerts.sent, alert.alerts.failed
    bot.script = [(200, {"code": 19024, "msg": "keyword"})]
    send_alert_message(bot.webhook, message="one")
    send_alert_message(bot.webhook, message="two")
    assert bot.texts() == ["one", "two"]
    assert (alert.alerts.sent - sent, alert.alerts.failed - failed) == (1, 1)


def test_a_bot_that_never_answers_is_given_up(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feishu, "ATTEMPT_SECONDS", 0.1)
    bot.usual = HANG
    assert send_feishu_msg_with_webhook(bot.webhook, "t", "m") is None
    assert len(bot.requests) == feishu.ATTEMPTS


def test_a_bot_that_is_away_is_given_up(fresh: None) -> None:
    assert send_feishu_msg_with_webhook("http://127.0.0.1:9/hook/x", "t", "m") is None


@pytest.mark.parametrize("webhook", ["", "file:///etc/passwd", "http://[", "no address", "http://host:port/TOKEN"])
def test_a_webhook_that_is_no_address_raises_nothing(fresh: None, webhook: str) -> None:
    assert send_feishu_msg_with_webhook(webhook, "t", "m") is None


def test_pauses_grow_and_differ(bot: Bot, without_pauses: list[float]) -> None:
    bot.usual = (500, "")
    send_feishu_msg_with_webhook(bot.webhook, "t", "m")
    backoffs = [seconds for seconds in without_pauses if seconds > 0]
    assert len(backoffs) == feishu.ATTEMPTS - 1
    for attempt, seconds in enumerate(backoffs):
        assert 0.5 * 2**attempt <= seconds <= 2**attempt


def test_at_most_5_messages_a_second_and_100_a_minute() -> None:
    limit = feishu.RateLimit()
    for number in range(5):
        assert limit.wait(10.0) == 0, number
        limit.note(10.0)
    assert limit.wait(10.25) == 0.75
    for number in range(95):
        limit.note(11.0 + number / 5)
    assert limit.wait(30.0) == pytest.approx(40.0)
    assert limit.wait(70.0) == 0


def test_a_training_step_does_not_wait_for_the_bot(bot: Bot, context: Context) -> None:
    bot.script = [HANG]
    send_alert_message(bot.webhook, message="first")
    while not bot.requests:  # the first request is open, and stays so
        time.sleep(0.001)
    send_alert_message(bot.webhook, message="second")
    assert len(bot.requests) == 1
    bot.released.set()
    assert bot.texts()[-1] == "second"


def test_the_queue_is_bounded_and_counts_what_it_drops(caplog: pytest.LogCaptureFixture) -> None:
    go: list[bool] = []
    sent: list[int] = []

    def send(item: int) -> bool:
        while not go:
            time.sleep(0.001)
        sent.append(item)
        return True

    sender = BackgroundSender("test", send, capacity=3, exit_seconds=1)
    for number in range(10):
        sender.put(number)
        while number == 0 and sender._waiting:  # it is being sent
            time.sleep(0.001)
    assert not sender.put(11)
    assert sender.dropped == 7
    assert sender.put(3)  # waits already
    assert sender.merged == 1
    assert not sender.flush(0.01)
    go.append(True)
    assert sender.flush(30)
    assert sent == [0, 1, 2, 3]
    assert sum("further ones are dropped" in record.message for record in caplog.records) == 1


def test_no_log_and_no_error_contains_a_secret(
    bot: Bot,
    context: Context,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(feishu, "ATTEMPT_SECONDS", 0.1)
    configure(feishu_secret_file=secret_file(tmp_path))
    echo = {"code": 19021, "msg": f"{bot.token} {SECRET}"}
    for answer in (OK, (200, echo), (200, {"code": bot.token}), (404, echo), (302, ""), (500, bot.token), HANG):
        bot.script = [answer] * 4
        send_feishu_msg_with_webhook(bot.webhook, "t", "m")
    bot.script = []
    for webhook in (f"http://127.0.0.1:9/{bot.token}", f"http://h:{bot.token}/x", f"nothing://{bot.token}", bot.token):
        send_feishu_msg_with_webhook(webhook, "t", "m")
        send_alert_message(webhook, message="m")
    alert.alerts.put(("unusable", bot.token))
    alert.alerts.flush(30)
    captured = capfd.readouterr()
    logged = "\n".join([*(record.getMessage() for record in caplog.records), captured.out, captured.err])
    assert "was not sent" in logged
    assert bot.token not in logged
    assert SECRET not in logged


def test_a_message_is_cut_where_a_bot_would_refuse_it(bot: Bot) -> None:
    send_feishu_msg_with_webhook(bot.webhook, "t", "x" * 100_000)
    assert len(bot.requests[0][2]) < 10_000
    assert json.loads(bot.requests[0][2])["content"]["post"]["zh_cn"]["content"][0][0]["text"].endswith("…")
