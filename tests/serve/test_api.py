"""The API: the answers of the predictors, the weights of the definition, and one sentence for everything else."""

import json
import math

import pytest
import torch
from starlette.testclient import TestClient

from mtsa.serve.app import build_app
from mtsa.serve.explorer_page import content_security_policy, explorer_page
from mtsa.serve.limits import MAX_CHARS, MAX_INPUTS, Limits
from mtsa.serve.served_model import ServedModel, open_models
from tests.trained_models import CLAUSES, attention_maps

TEXT = "the old red dog"


def client_of(runs, limits=None, **options):
    app = build_app({task: ServedModel(task, predictor) for task, predictor in runs.items()}, limits or Limits(), **options)
    return TestClient(app, base_url="http://localhost")


@pytest.fixture(scope="module")
def client(runs):
    with client_of(runs) as made:
        yield made


def ask(client, task, *inputs):
    return client.post("/api/predict", json={"model": task, "inputs": list(inputs)})


def refusal(response, status):
    assert response.status_code == status, response.text
    body = response.json()
    assert list(body) == ["error"]
    assert "\n" not in body["error"]
    return body["error"]


def test_answers_are_those_of_the_predictor(client, runs):
    texts = [TEXT, "a pear", "there is a blue plum here now"]
    found = ask(client, "classification", *({"text": text} for text in texts)).json()
    wanted = [answer.as_json() for answer in runs["classification"].predict(texts)]
    assert found["model"] == "classification"
    assert [one["label"] for one in found["predictions"]] == [one["label"] for one in wanted]
    for one, other in zip(found["predictions"], wanted, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"])
    (pair,) = ask(client, "pair", {"text": "A dog runs .", "pair": "An animal moves ."}).json()["predictions"]
    assert pair["label"] == runs["pair"].predict([("A dog runs .", "An animal moves .")])[0].label
    (tags,) = ask(client, "tagging", {"text": TEXT}).json()["predictions"]
    assert tags == {"words": TEXT.split(), "tags": list(runs["tagging"].predict([TEXT])[0].tags)}
    (roles,) = ask(client, "srl", {"text": "the dog ran home", "predicate": 2}).json()["predictions"]
    assert [frame["predicate"] for frame in roles["frames"]] == [2]
    (text,) = ask(client, "translation", {"text": TEXT}).json()["predictions"]
    assert text == {"translation": runs["translation"].predict([TEXT])[0]}


def test_the_first_model_is_asked_when_none_is_named(client):
    found = client.post("/api/predict", json={"inputs": [{"text": TEXT}]}).json()
    assert found["model"] == "classification"


@pytest.mark.parametrize("task", ["classification", "pair", "tagging", "srl", "translation"])
def test_weights_are_those_of_the_definition(client, runs, task):
    question = {"text": TEXT} | ({"pair": "a pear"} if task == "pair" else {})
    found = client.post("/api/explain", json={"model": task, "input": question}).json()["sentences"]
    wanted = attention_maps(runs[task], TEXT, question.get("pair"))
    assert len(found) == len(wanted) == (2 if task == "pair" else 1)
    for one, other in zip(found, wanted, strict=True):
        assert one["words"] == other.words
        assert one["prediction"] == other.prediction
        for layer, own in zip(one["layers"], other.layers, strict=True):
            assert layer["heads"] == own.heads
            for rows in layer["token2token"]:
                assert all(sum(row) == pytest.approx(1, abs=1e-5) or not any(row) for row in rows)
                assert sum(not any(row) for row in rows) == 1  # the first word has none before it, the last none after
            for words in layer["source2token"]:
                assert [sum(column) for column in zip(*words, strict=True)] == pytest.approx([1.0] * len(words[0]), abs=1e-5)
            for name in ("token2token", "source2token"):
                torch.testing.assert_close(torch.tensor(layer[name]), getattr(own, name), rtol=1e-6, atol=0)
        assert (one["pooling"] is None) == (other.pooling is None)
        if other.pooling is not None:
            torch.testing.assert_close(torch.tensor(one["pooling"]), other.pooling, rtol=1e-6, atol=0)


def test_facts_and_health(client, runs):
    assert client.get("/health").json()["models"] == list(runs)
    facts = {one["name"]: one for one in client.get("/api/models").json()}
    assert facts["pair"]["paired"]
    assert facts["srl"]["roles"]
    assert facts["classification"]["labels"] == ["colour", "fruit"]
    assert facts["translation"]["labels"] == []
    count = sum(weight.numel() for weight in runs["tagging"].model.parameters())
    assert facts["tagging"]["parameters"] == count


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": [{"text": "a", "pair": "b"}]}, "expects single texts"),
        ({"model": "pair", "inputs": [{"text": "a"}]}, "expects pairs"),
        ({"model": "pair", "inputs": [{"text": "a", "pair": "b"}, {"text": "a"}]}, "input 2: "),
        ({"model": "nobody", "inputs": [{"text": "a"}]}, 'unknown model "nobody"; available: classification, pair'),
        ({"inputs": [{"text": "a", "predicate": 0}]}, "applies to semantic roles"),
        ({"model": "srl", "inputs": [{"text": "a b", "predicate": 2}]}, "the text has 2 words"),
        ({"model": "srl", "inputs": [{"text": "a b", "predicate": -1}]}, 'input 1: "predicate" must be at least 0'),
        ({"inputs": []}, '"inputs" must contain at least 1'),
        ({"inputs": [{"text": "a"}] * (MAX_INPUTS + 1)}, '"inputs" contains more than 256'),
        ({"inputs": [{"text": "a" * (MAX_CHARS + 1)}]}, 'input 1: "text" has more than 100,000 characters'),
        ({"inputs": [{"text": "a"}, {"text": 7}]}, 'input 2: "text" must be a string'),
        ({"inputs": [{"text": None}]}, 'input 1: "text" must be a string'),
        ({"inputs": [{"text": "a", "texd": "b"}]}, 'input 1: "texd" is not a valid field'),
        ({"inputs": ["a"]}, "input 1 must be an object"),
        ({}, '"inputs" is missing'),
        ([], "the body must be an object; see /openapi.json"),
        ({"inputs": [{"text": "a \ud800"}]}, "must be a string without lone surrogates"),
    ],
)
def test_bad_questions_get_one_sentence(client, body, message):
    content = json.dumps(body)  # escapes a half character, which no encoding could send
    response = client.post("/api/predict", content=content, headers={"content-type": "application/json"})
    assert message in refusal(response, 422)


