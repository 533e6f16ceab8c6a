"""The files for agents of logs: run by the real rsyslog, and otherwise parsed and compared with what others require."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring_tools import free_ports, provisioned, read_yaml, rsyslog, tool, until

ECS_KEYS = {
    *("@timestamp", "log.level", "message", "ecs.version", "service.name", "host.name", "error.type"),
    *("error.stack_trace", "run.id", "rank", "step", "event.id", "event.severity", "anomaly.name"),
    *("event.created", "log.file.path", "log.logger", "log.flags", "error.message", "local_rank", "is_evaluation"),
    *("labels", "anomaly.culprit_rank", "anomaly.facts"),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provisioned(tmp_path_factory.mktemp("logs"), "--stepwatchd", "10.0.0.7:9465") / "logs"


# --- rsyslog ---


class SyslogRecorder:
    """Accepts syslog over TCP with octet counting, as RFC 6587 has it."""

    def __init__(self, port: int) -> None:
        self.messages: list[str] = []
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                connection, _ = self._server.accept()
                threading.Thread(target=self._read, args=(connection.makefile("rb"),), daemon=True).start()

    def _read(self, stream: Any) -> None:
        while digits := b"".join(iter(lambda: stream.read(1), b" ")):
            self.messages.append(stream.read(int(digits)).decode())

    def texts(self) -> list[str]:
        """Return the messages without their headers."""
        return [message.split("] ", 1)[1] for message in self.messages]


def main_config(place: Path, drop_in: Path) -> Path:
    """Write what Debian's rsyslog.conf sets before it reads the files of /etc/rsyslog.d."""
    (place / "work").mkdir()
    config = place / "rsyslog.conf"
    config.write_text(f"$WorkDirectory {place / 'work'}\n$IncludeConfig {drop_in}\n")
    return config


def test_rsyslog_accepts_its_file(logs: Path, tmp_path: Path) -> None:
    checked = tool("rsyslogd", "-N1", "-f", main_config(tmp_path, logs / "rsyslog.conf"))
    assert checked.returncode == 0, checked.stderr
    assert "error" not in checked.stderr.lower()


def test_rsyslog_sends_each_line_once_through_rotation_and_while_stepwatchd_is_away(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    training = tmp_path / "training"
    training.mkdir()
    log = training / "rank0.log"
    directory = provisioned(tmp_path, "--logs", f"{training}/*.log", "--syslog", f"127.0.0.1:{port}")
    config = main_config(tmp_path, directory / "logs/rsyslog.conf")
    lines = [f"Step {number}: loss=1.5, é" for number in range(100)]
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ValueError: bad]"]
    log.write_text("".join(f"{line}\n" for line in lines))
    with rsyslog(tmp_path, config):
        until((tmp_path / "pid").exists, (tmp_path / "rsyslogd.log").read_text)
        recorder = SyslogRecorder(port)
        until(lambda: len(recorder.messages) == 100, lambda: recorder.messages[-3:])
        log.rename(training / "rank0.log.1")
        log.write_text("".join(f"{line}\n" for line in trace))
        until(lambda: len(recorder.messages) >= 103, lambda: recorder.messages[-3:])
    assert recorder.texts() == lines + trace
    header = rf'<134>1 \d{{4}}-\d\d-\d\dT\S+ \S+ training - - \[stepwatch@32473 file="{log}" offset="0"\] Step 0: '
    assert re.match(header, recorder.messages[0]), recorder.messages[0]


# --- agents that were not run ---

# Options that the source of Fluent Bit and the references of the others list.
FLUENT_BIT_OPTIONS = {
    "tail": {
        *("name", "tag", "path", "key", "path_key", "offset_key", "db", "read_from_head", "rotate_wait"),
        *("buffer_max_size", "skip_long_lines", "storage.type"),
    },
    "http": {
        *("name", "match", "host", "port", "uri", "format", "json_date_key", "json_date_format", "header"),
        *("storage.total_limit_size", "retry_limit"),
    },
}


def test_fluent_bit_sends_lines_of_json_with_the_names_that_stepwatchd_reads(logs: Path) -> None:
    config = read_yaml(logs / "fluent-bit.yaml")
    (tail,), (http,) = config["pipeline"]["inputs"], config["pipeline"]["outputs"]
    for plugin in (tail, http):
        assert plugin.keys() <= FLUENT_BIT_OPTIONS[plugin["name"]]
    assert (tail["key"], http["json_date_key"]) == ("message", "@timestamp")
    assert (http["host"], http["port"], http["uri"], http["format"]) == ("10.0.0.7", 9465, "/v1/logs", "json_lines")
    assert http["header"] == "Authorization Bearer ${STEPWATCHD_TOKEN}"
    assert tail["skip_long_lines"] is True, "otherwise a long line ends the reading of its file"
    assert http["retry_limit"] == "no_limits" and http["storage.total_limit_size"] == "256M"


