"""The API for models over a pretrained encoder: facts, pairs as one sequence, contributions, and the limit of a text."""

import json

import pytest

from mtsa.serve.schemas import Explanations
from mtsa.tasks.predictor import ModelInput
from tests.serve.test_api import client_of, refusal

PAIR = {"text": "The Redder apples", "pair": "A bluish plum"}


@pytest.fixture(scope="module")
def client(bert_runs):
    with client_of(bert_runs) as made:
        yield made


def look(client, name, question):
    return client.post("/api/explain", json={"model": name, "input": question})


def test_facts_name_the_pretrained_model(client, runs):
    facts = {one["name"]: one for one in client.get("/api/models").json()}
    assert {one["pretrained"] for one in facts.values()} == {"bert"}  # the last part of its path
    assert facts["pairs"]["paired"]
    assert runs["classification"].metadata()["pretrained"] is None


def test_pairs_as_one_sequence_are_answered_in_batches(client, bert_runs):
    questions = [PAIR, {"text": "red " * 200, "pair": "a plum"}, {"text": "apple", "pair": ""}]
    found = client.post("/api/predict", json={"model": "pairs", "inputs": questions}).json()["predictions"]
    wanted = bert_runs["pairs"].predict([(one["text"], one["pair"]) for one in questions])
    for one, other in zip(found, wanted, strict=True):
        assert one["probabilities"] == pytest.approx(other.probabilities, abs=1e-6)
    assert bert_runs["pairs"].remarks()[0].endswith("truncated to 64 tokens")


@pytest.mark.parametrize("name", ["texts", "pooled", "attended", "numbers", "pairs", "attended_pairs", "separate"])
def test_what_is_shown_follows_its_description(client, bert_runs, name):
    question = PAIR if bert_runs[name].paired else {"text": PAIR["text"]}
    response = look(client, name, question)
    assert response.status_code == 200, response.text
    Explanations.model_validate_json(response.content, strict=True)
    sentences = response.json()["sentences"]
    wanted = bert_runs[name].explain(ModelInput(**question))
    assert len(sentences) == len(wanted) == (2 if name == "separate" else 1)
    for one, other in zip(sentences, wanted, strict=True):
        assert one["words"] == other.words
        assert ("contributions" in one) == (other.contributions is not None) == (name not in ("pooled", "separate"))
        if other.contributions is not None:
            assert one["contributions"] == pytest.approx(other.contributions.tolist(), rel=1e-6)
            assert one["bias"] == pytest.approx(other.bias)
        for layer in one["layers"]:
            for rows in layer["token2token"]:
                assert all(sum(row) == pytest.approx(1, abs=1e-5) or not any(row) for row in rows)
            for words in layer["source2token"]:
                assert [sum(column) for column in zip(*words, strict=True)] == pytest.approx([1.0] * len(words[0]), abs=1e-5)
            assert max(layer["pieces"]["word"]) + 1 == len(one["words"])


def test_the_limit_counts_the_tokens_of_both_texts(client):
    half = "red " * 70
    assert look(client, "separate", {"text": half, "pair": half}).status_code == 200
    told = refusal(look(client, "pairs", {"text": half, "pair": half}), 422)
    assert "has 143 tokens" in told


def test_the_description_has_contributions(client):
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    fields = shapes["SentenceWeights"]
    assert "contributions" in fields["properties"]
    assert "contributions" not in fields["required"]
    assert json.dumps(fields["properties"]["contributions"]).count('"number"') == 1


def test_taggers_are_served(bert_taggers):
    with client_of(bert_taggers) as client:
        texts = ["Bob saw Rome.", "the old Cleo Smith", "abcdefgh " * 60]
        for name in ("tags", "attended", "roles"):
            inputs = [{"text": text} for text in texts]
            found = client.post("/api/predict", json={"model": name, "inputs": inputs}).json()["predictions"]
            assert found == bert_taggers[name].predict_inputs([ModelInput(text) for text in texts])
        response = look(client, "attended", {"text": "Bob saw Rome."})
        Explanations.model_validate_json(response.content, strict=True)
        assert response.json()["sentences"][0]["words"] == ["Bob", "saw", "Rome", "."]
        assert "has no attention weights" in refusal(look(client, "tags", {"text": "Bob saw Rome."}), 422)
        roles = look(client, "roles", {"text": "red apples and plums", "predicate": 1}).json()["sentences"][0]
        assert roles["predicate"] == 1