def test_texts_without_words(client):
    (answer,) = ask(client, "classification", {"text": ""}).json()["predictions"]
    assert math.isclose(sum(answer["probabilities"].values()), 1, rel_tol=1e-5)
    assert ask(client, "tagging", {"text": " "}).json()["predictions"] == [{"words": [], "tags": []}]
    assert ask(client, "srl", {"text": ""}).json()["predictions"] == [{"words": [], "frames": []}]
    assert ask(client, "translation", {"text": ""}).json()["predictions"] == [{"translation": ""}]
    assert "no words" in refusal(client.post("/api/explain", json={"input": {"text": "  "}}), 422)


@pytest.mark.parametrize("text", ["red " * 1000, "!" * 1000])
@pytest.mark.parametrize("task", ["classification", "pair", "tagging", "srl", "translation"])
def test_long_texts_are_not_looked_at(client, task, text):
    question = {"text": "a"} | ({"pair": text} if task == "pair" else {"text": text})
    told = refusal(client.post("/api/explain", json={"model": task, "input": question}), 422)
    assert "limited to 128" in told


def test_long_texts_are_answered(client):
    assert ask(client, "classification", {"text": "red " * 2000}).status_code == 200


def test_roles_are_looked_at_one_predicate_at_a_time(client, runs):
    text = CLAUSES
    (answer,) = ask(client, "srl", {"text": text}).json()["predictions"]
    assert len(answer["frames"]) > 1
    found = client.post("/api/explain", json={"model": "srl", "input": {"text": text, "predicate": 2}}).json()["sentences"][0]
    assert found["predicate"] == 2
    assert found["predicates"] == [2]
    first = client.post("/api/explain", json={"model": "srl", "input": {"text": text}}).json()["sentences"][0]
    assert first["predicates"] == [frame["predicate"] for frame in answer["frames"]]


def test_bodies_that_are_none(client):
    head = {"content-type": "application/json"}
    assert "not valid JSON" in refusal(client.post("/api/predict", content=b"{", headers=head), 422)
    assert refusal(client.post("/api/predict", content=b"\xff\xfe", headers=head), 422)
    assert "content-type" in refusal(client.post("/api/predict", content=b"{}", headers={"content-type": "text/plain"}), 415)
    assert "content-type" in refusal(client.post("/api/predict", content=b"{}"), 415)


def test_a_body_that_is_too_long_is_refused(runs):
    with client_of(runs, Limits(max_body_bytes=100)) as client:
        head = {"content-type": "application/json"}
        assert "at most 100 bytes" in refusal(client.post("/api/predict", content=b" " * 101, headers=head), 413)
        pieces = (b" " * 60 for _ in range(3))  # sent without a length
        assert "at most 100 bytes" in refusal(client.post("/api/predict", content=pieces, headers=head), 413)
        assert client.post("/api/predict", json={"inputs": [{"text": "a"}]}).status_code == 200


def test_a_body_that_does_not_arrive(runs):
    import anyio

    from mtsa.serve.middleware import RequestMiddleware

    sent = []

    async def never():
        await anyio.sleep(10)

    async def note(message):
        sent.append(message)

    head = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/predict", "headers": head}
    anyio.run(RequestMiddleware(None, limits=Limits(timeout_seconds=0.1)), scope, never, note)
    assert sent[0]["status"] == 408