def test_vector_waits_for_stepwatchd_and_takes_the_token_from_its_file(logs: Path) -> None:
    config = read_yaml(logs / "vector.yaml")
    sink = config["sinks"]["stepwatchd"]
    assert sink["uri"] == "http://10.0.0.7:9465/v1/logs"
    assert sink["framing"] == {"method": "newline_delimited"} and sink["encoding"] == {"codec": "json"}
    assert sink["auth"]["token"] == "SECRET[stepwatch.stepwatchd_token]" and "stepwatch" in config["secret"]
    assert sink["buffer"]["max_size"] >= 268435488
    assert sink["inputs"] == list(config["transforms"]) and config["transforms"]["ecs"]["inputs"] == ["training"]
    for name in ("message", "@timestamp", "host.name", "log.file.path"):
        assert f'"{name}"' in config["transforms"]["ecs"]["source"]


def test_filebeat_tells_files_apart_by_content_and_reads_short_ones(logs: Path) -> None:
    config = read_yaml(logs / "filebeat.yml")
    (stream,) = config["filebeat.inputs"]
    assert stream["id"] and stream["type"] == "filestream"
    assert stream["prospector.scanner.fingerprint"] == {"enabled": True, "offset": 0, "length": 64}
    assert config["output.logstash"]["ssl.certificate_authorities"]


def test_the_collector_sends_uncompressed_json_and_loses_no_line(logs: Path) -> None:
    config = read_yaml(logs / "otel-collector.yaml")
    exporter = config["exporters"]["otlphttp"]
    assert (exporter["endpoint"], exporter["encoding"], exporter["compression"]) == (
        *("http://10.0.0.7:9465", "json", "none"),
    )
    pipeline = config["service"]["pipelines"]["logs"]
    for kind in ("receivers", "processors", "exporters"):
        assert pipeline[kind] == list(config[kind])
    assert set(config["service"]["extensions"]) == set(config["extensions"])
    receiver = config["receivers"]["filelog"]
    assert receiver["storage"] in config["extensions"]
    assert receiver["preserve_leading_whitespaces"] is True, "tracebacks are known by their indentation"
    for part in (receiver, exporter):
        assert part["retry_on_failure"] == {"enabled": True, "max_elapsed_time": "0s"}
    assert exporter["sending_queue"]["storage"] in config["extensions"]
    assert exporter["auth"]["authenticator"] in config["extensions"]


def test_every_agent_reads_the_same_files(tmp_path: Path) -> None:
    logs = provisioned(tmp_path, "--logs", "/data/runs/rank*.log") / "logs"
    for name in ("rsyslog.conf", "fluent-bit.yaml", "vector.yaml", "filebeat.yml", "otel-collector.yaml"):
        assert "/data/runs/rank*.log" in (logs / name).read_text(), name
    assert "/data/runs:/data/runs:ro" in read_yaml(logs / "docker-compose.yml")["services"]["filebeat"]["volumes"]


def test_logstash_passes_lines_on_over_tls(logs: Path) -> None:
    text = re.sub(r"#.*", "", (logs / "logstash/pipeline/stepwatch.conf").read_text())
    assert text.count("{") == text.count("}") and text.count('"') % 2 == 0
    assert re.findall(r"^(\w+) \{$", text, re.MULTILINE) == ["input", "filter", "output"]
    assert "ssl_enabled => true" in text and "${STEPWATCHD_TOKEN}" in text
    assert 'url => "http://10.0.0.7:9465/v1/logs"' in text
    settings = read_yaml(logs / "logstash/logstash.yml")
    assert settings["api.http.host"] == "127.0.0.1"
    in_order = (settings["pipeline.workers"], settings["pipeline.ordered"], "pool_max => 1" in text)
    assert in_order == (1, True, True), "the lines of a traceback stay together"


# --- Elasticsearch and Kibana ---


def test_the_index_template_knows_every_key_of_a_record_and_its_lifecycle(logs: Path) -> None:
    template = json.loads((logs / "elasticsearch/index-template.json").read_text())
    assert template["data_stream"] == {} and template["index_patterns"] == ["logs-stepwatch-*"]
    assert template["priority"] > 100, "the built-in template of logs-*-* has 100"
    settings = template["template"]["settings"]
    assert settings["index.mapping.ignore_malformed"] is True, 'a loss of "nan" would reject its record'
    assert settings["index.lifecycle.name"] == "stepwatch"
    mappings = template["template"]["mappings"]
    assert mappings["properties"].keys() >= ECS_KEYS
    # A loss whose first value is the text "nan" would otherwise become a text for ever.
    assert mappings["dynamic_templates"][0]["progress"] == {"path_match": "progress.*", "mapping": {"type": "double"}}
    for name in ("labels", "anomaly.facts"):
        assert mappings["properties"][name]["type"] == "flattened", "any line may bring new names"
    phases = json.loads((logs / "elasticsearch/lifecycle.json").read_text())["policy"]["phases"]
    assert phases.keys() == {"hot", "warm", "delete"}
    assert phases["hot"]["actions"]["rollover"]["max_primary_shard_size"] == "50gb"


