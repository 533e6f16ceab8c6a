"""The files of `stepwatchd provision`, checked by the programs that read them."""

from __future__ import annotations

import concurrent.futures
import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring_tools import alertmanager, free_ports, provision, provisioned, read_yaml, render, tool, until

ALL_CHANNELS = (
    *("--email", "all@example.org", "--email-from", "from@example.org", "--smtp", "127.0.0.1:25"),
    *("--slack", "#oncall", "--pagerduty", "--team", "gpu=gpu@example.org", "--team", "training=ml@example.org"),
    *("--alertmanager", "127.0.0.1:9093", "--alertmanager", "127.0.0.1:9193"),
    *("--grafana", "https://grafana.example.org/", "--runbook", "https://wiki.example.org/alerts#"),
    *("--watchdog", "https://switch.example.org/id"),
)
ARTICLE_RULES = {
    "GPUTemperatureHigh",
    "GPUMemoryUsageHigh",
    "GPUUtilizationLow",
    "TrainingLossSpike",
    "TrainingThroughputDrop",
    "GradientExplosion",
    "DiskSpaceLow",
    "MemoryUsageHigh",
}
OWN_RULES = {"NotFinite", "Stalled", "NodeDown", "Absent", "Watchdog", "TargetFlapping"}
VARIANTS = {
    "plain": (),
    "all": ALL_CHANNELS,
    "dcgm": ("--gpu-source", "dcgm", "--file-sd"),
    "dcgm_all": ("--gpu-source", "dcgm", *ALL_CHANNELS),
}