def test_a_body_that_is_announced_too_long_is_not_read(runs):
    with client_of(runs, Limits(max_body_bytes=100)) as client:
        head = {"content-type": "application/json", "content-length": "5000000"}
        assert "at most 100 bytes" in refusal(client.post("/api/predict", content=b"", headers=head), 413)


def test_an_error_is_short(client):
    body = {"inputs": [{"text": "a", "x" * 50_000: 1}]}
    assert len(refusal(client.post("/api/predict", json=body), 422)) < 200
    body = {"model": "srl", "inputs": [{"text": "a", "predicate": 10**4000}]}
    assert len(client.post("/api/predict", json=body).text) < 300


def test_a_deep_body_breaks_nothing(client):
    content = b"[" * 100_000
    assert client.post("/api/predict", content=content, headers={"content-type": "application/json"}).status_code in (400, 422)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/../recipe.toml", "/%2e%2e/recipe.toml", "/api/models/classification", "/docs"]
)
def test_nothing_else_is_reached(client, path):
    assert "not found" in refusal(client.get(path), 404)


def test_other_methods(client):
    assert refusal(client.get("/api/predict"), 405)
    assert refusal(client.delete("/health"), 405)
    assert client.head("/").status_code == client.head("/health").status_code == 200
    assert client.post("/nothing", content=b"x").status_code == 404


def test_other_host_names_are_refused(client, runs):
    """A page elsewhere whose name points to this machine gets nothing."""
    for host in ("localhost:80@evil.example", "localhost.evil.example", "[::1", ""):
        assert client.get("/health", headers={"host": host}).status_code == 400
    told = refusal(client.get("/api/models", headers={"host": "evil.example"}), 400)
    assert "localhost" in told
    for host in ("127.0.0.1:8000", "localhost:1", "[::1]:8000"):
        assert client.get("/health", headers={"host": host}).status_code == 200
    with client_of(runs, hosts=()) as open_to_all:
        assert open_to_all.get("/health", headers={"host": "evil.example"}).status_code == 200


class Slow:
    """A model that takes its time, or breaks."""

    def __init__(self, served, work):
        self.served, self.work = served, work
        self.name = served.name

    def __getattr__(self, name):
        return getattr(self.served, name)

    def predict(self, inputs):
        return self.work(inputs)


def test_no_answer_in_time(runs):
    import time

    slow = Slow(ServedModel("slow", runs["classification"]), lambda inputs: time.sleep(0.5))
    with TestClient(build_app({"slow": slow}, Limits(timeout_seconds=0.1)), base_url="http://localhost") as client:
        assert "timed out" in refusal(ask(client, "slow", {"text": "a"}), 504)


def test_no_room(runs):
    with client_of(runs, Limits(max_queue_size=3)) as client:
        response = ask(client, "classification", *([{"text": "a"}] * 4))
        assert "try again" in refusal(response, 503)
        assert response.headers["retry-after"] == "5"


def test_a_failure_inside_tells_nothing_of_the_inside(runs, caplog):
    def fails(inputs):
        raise RuntimeError("secret/path")

    slow = Slow(ServedModel("slow", runs["classification"]), fails)
    app = build_app({"slow": slow}, Limits())
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        response = ask(client, "slow", {"text": "a"})
        assert "secret" not in refusal(response, 500)
        assert response.headers["x-content-type-options"] == "nosniff"
    assert "secret/path" in caplog.text


def test_the_page_loads_nothing_from_outside(client):
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["content-security-policy"] == content_security_policy()
    assert "default-src 'none'" in content_security_policy()
    assert "unsafe" not in content_security_policy()
    assert "://" not in explorer_page()
    assert "__MAPS" not in explorer_page()
    assert response.headers["x-content-type-options"] == "nosniff"


def test_two_folders_of_one_name(runs, tmp_path):
    folder = runs["classification"].run.folder
    assert list(open_models([folder, folder])) == ["c", "c-2"]


def test_names_of_version_0_2_are_accepted(client):
    with pytest.warns(DeprecationWarning, match="questions"):
        response = client.post("/api/predict", json={"questions": [{"text": TEXT}]})
    assert response.json()["answers"] == ask(client, "classification", {"text": TEXT}).json()["predictions"]
    with pytest.warns(DeprecationWarning, match="/api/look"):
        response = client.post("/api/look", json={"question": {"text": TEXT}})
    (sentence,) = response.json()["sentences"]
    assert sentence["answer"] == sentence["prediction"] != ""
    assert "input 2" in refusal(client.post("/api/predict", json={"questions": [{"text": "a"}, {"text": 7}]}), 422)
    assert "not a valid field" in refusal(client.post("/api/predict", json={"questions": [], "inputs": [{"text": "a"}]}), 422)
