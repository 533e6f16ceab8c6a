"""Messages to a Feishu bot: their body, the signature, attempts and the rate limit.

The webhook contains the bot's token. No text that is logged or raised here contains it, or the secret.
"""

from __future__ import annotations

import base64
import collections
import hashlib
import hmac
import http.client
import json
import random
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwatch.compat.private_file import PrivateFileError, read_private_file

ATTEMPTS = 4
ATTEMPT_SECONDS = 10.0
_ANSWER_BYTES_MAX = 64 << 10
_MESSAGE_CHARACTERS_MAX = 8000
# Codes in an answer with HTTP status 200 that ask the sender to come back later.
_RATE_CODES = {9499, 11232}


@dataclass(frozen=True)
class Reply:
    """The outcome of an attempt.

    Attributes
    ----------
    is_sent : bool
        The bot has accepted the message.
    may_retry : bool
        Another attempt can succeed.
    answer : dict or None
        The answer, if it is a JSON object.
    why : str
        The reason of a failure, without secrets.
    """

    is_sent: bool
    may_retry: bool
    answer: dict[str, Any] | None
    why: str


class RateLimit:
    """The limits of a Feishu bot: 5 messages in a second, 100 in a minute."""

    _LIMITS = ((5, 1.0), (100, 60.0))

    def __init__(self) -> None:
        self._times: collections.deque[float] = collections.deque(maxlen=max(count for count, _ in self._LIMITS))

    def wait(self, now: float) -> float:
        """Return the seconds until the next message may be sent."""
        times = self._times
        due = [times[-count] + seconds - now for count, seconds in self._LIMITS if len(times) >= count]
        return max([0.0, *due])

    def note(self, now: float) -> None:
        """Count a message that is sent now."""
        self._times.append(now)


def sign(timestamp: int, secret: str) -> str:
    """Return Feishu's signature of a request: the time and the secret are the key, the signed text is empty."""
    digest = hmac.new(f"{timestamp}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def body_of(title: str, message: str, timestamp: int, secret: str | None = None) -> bytes:
    """Return the body of a request; it is signed if there is a secret."""
    text = str(message)
    if len(text) > _MESSAGE_CHARACTERS_MAX:
        text = text[:_MESSAGE_CHARACTERS_MAX] + " …"
    post = {"zh_cn": {"title": title, "content": [[{"tag": "text", "text": text}]]}}
    proof: dict[str, Any] = {"timestamp": timestamp}
    if secret is not None:
        proof = {"timestamp": str(timestamp), "sign": sign(timestamp, secret)}
    return json.dumps({**proof, "msg_type": "post", "content": {"post": post}}).encode()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: the token is for the given host only."""


_opener = urllib.request.build_opener(_NoRedirects)


def _attempt(webhook: str, body: bytes, seconds: float) -> Reply:
    headers = {"Content-Type": "application/json;charset=utf-8"}
    try:
        if urllib.parse.urlsplit(webhook).scheme not in ("http", "https"):
            return Reply(False, False, None, "the webhook is no address with http or https")
        request = urllib.request.Request(webhook, body, headers, method="POST")
        with _opener.open(request, timeout=seconds) as response:
            return _reply_to(response.status, response.read(_ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            return _reply_to(error.code, _text_of(error))
    except urllib.error.URLError as error:
        is_slow = isinstance(error.reason, (socket.timeout, TimeoutError))
        return Reply(False, True, None, "no answer in time" if is_slow else "no connection")
    except (socket.timeout, TimeoutError):
        return Reply(False, True, None, "no answer in time")
    except (OSError, http.client.HTTPException):
        return Reply(False, True, None, "the connection broke")
    except ValueError:  # its text contains the address
        return Reply(False, False, None, "the webhook is no usable address")


def _text_of(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        return b""


def _reply_to(status: int, text: bytes) -> Reply:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    answer = parsed if isinstance(parsed, dict) else None
    if status != 200:
        return Reply(False, status in (408, 429) or status >= 500, answer, f"HTTP status {status}")
    if answer is None:
        return Reply(False, True, None, "the answer is no JSON object")
    code = answer.get("code", answer.get("StatusCode", 0))
    if code == 0:
        return Reply(True, False, answer, "")
    # The text beside the code is the sender's input at times.
    shown = code if isinstance(code, int) else "that is no number"
    return Reply(False, code in _RATE_CODES, answer, f"Feishu's code {shown}")


def deliver(
    webhook: str,
    title: str,
    message: str,
    *,
    secret_file: str | None,
    limit: RateLimit,
    pause: Callable[[float], None] = time.sleep,
    seconds: float = 120.0,
) -> Reply:
    """Send a message in a few attempts; return the reply to the last one.

    Parameters
    ----------
    webhook, title, message : str
    secret_file : str or None
        The file with the secret of the bot.
    limit : RateLimit
    pause : callable
        Waits between attempts.
    seconds : float
        No attempt begins after that time.
    """
    end = time.monotonic() + seconds
    reply = Reply(False, False, None, "no time was left")
    for attempt in range(ATTEMPTS):
        pause(limit.wait(time.monotonic()))
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            secret = read_private_file(secret_file) if secret_file else None
        except PrivateFileError as error:
            return Reply(False, False, None, str(error))
        limit.note(time.monotonic())
        reply = _attempt(webhook, body_of(title, message, int(time.time()), secret), min(ATTEMPT_SECONDS, left))
        if reply.is_sent or not reply.may_retry or attempt == ATTEMPTS - 1:
            break
        # Many ranks send at one time; they come back at different ones.
        pause(min(random.uniform(0.5, 1.0) * 2**attempt, max(0.0, end - time.monotonic())))
    return reply
