"""Outputs of records in stepwatchd: records that an earlier process left, an edit of the settings, the metrics."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stepwatchd_process import NO_JOBS, Stepwatchd


def settings_with(*outputs: dict[str, Any]) -> dict[str, Any]:
    return {**NO_JOBS, "logs": {"outputs": list(outputs)}}


def test_records_of_an_earlier_process_are_sent_with_the_key_and_counted(tmp_path: Path) -> None:
    requests: list[tuple[str, str, list[Any]]] = []

    class Elasticsearch(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            lines = [json.loads(line) for line in body.splitlines()]
            requests.append((self.path.split("?")[0], self.headers["Authorization"], lines))
            items = [{"create": {"status": 409 if number == 1 else 201}} for number in range(len(lines) // 2)]
            reply = json.dumps({"errors": True, "items": items}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Elasticsearch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    key = tmp_path / "key"
    key.write_text("c2VjcmV0LW9mLWVz\n")
    spool = tmp_path / "state/log_output_es"
    spool.mkdir(parents=True)
    spool.parent.chmod(0o700)
    texts = [f'id{number}\t{{"message":"m{number}"}}\n' for number in range(3)]
    (spool / "000000000001.jsonl").write_text("".join(texts) + 'id9\t{"mess')
    output = {"name": "es", "type": "elasticsearch", "index": "logs-stepwatch-default", "api_key_file": str(key)}
    with Stepwatchd(tmp_path, settings_with()) as running:
        assert "stepwatchd_log_output" not in running.ask("GET", "/metrics")[2]
        address = f"http://127.0.0.1:{server.server_address[1]}"
        running.config.write_text(json.dumps(settings_with({**output, "url": address})))
        running.until(lambda: requests and not list(spool.iterdir()))
        ((path, authorization, lines),) = requests
        assert (path, authorization) == ("/logs-stepwatch-default/_bulk", "ApiKey c2VjcmV0LW9mLWVz")
        assert lines[:2] == [{"create": {"_id": "id0"}}, {"message": "m0"}] and len(lines) == 6
        running.until(lambda: 'result="accepted"} 2' in running.ask("GET", "/metrics")[2])
        page = running.ask("GET", "/metrics")[2]
        assert 'stepwatchd_log_output_records_total{output="es",result="duplicate"} 1' in page
        assert 'stepwatchd_log_output_waiting_bytes{output="es"} 0' in page
        assert "c2Vjcm" not in running.log.read_text()
    server.shutdown()
