"""Rules and routes that a widely read article gives for training runs, and their faults.

The expressions and thresholds are facts about them; texts are our own. Each test shows a fault, and the programs of
Prometheus are the judges, so that no such form comes into the provisioned files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring_tools import alertmanager, free_ports, render, tool, until

RATIO_TEXT = "{{ $value | humanizePercentage }}"
RULES = [
    {"alert": "GPUTemperatureHigh", "expr": "gpu_temperature_celsius > 85", "for": "2m"},
    {"alert": "GPUMemoryUsageHigh", "expr": "(gpu_memory_used_bytes / gpu_memory_total_bytes) * 100 > 90", "for": "5m"},
    {"alert": "GPUUtilizationLow", "expr": "gpu_utilization_percent < 10", "for": "10m"},
    {"alert": "TrainingLossSpike", "expr": "increase(training_loss[5m]) > 1.0", "for": "0m"},
    {
        "alert": "TrainingThroughputDrop",
        "expr": "((avg_over_time(training_throughput_samples_per_second[30m])"
        " - avg_over_time(training_throughput_samples_per_second[5m]))"
        " / avg_over_time(training_throughput_samples_per_second[30m])) * 100 > 20",
        "for": "5m",
    },
    {"alert": "GradientExplosion", "expr": "gradient_norm > 100", "for": "0m"},
    {
        "alert": "DiskSpaceLow",
        "expr": '(node_filesystem_avail_bytes{mountpoint="/"} / node_filesystem_size_bytes{mountpoint="/"}) * 100 < 10',
        "for": "5m",
    },
    {
        "alert": "MemoryUsageHigh",
        "expr": "((node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes) / node_memory_MemTotal_bytes)"
        " * 100 > 90",
        "for": "5m",
    },
]


def judge(place: Path, series: dict[str, str], expression: str, at: str, samples: list[dict[str, Any]]) -> None:
    """Check with promtool that an expression has these samples, and only these."""
    rules = [{**rule, "annotations": {"text": RATIO_TEXT}} for rule in RULES]
    (place / "rules.yml").write_text(json.dumps({"groups": [{"name": "article", "rules": rules}]}))
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [{"expr": expression, "eval_time": at, "exp_samples": samples}],
            }
        ],
    }
    (place / "test.yml").write_text(json.dumps(test))
    tested = tool("promtool", "test", "rules", place / "test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def firing(place: Path, series: dict[str, str], name: str, at: str) -> None:
    query = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
    judge(place, series, query, at, [{"labels": "{}", "value": 1}])


def silent(place: Path, series: dict[str, str], name: str, at: str) -> None:
    judge(place, series, f'ALERTS{{alertname="{name}"}}', at, [])


# --- rules ---


def test_increase_of_a_gauge_takes_a_healthy_decline_for_a_spike(tmp_path: Path) -> None:
    firing(tmp_path, {'training_loss{job_name="j"}': "11.0-0.05x40"}, "TrainingLossSpike", "30m")


def test_a_label_that_grows_with_the_step_hides_a_real_jump(tmp_path: Path) -> None:
    series = {f'training_loss{{job_name="j",step="{step}"}}': "_ " * step + "2" for step in range(20)}
    series['training_loss{job_name="j",step="20"}'] = "_ " * 20 + "90"
    silent(tmp_path, series, "TrainingLossSpike", "20m")


def test_a_loss_that_is_not_a_number_never_fires(tmp_path: Path) -> None:
    silent(tmp_path, {'training_loss{job_name="j"}': "2x20 NaN NaN NaN NaN NaN NaN"}, "TrainingLossSpike", "25m")


def test_a_histogram_has_no_series_of_its_bare_name(tmp_path: Path) -> None:
    series = {
        'gradient_norm_bucket{layer="a",le="+Inf"}': "0+1x20",
        'gradient_norm_sum{layer="a"}': "0+100000x20",
        'gradient_norm_count{layer="a"}': "0+1x20",
    }
    silent(tmp_path, series, "GradientExplosion", "15m")


@pytest.mark.parametrize(
    ("fault", "values"),
    [
        ("a trainer that hangs and leaves its last value", "1000x400"),
        ("a leak of 40 percent in four hours", "1000x120 1000-1.7x240"),
    ],
)
def test_a_baseline_of_30_minutes_follows_the_fault(tmp_path: Path, fault: str, values: str) -> None:
    silent(tmp_path, {'training_throughput_samples_per_second{job_name="j"}': values}, "TrainingThroughputDrop", "350m")


def test_a_stopped_trainer_without_samples_never_fires(tmp_path: Path) -> None:
    values = "1000x60 " + "stale " + "_ " * 40
    series = {'training_throughput_samples_per_second{job_name="j"}': values}
    silent(tmp_path, series, "TrainingThroughputDrop", "100m")


def test_a_gpu_that_slows_down_below_85_degrees_never_fires(tmp_path: Path) -> None:
    silent(tmp_path, {'gpu_temperature_celsius{gpu_id="0"}': "84x20"}, "GPUTemperatureHigh", "15m")


def test_pinned_memory_without_any_shortage_fires(tmp_path: Path) -> None:
    series = {"node_memory_MemTotal_bytes": "100x20", "node_memory_MemAvailable_bytes": "9x20"}
    firing(tmp_path, series, "MemoryUsageHigh", "15m")


def test_an_idle_node_fires_without_any_run(tmp_path: Path) -> None:
    firing(tmp_path, {'gpu_utilization_percent{gpu_id="0"}': "0x20"}, "GPUUtilizationLow", "15m")


def test_a_deadlock_at_full_utilisation_never_fires(tmp_path: Path) -> None:
    silent(tmp_path, {'gpu_utilization_percent{gpu_id="0"}': "100x20"}, "GPUUtilizationLow", "15m")


def text_of(place: Path, name: str, series: dict[str, str], text: str) -> None:
    rule = next({**rule, "annotations": {"text": RATIO_TEXT}} for rule in RULES if rule["alert"] == name)
    (place / "rules.yml").write_text(json.dumps({"groups": [{"name": "article", "rules": [rule]}]}))
    labels = {"mountpoint": "/"} if name == "DiskSpaceLow" else {}
    alert = {"exp_labels": labels, "exp_annotations": {"text": text}}
    test = {
        "rule_files": ["rules.yml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": each, "values": values} for each, values in series.items()],
                "alert_rule_test": [{"eval_time": "10m", "alertname": name, "exp_alerts": [alert]}],
            }
        ],
    }
    (place / "test.yml").write_text(json.dumps(test))
    tested = tool("promtool", "test", "rules", place / "test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_a_ratio_times_100_reads_as_thousands_of_percent(tmp_path: Path) -> None:
    series = {"gpu_memory_used_bytes": "95x20", "gpu_memory_total_bytes": "100x20"}
    text_of(tmp_path, "GPUMemoryUsageHigh", series, "9500%")
    free = {
        'node_filesystem_avail_bytes{mountpoint="/"}': "5x20",
        'node_filesystem_size_bytes{mountpoint="/"}': "100x20",
    }
    text_of(tmp_path, "DiskSpaceLow", free, "500%")


def test_a_full_disk_of_checkpoints_never_fires(tmp_path: Path) -> None:
    series = {
        'node_filesystem_avail_bytes{mountpoint="/data"}': "0x20",
        'node_filesystem_size_bytes{mountpoint="/data"}': "100x20",
    }
    silent(tmp_path, series, "DiskSpaceLow", "15m")


# --- configurations ---


def test_debians_prometheus_refuses_discovery_in_kubernetes(tmp_path: Path) -> None:
    job = {"job_name": "training-jobs", "kubernetes_sd_configs": [{"role": "pod"}]}
    (tmp_path / "p.yml").write_text(json.dumps({"scrape_configs": [job]}))
    checked = tool("promtool", "check", "config", tmp_path / "p.yml")
    assert checked.returncode != 0
    assert "kubernetes_sd_configs" in checked.stdout + checked.stderr


def configuration(place: Path, **changes: Any) -> Path:
    """Write the routes and inhibition of the article, with receivers that Alertmanager accepts."""
    names = ("default-receiver", "critical-alerts", "gpu-team", "ml-team")
    config = {
        "route": {
            "group_by": ["alertname", "cluster", "service"],
            "group_wait": "10s",
            "group_interval": "10s",
            "repeat_interval": "1h",
            "receiver": "default-receiver",
            "routes": [
                {"match": {"severity": "critical"}, "receiver": "critical-alerts", "repeat_interval": "5m"},
                {"match": {"component": "gpu"}, "receiver": "gpu-team"},
                {"match": {"component": "training"}, "receiver": "ml-team"},
            ],
        },
        "receivers": [{"name": name} for name in names],
        "inhibit_rules": [
            {
                "source_match": {"alertname": "NodeDown"},
                "target_match_re": {"instance": ".*"},
                "equal": ["instance"],
            },
            {
                "source_match": {"alertname": "GPUTemperatureHigh"},
                "target_match": {"alertname": "GPUUtilizationLow"},
                "equal": ["gpu_id"],
            },
        ],
        **changes,
    }
    path = place / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_subject_and_body_are_no_fields_of_an_e_mail(tmp_path: Path) -> None:
    mail = {"to": "a@example.org", "subject": "{{ .GroupLabels.alertname }}", "body": "text"}
    receivers = [{"name": name} for name in ("critical-alerts", "gpu-team", "ml-team")]
    receivers.append({"name": "default-receiver", "email_configs": [mail]})
    smtp = {"smtp_smarthost": "127.0.0.1:25", "smtp_from": "a@example.org"}
    checked = tool("amtool", "check-config", configuration(tmp_path, receivers=receivers, **{"global": smtp}))
    assert checked.returncode != 0
    assert "field subject not found" in checked.stdout + checked.stderr


def test_a_group_has_no_annotations_of_its_own(tmp_path: Path) -> None:
    text = "{{ .GroupLabels.alertname }}: {{ .Annotations.summary }}"
    rendered = render(tmp_path, text)
    assert rendered.returncode != 0
    assert "can't evaluate field Annotations" in rendered.stdout + rendered.stderr
    common = render(tmp_path, text.replace(".Annotations", ".CommonAnnotations"))
    assert common.returncode == 0, common.stderr


def test_critical_alerts_never_reach_the_teams(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    for component in ("gpu", "training"):
        routed = tool(
            *("amtool", "config", "routes", "test", f"--config.file={config}"),
            *("severity=critical", f"component={component}"),
        )
        assert routed.stdout.strip() == "critical-alerts"


def test_inhibition_without_required_labels_mutes_alerts_of_others(tmp_path: Path) -> None:
    with alertmanager(tmp_path, free_ports(1)[0], configuration(tmp_path)) as server:
        for alert in (
            ("NodeDown", "severity=critical"),
            ("TrainingLossSpike", "severity=critical", "job_name=j"),
            ("GPUTemperatureHigh", "instance=a:9445", "gpu_id=0"),
            ("GPUUtilizationLow", "instance=b:9445", "gpu_id=0"),
        ):
            added = tool("amtool", f"--alertmanager.url={server.url}", "alert", "add", *alert)
            assert added.returncode == 0, added.stderr

        def muted() -> set[str]:
            found = server.get("/api/v2/alerts")
            return {each["labels"]["alertname"] for each in found if each["status"]["state"] == "suppressed"}

        until(lambda: muted() >= {"TrainingLossSpike", "GPUUtilizationLow"}, muted)