def test_the_key_of_stepwatchd_can_only_add_records(logs: Path) -> None:
    (role,) = json.loads((logs / "elasticsearch/api-key.json").read_text())["role_descriptors"].values()
    assert role == {"indices": [{"names": ["logs-stepwatch-*"], "privileges": ["auto_configure", "create_doc"]}]}


def test_kibana_imports_objects_whose_references_exist(logs: Path) -> None:
    objects = [json.loads(line) for line in (logs / "kibana/stepwatch.ndjson").read_text().splitlines()]
    ids = {(each["type"], each["id"]) for each in objects}
    assert len(ids) == len(objects) == 3
    for each in objects:
        for reference in each["references"]:
            assert (reference["type"], reference["id"]) in ids
        if each["type"] == "search":
            source = json.loads(each["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])
            assert source["indexRefName"] == each["references"][0]["name"]
            assert set(each["attributes"]["columns"]) <= ECS_KEYS
            assert re.findall(r"([\w.]+):", source["query"]["query"])[0] in ECS_KEYS


# --- the compose file ---


def faults_of(compose: dict[str, Any]) -> set[str]:
    """Return what is wrong with a stack of programs that hold the logs of a cluster."""
    faults = {"version is obsolete"} if "version" in compose else set()
    for name, service in compose["services"].items():
        settings = service.get("environment", {})
        if isinstance(settings, list):
            settings = dict(text.split("=", 1) for text in settings)
        found_faults = {
            "image is not pinned": not re.search(r":v?\d+\.\d+\.\d+$", service["image"]),
            "runs as root": str(service.get("user", "root")).split(":")[0] in ("root", "0"),
            "reaches Docker": any("docker.sock" in volume for volume in service.get("volumes", [])),
            "has no security": str(settings.get("xpack.security.enabled", "true")).lower() == "false",
            "is open to the network": any(not str(p).startswith("127.0.0.1:") for p in service.get("ports", [])),
            "keeps capabilities": service.get("cap_drop") != ["ALL"],
            "may gain privileges": "no-new-privileges:true" not in service.get("security_opt", []),
            "has no health check": "healthcheck" not in service,
            "has no limit of memory": "mem_limit" not in service,
            "fills the disk with its own log": "max-size" not in service.get("logging", {}).get("options", {}),
        }
        faults |= {f"{name} {fault}" for fault, is_there in found_faults.items() if is_there}
    return faults


def test_compose_runs_pinned_images_without_root_on_loopback_with_security_and_limits(logs: Path) -> None:
    checked = tool("docker-compose", "config", cwd=logs)
    assert checked.returncode == 0, checked.stderr
    compose = read_yaml(logs / "docker-compose.yml")
    assert faults_of(compose) == set()
    services = compose["services"]
    assert services.keys() == {"elasticsearch", "kibana", "logstash", "filebeat"}
    assert services["filebeat"]["read_only"] is True
    elastic = services["elasticsearch"]["environment"]
    assert (elastic["xpack.security.enabled"], elastic["xpack.security.http.ssl.enabled"]) == ("true", "true")
    assert elastic["network.host"] == "127.0.0.1" == read_yaml(logs / "kibana/kibana.yml")["server.host"]
    assert len({service["image"].rsplit(":", 1)[1] for service in services.values()}) == 1, "Elastic: one version"


# A usual stack of tutorials: one node without security, ports on all addresses, an agent that is root.
USUAL_STACK = """
version: "3.8"
services:
  elasticsearch:
    image: docker.elastic.co/elasticsearch/elasticsearch:8.8.0
    environment: [discovery.type=single-node, "ES_JAVA_OPTS=-Xms2g -Xmx2g", xpack.security.enabled=false]
    ports: ["9200:9200"]
    volumes: ["es:/usr/share/elasticsearch/data"]
  logstash: {image: "docker.elastic.co/logstash/logstash:8.8.0", ports: ["5044:5044", "9600:9600"]}
  kibana: {image: "docker.elastic.co/kibana/kibana:latest", ports: ["5601:5601"]}
  filebeat:
    image: docker.elastic.co/beats/filebeat:8.8.0
    user: root
    volumes: ["/var/lib/docker/containers:/c:ro", "/var/run/docker.sock:/var/run/docker.sock:ro"]
"""


def test_the_check_finds_every_fault_of_a_usual_stack() -> None:
    faults = faults_of(yaml.safe_load(USUAL_STACK))
    assert faults >= {
        "version is obsolete",
        "elasticsearch has no security",
        "elasticsearch is open to the network",
        "logstash is open to the network",
        "kibana is open to the network",
        "kibana image is not pinned",
        "filebeat runs as root",
        "filebeat reaches Docker",
    }
    for name in ("elasticsearch", "logstash", "kibana", "filebeat"):
        assert {f"{name} has no health check", f"{name} has no limit of memory", f"{name} keeps capabilities"} <= faults
