"""The names of `internlm.monitor.alert`: heartbeats, and messages to Feishu."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from stepwatch.compat import beat_lines, light_monitor
from stepwatch.compat.background_sender import BackgroundSender
from stepwatch.compat.internevo import feishu
from stepwatch.compat.internevo.settings import alert_settings
from stepwatch.compat.job_identity import is_rank_for_log

logger = logging.getLogger("stepwatch")

_CALL_SECONDS = 30.0
_EXIT_SECONDS = 5.0
_MESSAGES_WAITING_MAX = 100

_limit = feishu.RateLimit()


def initialize_light_monitor(monitor_address: str | None = None) -> None:
    """Set the stepwatchd that receives heartbeats. Never raises.

    Parameters
    ----------
    monitor_address : str, optional
        http://HOST:PORT, or the absolute path of a Unix socket; None: from the environment, `MONITOR_SERVER`.
    """
    token_file = alert_settings().light_monitor_token_file
    light_monitor.init_monitor(monitor_address, is_root_rank=is_rank_for_log(), token_file=token_file)


def send_heartbeat(msg_type: str, msg: Mapping[str, Any]) -> None:
    """Report numbers to stepwatchd, without waiting for the network. Never raises.

    Parameters
    ----------
    msg_type : str
        "train_metrics", "init_time", "stage_time", or any other name.
    msg : mapping
        Numbers by name; a dictionary in it is flattened. NaN and infinities are numbers.

    Examples
    --------
    >>> send_heartbeat("train_metrics", {"step": 50, "loss": 2.3, "grad_norm": {"0_default": 1.2}})
    """
    try:
        data = beat_lines.flatten(msg)
        if os.environ.get("CLUSTER_NAME"):
            data["cluster"] = os.environ["CLUSTER_NAME"]
        data["msg_type"] = msg_type
        if not light_monitor.is_initialized() and (address := alert_settings().light_monitor_address):
            initialize_light_monitor(address)
    except Exception as error:
        logger.warning("send_heartbeat failed (%s: %s)", type(error).__name__, error)
        return
    light_monitor.send_meta(data)


def send_feishu_msg_with_webhook(webhook: str, title: str, message: str) -> dict[str, Any] | None:
    """Send a message to a Feishu bot, and wait for the answer, at most 30 s.

    Parameters
    ----------
    webhook : str
        The address of the bot.
    title, message : str

    Returns
    -------
    dict or None
        The answer of the bot, also one that refuses the message; None without a readable answer.
    """
    return _deliver(webhook, title, message, seconds=_CALL_SECONDS).answer


def queue_feishu_message(webhook: str, title: str, message: str) -> bool:
    """Send a message to a Feishu bot in the background; return False if too many wait already."""
    return alerts.put((webhook, title, message))


def _deliver(webhook: str, title: str, message: str, **options: Any) -> feishu.Reply:
    secret_file = alert_settings().feishu_secret_file
    reply = feishu.deliver(webhook, title, message, secret_file=secret_file, limit=_limit, **options)
    if not reply.is_sent:
        logger.warning("a Feishu message was not sent: %s", reply.why)
    return reply


alerts = BackgroundSender(
    "stepwatch-feishu",
    lambda item: _deliver(*item, pause=alerts.pause).is_sent,
    capacity=_MESSAGES_WAITING_MAX,
    exit_seconds=_EXIT_SECONDS,
)
