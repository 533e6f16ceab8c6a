"""Settings of alerts: from `configure`, else from InternEvo's config (`monitor.alert`)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from stepwatch.compat.job_identity import internevo_context


@dataclass(frozen=True)
class AlertSettings:
    """Settings of alerts; the first four are InternEvo's."""

    enable_feishu_alert: bool = False
    feishu_alert_address: str | None = None
    light_monitor_address: str | None = None
    alert_file_path: str | None = None
    feishu_secret_file: str | None = None
    light_monitor_token_file: str | None = None


_configured: dict[str, Any] = {}


def configure(
    *,
    enable_feishu_alert: bool | None = None,
    feishu_alert_address: str | None = None,
    light_monitor_address: str | None = None,
    alert_file_path: str | None = None,
    feishu_secret_file: str | None = None,
    light_monitor_token_file: str | None = None,
) -> None:
    """Set what InternEvo's config does not, or replace its values. None leaves a value to the config.

    Parameters
    ----------
    enable_feishu_alert : bool, optional
        Whether alerts are sent at all; False by default.
    feishu_alert_address : str, optional
        The webhook of a Feishu bot.
    light_monitor_address : str, optional
        The stepwatchd that receives heartbeats: http://HOST:PORT, or the path of a Unix socket.
    alert_file_path : str, optional
        A file that all ranks can write, through which an exception of many ranks becomes one alert.
    feishu_secret_file : str, optional
        A file of mode 0600 with the secret of the bot, if the bot requires signatures.
    light_monitor_token_file : str, optional
        A file of mode 0600 with the token of that stepwatchd.
    """
    given = dict(locals())
    _configured.clear()
    _configured.update({name: value for name, value in given.items() if value is not None})


def alert_settings() -> AlertSettings:
    """Return the settings in force."""
    try:
        config = internevo_context().config.monitor.alert
        values = {field.name: config.get(field.name) for field in fields(AlertSettings)}
    except Exception:  # no context, or no config in it yet
        values = {}
    known = {name: value for name, value in values.items() if value is not None}
    return replace(AlertSettings(), **{**known, **_configured})
