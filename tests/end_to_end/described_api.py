"""An API that is served over TCP against its description: routes, token, random requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path

import hypothesis
import schemathesis
import schemathesis.specs.openapi.checks as openapi_checks

TOKEN = "2b7e151628aed2a6abf7158809cf4f3c"


def token_file(directory: Path) -> Path:
    """Write the token into a file that only its owner reads."""
    path = directory / "token"
    path.touch(mode=0o600)
    path.write_text(TOKEN + "\n")
    return path


def described_calls(description: Path) -> list[tuple[str, str]]:
    """Return the methods and paths of a description."""
    paths = json.loads(description.read_text())["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def ask(
    address: str, target: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    """Send a request with the token; return status, headers and body of the answer."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request(method, target, body, headers={"Authorization": f"Bearer {TOKEN}", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def check_that_the_token_is_needed(description: Path, address: str) -> None:
    """Check the answers of all routes to another token."""
    for method, path in described_calls(description):
        status, headers, text = ask(address, path, method, Authorization="Bearer 00000000000000000000000000000000")
        assert status == 401 and headers["Content-Type"] == "application/json", path
        assert json.loads(text)["error"]["code"] == "unauthorized"


def check_all_routes(
    description: Path,
    address: str,
    examples: int,
    excluded: Callable[[schemathesis.Case], bool] = lambda case: False,
    allowed_statuses: tuple[str, ...] = (),
    known: dict[str, str] | None = None,
) -> None:
    """Send random requests that the description allows or forbids, also about `known` names, to every route."""
    # A stream of events has no end.
    api = schemathesis.openapi.from_path(description).include(lambda context: context.operation.path != "/v1/events")
    api.config.update(base_url=f"http://{address}")
    api.config.checks.positive_data_acceptance.expected_statuses += allowed_statuses
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) == len(described_calls(description)) - 1
    asked = dict.fromkeys(schemathesis.GenerationMode, 0)

    def check_operation(operation: schemathesis.APIOperation, mode: schemathesis.GenerationMode) -> int:
        count = 0

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode), is_known=hypothesis.strategies.booleans())
        @hypothesis.settings(max_examples=examples, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
        def check(case: schemathesis.Case, is_known: bool) -> None:
            nonlocal count
            count += 1
            hypothesis.assume(not excluded(case))
            if is_known and case.path_parameters:
                case.path_parameters.update(
                    {name: text for name, text in (known or {}).items() if name in case.path_parameters}
                )
            # The routes' own tests check refusals: some routes accept any text and report its errors.
            case.validate_response(call_until_free(case), excluded_checks=[openapi_checks.negative_data_rejection])

        # A request that has neither body nor parameter cannot be wrong.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            check()
        return count

    for operation in operations:
        for mode in schemathesis.GenerationMode:
            count = check_operation(operation, mode)
            assert count > 0 or mode is schemathesis.GenerationMode.NEGATIVE, operation.label
            asked[mode] += count
    assert all(asked.values())


def call_until_free(case: schemathesis.Case) -> schemathesis.Response:
    """Repeat a request that is to be repeated: a job takes 64 changes of its file within five seconds."""
    for _ in range(20):
        response = case.call(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
        if response.status_code != 503 or response.json()["error"]["code"] != "busy":
            break
        time.sleep(0.5)
    return response
