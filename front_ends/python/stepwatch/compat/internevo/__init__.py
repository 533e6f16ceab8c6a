"""Replaces `internlm.monitor` of InternEvo: the same names and config keys, without its faults.

docs/use/internevo.md describes the differences.
"""

from .alert import initialize_light_monitor, send_feishu_msg_with_webhook, send_heartbeat
from .monitor import initialize_monitor_manager, monitor_manager, send_alert_message
from .phases import phase
from .settings import configure
from .stop_file import read_stop_file
from .utils import set_env_var

__all__ = [
    "configure",
    "initialize_light_monitor",
    "initialize_monitor_manager",
    "monitor_manager",
    "phase",
    "read_stop_file",
    "send_alert_message",
    "send_feishu_msg_with_webhook",
    "send_heartbeat",
    "set_env_var",
]
