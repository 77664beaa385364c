"""The description of the API against the API: requests drawn from it, good and bad, sent to a server."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from reproduce.benchmarks.serving import serving
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

# Not asked: that every request of the right form is answered. Whether a model reads pairs, and how many words a text has,
# cannot be told in a description of forms.
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]


@pytest.fixture(scope="module")
def described(runs):
    with serving(*(runs[task].run.folder for task in ("classification", "srl", "pair"))) as port:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")


def test_every_route_is_described(described):
    found = {(operation.ok().method.upper(), operation.ok().path) for operation in described.get_all_operations()}
    posts = {("POST", "/api/predict"), ("POST", "/api/explain")}
    assert found == {("GET", "/health"), ("GET", "/api/models"), ("GET", "/api/errors"), *posts}


@pytest.mark.parametrize("mode", [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", ["/api/predict", "/api/explain"])
def test_the_api_does_what_its_description_says(described, path, mode):
    sent = []

    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=described[path]["POST"].as_strategy(generation_mode=mode))
    def check(case):
        sent.append(case.call_and_validate(checks=CHECKS).status_code)

    check()
    if mode == schemathesis.GenerationMode.POSITIVE:
        assert 200 in sent
    else:
        assert set(sent) <= {400, 405, 413, 415, 422}


@pytest.mark.parametrize("path", ["/health", "/api/models", "/api/errors"])
def test_what_is_there_to_read(described, path):
    described[path]["GET"].Case().call_and_validate(checks=CHECKS)