@pytest.fixture(scope="module", params=VARIANTS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provisioned(tmp_path_factory.mktemp(request.param), *VARIANTS[request.param])


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provisioned(tmp_path_factory.mktemp("full"), *ALL_CHANNELS)


def rules_of(directory: Path) -> list[dict[str, Any]]:
    return [
        rule
        for path in sorted((directory / "prometheus/rules").glob("*.yml"))
        for group in read_yaml(path)["groups"]
        for rule in group["rules"]
    ]


# --- Prometheus ---


def test_prometheus_accepts_its_configuration_and_rules(directory: Path) -> None:
    checked = tool("promtool", "check", "config", "prometheus.yml", cwd=directory / "prometheus")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_unit_tests_of_the_rules_pass(directory: Path) -> None:
    tests = sorted((directory / "prometheus/tests").glob("*.yml"))
    assert len(tests) == 4
    tested = tool("promtool", "test", "rules", *tests)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_named_rule_exists_with_labels_and_annotations(directory: Path) -> None:
    alerts = [rule for rule in rules_of(directory) if "alert" in rule]
    assert {rule["alert"] for rule in alerts} >= ARTICLE_RULES | OWN_RULES
    for rule in alerts:
        assert rule["labels"]["severity"] in {"critical", "warning", "info", "none"}
        assert rule["labels"]["component"] in {"gpu", "training", "system", "monitoring"}
        wanted = {"summary", "summary_zh", "description"}
        if rule["alert"] != "Watchdog":
            wanted |= {"advice", "advice_zh"}
        assert wanted <= rule["annotations"].keys(), rule["alert"]
        assert not any("{{" in value for value in rule["labels"].values())


def test_rules_read_the_names_of_the_chosen_source_only(full: Path, tmp_path: Path) -> None:
    nvml, dcgm = full, provisioned(tmp_path, "--gpu-source", "dcgm")
    for path in ("prometheus/rules/gpu.yml", "grafana/dashboards/stepwatch-gpu.json"):
        assert "DCGM_FI" not in (nvml / path).read_text()
        assert "stepwatchd_gpu_temperature" not in (dcgm / path).read_text()
        assert "DCGM_FI_DEV_GPU_TEMP" in (dcgm / path).read_text()


def test_replicas_differ_in_one_label_that_alerts_do_not_have(full: Path) -> None:
    config = read_yaml(full / "prometheus/prometheus.yml")
    assert config["global"]["external_labels"] == {"cluster": "training", "replica": "a"}
    assert config["alerting"]["alert_relabel_configs"] == [{"action": "labeldrop", "regex": "replica"}]
    targets = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert targets == ["127.0.0.1:9093", "127.0.0.1:9193"]


# --- Kubernetes ---


def pod(address: str, **labels: str) -> dict[str, Any]:
    """Return a target as the discovery of Kubernetes describes a pod."""
    defaults = {"namespace": "ml", "pod_name": "p-0", "pod_container_name": "c", "pod_node_name": "n1"}
    given = {**defaults, "pod_phase": "Running", **labels}
    return {"targets": [address], "labels": {f"__meta_kubernetes_{name}": value for name, value in given.items()}}


PODS = [
    pod("10.0.0.1:9100", pod_label_app_kubernetes_io_name="node-exporter", pod_container_port_number="9100"),
    pod("10.0.0.2:9465", pod_label_app_kubernetes_io_name="stepwatchd", pod_container_port_number="9465"),
    pod("10.0.0.2:1", pod_label_app_kubernetes_io_name="stepwatchd", pod_container_port_number="1"),
    pod("10.0.0.3:9400", pod_label_app="nvidia-dcgm-exporter", pod_container_port_number="9400"),
    pod(
        "10.0.0.4:80",
        pod_annotation_prometheus_io_scrape="true",
        pod_annotation_prometheus_io_port="8000",
        pod_annotation_prometheus_io_path="/m",
        pod_annotation_prometheus_io_scheme="https",
    ),
    pod("10.0.0.5:80"),
    pod("10.0.0.6:80", pod_annotation_prometheus_io_scrape="true", pod_phase="Succeeded"),
]
NODE = {"cluster": "training", "node": "n1"}
FOUND = {
    "node": [{**NODE, "instance": "10.0.0.1:9100"}],
    "stepwatchd": [{**NODE, "instance": "10.0.0.2:9465"}],
    "dcgm": [{**NODE, "instance": "10.0.0.3:9400"}],
    "pods": [
        {
            **NODE,
            "instance": "10.0.0.4:8000",
            "__metrics_path__": "/m",
            "__scheme__": "https",
            "namespace": "ml",
            "pod": "p-0",
            "container": "c",
        }
    ],
}


def test_relabelling_in_kubernetes_finds_the_right_pods_with_port_path_and_labels(tmp_path: Path) -> None:
    """Debian's Prometheus has no discovery in Kubernetes, so a file gives it the labels that pods would have."""
    directory = provisioned(tmp_path, "--gpu-source", "dcgm")
    config = read_yaml(directory / "kubernetes/prometheus.yml")
    del config["rule_files"]
    (tmp_path / "pods.json").write_text(json.dumps(PODS))
    for job in [*config["scrape_configs"], *config["alerting"]["alertmanagers"]]:
        if job.pop("kubernetes_sd_configs", None):
            job["file_sd_configs"] = [{"files": [str(tmp_path / "pods.json")]}]
    (tmp_path / "k.yml").write_text(json.dumps(config))

    def discover(job: str) -> subprocess.CompletedProcess[str]:
        # It always waits until the end of its time.
        return tool("promtool", "check", "service-discovery", "--timeout=5s", tmp_path / "k.yml", job)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = dict(zip(FOUND, pool.map(discover, FOUND)))
    for job, expected in FOUND.items():
        done = answers[job]
        assert done.returncode == 0, done.stderr
        kept = [each["labels"] for each in json.loads(done.stdout) if each.get("labels")]
        assert [{name: each.get(name) for name in expected[0]} for each in kept] == expected, job


def test_rbac_lets_prometheus_list_pods_only(full: Path) -> None:
    documents = list(yaml.safe_load_all((full / "kubernetes/rbac.yml").read_text()))
    assert [each["kind"] for each in documents] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    assert documents[1]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert documents[2]["roleRef"]["name"] == documents[1]["metadata"]["name"]


# --- Alertmanager ---


def test_alertmanager_accepts_its_configuration(directory: Path) -> None:
    checked = tool("amtool", "check-config", directory / "alertmanager/alertmanager.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def receivers(directory: Path, **labels: str) -> str:
    config = directory / "alertmanager/alertmanager.yml"
    arguments = [f"{name}={value}" for name, value in labels.items()]
    routed = tool("amtool", "config", "routes", "test", f"--config.file={config}", *arguments)
    assert routed.returncode == 0, routed.stderr
    return routed.stdout.strip()


def test_every_alert_reaches_its_receivers(full: Path) -> None:
    teams = {"gpu": ["team_gpu"], "training": ["team_training"]}
    for rule in rules_of(full):
        if "alert" not in rule:
            continue
        severity, component = rule["labels"]["severity"], rule["labels"]["component"]
        team = teams.get(component, [])
        expected = ["critical", *team] if severity == "critical" else [*team, "everyone"]
        if rule["alert"] == "Watchdog":
            expected = ["watchdog"]
        got = receivers(full, alertname=rule["alert"], **rule["labels"])
        assert got == ",".join(expected), rule["alert"]


def test_every_alert_goes_to_stepwatchd_as_well(full: Path) -> None:
    config = read_yaml(full / "alertmanager/alertmanager.yml")
    for receiver in config["receivers"]:
        if receiver["name"] in ("everyone", "critical"):
            hook = receiver["webhook_configs"][0]
            assert hook["url"] == "http://127.0.0.1:9465/v1/notify/chat"
            assert hook["http_config"]["follow_redirects"] is False


def templates_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in templates_of(each)]
    if isinstance(value, list):
        return [text for each in value for text in templates_of(each)]
    return [value] if isinstance(value, str) and "{{" in value else []


def test_every_text_of_a_message_can_be_filled_in(full: Path, tmp_path: Path) -> None:
    texts = set(templates_of(read_yaml(full / "alertmanager/alertmanager.yml")))
    assert len(texts) >= 5
    for text in sorted(texts):
        rendered = render(tmp_path, text)
        assert rendered.returncode == 0, text + rendered.stderr


def test_secrets_stand_in_files_only(full: Path) -> None:
    texts = [path.read_text() for path in full.rglob("*") if path.is_file()]
    assert not any("secret-of-" in text for text in texts)
    for text in texts:
        assert not re.search(r"(password|api_url|routing_key|credentials):", text)


def send(url: str, *alerts: dict[str, str]) -> None:
    for labels in alerts:
        pairs = [f"{name}={value}" for name, value in labels.items()]
        done = tool("amtool", f"--alertmanager.url={url}", "alert", "add", *pairs)
        assert done.returncode == 0, done.stderr


def test_inhibition_mutes_only_alerts_of_the_same_host_gpu_or_run(full: Path, tmp_path: Path) -> None:
    # The receivers do not exist: every message of the test fails, which mutes no alert.
    with alertmanager(tmp_path, free_ports(1)[0], full / "alertmanager/alertmanager.yml") as server:

        def muted() -> set[str]:
            return {
                alert["labels"]["id"]
                for alert in server.get("/api/v2/alerts")
                if alert["status"]["state"] == "suppressed"
            }

        node_a, node_b = {"cluster": "c", "node": "a"}, {"cluster": "c", "node": "b"}
        idle = {"alertname": "GPUUtilizationLow", "gpu_uuid": "G0", "run": "r"}
        send(
            server.url,
            {"id": "no_node", "alertname": "NodeDown", "cluster": "c"},
            {"id": "spike", "alertname": "TrainingLossSpike", "cluster": "c", "run": "r"},
            {"id": "spike_on_a", "alertname": "TrainingLossSpike", **node_a, "run": "r"},
            {"id": "hot_b", "alertname": "GPUTemperatureHigh", **node_b, "gpu_uuid": "G1"},
            {"id": "hot_unknown", "alertname": "GPUTemperatureHigh", **node_b},
            {"id": "idle_a", **idle, **node_a},
            {"id": "idle_b", **idle, **node_b},
            {"id": "idle_b_hot", **idle, **node_b, "gpu_uuid": "G1"},
            {"id": "disk_a", "alertname": "DiskSpaceLow", **node_a},
            {"id": "drop", "alertname": "TrainingThroughputDrop", "cluster": "c", "run": "r"},
        )
        until(lambda: len(server.get("/api/v2/alerts")) == 10)
        until(lambda: muted() == {"idle_b_hot"}, muted)
        send(server.url, {"id": "down", "alertname": "NodeDown", **node_a})
        until(lambda: muted() == {"idle_b_hot", "idle_a", "disk_a"}, muted)
        send(server.url, {"id": "stalled", "alertname": "Stalled", "cluster": "c", "run": "r"})
        until(lambda: muted() == {"idle_b_hot", "idle_a", "idle_b", "disk_a", "drop"}, muted)
        send(server.url, {"id": "nan", "alertname": "NotFinite", "cluster": "c", "run": "r"})
        until(lambda: muted() >= {"spike", "spike_on_a"}, muted)
        assert not muted() & {"nan", "stalled", "down", "no_node", "hot_b", "hot_unknown"}


def test_an_incident_of_stepwatchd_mutes_the_coarser_alert_of_the_same_run(full: Path, tmp_path: Path) -> None:
    with alertmanager(tmp_path, free_ports(1)[0], full / "alertmanager/alertmanager.yml") as server:

        def state(name: str) -> dict[str, str]:
            found = server.get("/api/v2/alerts")
            return {
                each["labels"]["run"]: each["status"]["state"] for each in found if each["labels"]["alertname"] == name
            }

        twins = {
            "divergence": "TrainingLossSpike",
            "out_of_memory": "GPUOutOfMemory",
            "loss_nonfinite": "NotFinite",
            "stuck": "Stalled",
            "throughput_drop": "TrainingThroughputDrop",
        }
        for incident, alert in twins.items():
            send(
                server.url,
                *[{"alertname": alert, "cluster": "c", "run": run} for run in ("r1", "r2")],
                {"alertname": incident, "run": "r1", "incident": "i1"},
                {"alertname": incident, "run": "r2"},  # of somebody else
            )
            until(lambda name=alert: state(name).get("r1") == "suppressed", lambda name=alert: state(name))
            # TrainingThroughputDrop of r2 is muted by Stalled of r2, as long as that fires.
            assert alert == "TrainingThroughputDrop" or state(alert)["r2"] != "suppressed"


def severities_of_rules(directory: Path) -> dict[str, str]:
    groups = [group for path in (directory / "prometheus/rules").glob("*.yml") for group in read_yaml(path)["groups"]]
    return {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"] if "alert" in rule}


def test_a_critical_alert_mutes_the_warning_about_the_same_fault_and_is_not_muted_by_it(
    full: Path, tmp_path: Path
) -> None:
    severities = severities_of_rules(full)
    with alertmanager(tmp_path, free_ports(1)[0], full / "alertmanager/alertmanager.yml") as server:

        def muted() -> dict[str, bool]:
            found = server.get("/api/v2/alerts")
            return {each["labels"]["alertname"]: each["status"]["state"] == "suppressed" for each in found}

        for incident, alert in {"loss_spike": "TrainingLossSpike", "grad_explosion": "GradientExplosion"}.items():
            assert severities[alert] == "critical"
            run = {"run": f"r {alert}"}
            send(server.url, {"alertname": incident, "severity": "warning", "incident": "i1", **run})
            until(lambda name=incident: muted().get(name) is False, muted)
            send(server.url, {"alertname": alert, "severity": "critical", "cluster": "c", **run})
            until(lambda name=incident: muted().get(name) is True, muted)
            assert muted()[alert] is False


# --- Grafana and compose ---


def dashboards_of(directory: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted((directory / "grafana/dashboards").glob("*.json"))]
    assert len(found) == 3
    return found


def expressions(dashboard: dict[str, Any]) -> list[str]:
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    return found + [mark["expr"] for mark in dashboard["annotations"]["list"]]


def test_every_expression_of_a_dashboard_has_the_right_types(directory: Path, tmp_path: Path) -> None:
    known = {"__rate_interval": "5m", "cluster": "c.*", "run": "r.*", "rank": "0|1"}
    rules = []
    for dashboard in dashboards_of(directory):
        for expression in expressions(dashboard):
            text = re.sub(r"\$(\w+)", lambda variable: known[variable.group(1)], expression)
            rules.append({"record": f"x:{len(rules)}", "expr": text})
    assert len(rules) > 50
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    checked = tool("promtool", "check", "rules", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    path.write_text(json.dumps({"groups": [{"name": "bad", "rules": [{"record": "x", "expr": "rate(up)"}]}]}))
    assert tool("promtool", "check", "rules", path).returncode != 0


def test_dashboards_have_stable_ids_units_links_and_no_overlap(directory: Path) -> None:
    seen = set()
    for dashboard in dashboards_of(directory):
        assert dashboard["id"] is None
        assert dashboard["schemaVersion"] == 42
        runbook = [link["url"] for link in dashboard["links"] if link["type"] == "link"]
        assert runbook == (["https://wiki.example.org/alerts#"] if "all" in directory.parent.name else [])
        seen.add(dashboard["uid"])
        cells: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            taken = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not taken & cells
            assert place["x"] + place["w"] <= 24
            cells |= taken
            if panel["type"] != "row":
                assert panel["fieldConfig"]["defaults"]["unit"]
                assert panel["description"]
                assert panel["datasource"]["uid"] == "${datasource}"
                ids = [target["refId"] for target in panel["targets"]]
                assert len(set(ids)) == len(ids) > 0
        assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
        variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
        assert variables.pop("datasource")["type"] == "datasource"
        assert all(variable["includeAll"] for variable in variables.values())
    assert seen == {"stepwatch-training", "stepwatch-gpu", "stepwatch-monitoring"}


def test_the_training_dashboard_has_variables_and_all_panels(full: Path) -> None:
    training = next(each for each in dashboards_of(full) if each["uid"] == "stepwatch-training")
    assert [each["name"] for each in training["templating"]["list"]] == ["datasource", "cluster", "run", "rank"]
    titles = {panel["title"] for panel in training["panels"]}
    wanted = {"Loss", "Gradient norm", "Learning rate", "Tokens per second", "MFU", "Parts of a step", "Alerts"}
    assert wanted | {"Step time of each rank", "Goodput"} <= titles


def test_grafana_reads_dashboards_and_data_source_from_files(full: Path) -> None:
    provider = read_yaml(full / "grafana/provisioning/dashboards/stepwatch.yml")
    assert provider["apiVersion"] == 1
    assert provider["providers"][0]["type"] == "file"
    assert provider["providers"][0]["allowUiUpdates"] is False
    source = read_yaml(full / "grafana/provisioning/datasources/prometheus.yml")["datasources"][0]
    assert (source["type"], source["url"]) == ("prometheus", "http://127.0.0.1:9090")


def test_compose_runs_pinned_images_without_root_and_with_a_read_only_root(directory: Path) -> None:
    checked = tool("docker-compose", "config", cwd=directory)
    assert checked.returncode == 0, checked.stderr
    services = read_yaml(directory / "docker-compose.yml")["services"]
    assert services.keys() == {"prometheus", "alertmanager", "node-exporter", "grafana"}
    for service in services.values():
        assert re.fullmatch(r"[a-z]+/[a-z-]+:v?\d+\.\d+\.\d+", service["image"])
        assert not service["user"].startswith("0")
        assert service["read_only"] is True
        assert service["healthcheck"]["test"]
        assert service["cap_drop"] == ["ALL"]
        assert "127.0.0.1" in json.dumps([service.get("command"), service.get("environment")])


# --- the verb ---


def test_an_edited_file_is_kept_and_named(tmp_path: Path) -> None:
    directory = provisioned(tmp_path)
    edited = directory / "prometheus/targets/node.yml"
    edited.write_text("- targets: [mine:9100]\n")
    again = provision(directory, "--cluster", "other")
    assert again.returncode == 3
    assert "prometheus/targets/node.yml: kept: it was edited; --force replaces it" in again.stdout
    assert "prometheus/prometheus.yml: written" in again.stdout
    assert edited.read_text() == "- targets: [mine:9100]\n"
    forced = provision(directory, "--cluster", "other", "--force")
    assert forced.returncode == 0
    assert "prometheus/targets/node.yml: replaced: its edits are gone" in forced.stdout
    assert provision(directory, "--cluster", "other").stdout.count(": unchanged\n") == len(forced.stdout.splitlines())


def test_an_invalid_option_writes_no_file(tmp_path: Path) -> None:
    for options in (("--prometheus", "2.41"), ("--cluster", 'a"b'), ("--gpu-source", "smi"), ("--interval", "0")):
        done = provision(tmp_path / "p", *options)
        assert done.returncode == 2, options
    assert not (tmp_path / "p").exists()


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = provision(tmp_path / "file/p")
    assert done.returncode == 1
    assert "cannot create the directory" in done.stderr


def test_files_are_readable_by_the_users_of_the_containers(full: Path) -> None:
    for path in full.rglob("*.yml"):
        assert path.stat().st_mode & stat.S_IROTH
