"""Documents: training on long texts, prediction, explanation, export and serving of hierarchical models."""

import dataclasses
import json

import pytest
import torch
from starlette.testclient import TestClient
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.data.examples import Example
from mtsa.errors import InputError
from mtsa.inference.attention_weights import maps_to_json
from mtsa.inference.document_maps import MOST_BLOCKS
from mtsa.inference.export_parity import compare_by_length, open_graph
from mtsa.inference.graph_export import TARGETS, trace
from mtsa.serve.app import build_app
from mtsa.serve.limits import Limits
from mtsa.serve.served_model import ServedModel
from mtsa.tasks.encoded import Mistake
from mtsa.tasks.predictor import ModelInput
from mtsa.tasks.registry import get_task
from mtsa.training.defaults import DOCUMENT_LENGTH, pretrained_settings
from mtsa.training.launch import build_recipe
from mtsa.training.loop import TrainingLoop
from mtsa.training.prepare import prepare
from mtsa.training.pretrained_inputs import PretrainedFacts
from mtsa.training.recipe_files import make_recipe
from mtsa.training.split import read_split
from tests.tiny_bert import write_bert

QUICK = {"training.epochs": 1, "encoder.head_dim": 4, "encoder.heads": 2, "encoder.block": 8, "vectors.dim": 6,
         "model.hidden": 7, "training.refit": False}  # fmt: skip
ENCODER = {"encoder": "hierarchical_mtsa"}


def document(number, words):
    """Words with a full stop after every sixth; the label is the most frequent fruit or colour."""
    names = ("apple", "pear", "plum") if number % 2 else ("red", "green", "blue")
    made = [names[(number + n) % 3] if n % 3 == 0 else ("the", "is", "a")[n % 3] for n in range(words)]
    return " ".join(f"{word} ." if n % 6 == 5 else word for n, word in enumerate(made)), "fruit" if number % 2 else "colour"


def documents(count):
    return [document(number, 20 + 31 * number % 700) for number in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("documents")


@pytest.fixture(scope="module")
def predictor(folder):
    return mtsa.train(train=documents(40), out=folder / "texts", settings=QUICK, **ENCODER)


@pytest.fixture(scope="module")
def windowed(folder):
    """Over a frozen pretrained model that reads 64 tokens."""
    bert = write_bert(folder / "bert")
    quick = {"training.epochs": 1, "encoder.head_dim": 4, "encoder.heads": 2, "encoder.block": 8, "pretrained.frozen": True}
    return mtsa.train(train=documents(20), pretrained=bert, out=folder / "windows", settings=quick, **ENCODER)


def test_documents_are_not_truncated(predictor):
    assert predictor.recipe.tokens.max_length == DOCUMENT_LENGTH
    assert predictor.recipe.training.batch_tokens == 16_384
    long, other = document(1, 5000)[0], document(1, 4990)[0] + " red" * 10
    a, b = predictor.predict([long, other])
    assert a.probabilities != b.probabilities
    assert not predictor.remarks()


def test_a_flat_model_names_the_encoder_for_longer_texts():
    rows = [(document(number, 600)[0], document(number, 1)[1]) for number in range(12)]
    split = read_split(make_recipe({"data": {"train": "unused"}}, [], "test"), {"train": rows})
    remarks = prepare(
        make_recipe({"data": {"train": "unused"}, "encoder": {"name": "mtsa", "head_dim": 4}}, [], "test"), split
    )
    assert any("truncated to 512 words; --encoder hierarchical_mtsa reads longer texts" in one for one in remarks.remarks)


@pytest.mark.parametrize("text", ["apple", "", "...", "apple\n\n\npear .\n\n", "apple " * 3000, ". " * 100])
def test_unusual_texts(predictor, text):
    (found,) = predictor.predict([text])
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    (again, _) = predictor.predict([text, document(3, 900)[0]])
    assert again.probabilities == pytest.approx(found.probabilities, abs=1e-5)


def test_a_text_of_100_000_words_is_truncated_with_a_remark(predictor):
    predictor.truncated = 0
    (found,) = predictor.predict([document(2, 100_000)[0]])
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert predictor.remarks() == ["1 text truncated to 16,384 words"]


def test_sentences_are_the_blocks(predictor):
    tokens = predictor.tokenizer
    assert predictor.model.config.sentence_ends == [tokens.token_to_id(".")]
    text = "the red apple is a pear . the plum is red ."
    maps = predictor.explain(text)
    assert maps[0].part == "2 blocks of the text"
    assert maps[0].words == ["1: the red apple is\N{HORIZONTAL ELLIPSIS}", "2: the plum is red\N{HORIZONTAL ELLIPSIS}"]
    assert [one.words for one in maps[1:]] == [
        ["the", "red", "apple", "is", "a", "pear", "."],
        ["the", "plum", "is", "red", "."],
    ]


def test_all_tokens_that_end_a_sentence_are_used(predictor, monkeypatch):
    ends = [predictor.tokenizer.token_to_id(word) for word in ("apple", "is")]
    monkeypatch.setattr(predictor.model.config, "sentence_ends", ends)
    _, *inside = predictor.explain("the red apple is a pear . the plum is red .")
    assert [len(one.words) for one in inside] == [4, 8]  # both of "apple is" are ends, of which the last one counts


def test_explanation_shows_blocks_first_and_then_their_words(predictor):
    text = document(4, 700)[0]
    maps = predictor.explain(text)
    assert maps[0].part == f"the {MOST_BLOCKS} of 117 blocks with the largest weights"
    assert len(maps[0].words) == MOST_BLOCKS
    assert len(maps) == 4
    for one in maps:
        (layer,) = one.layers
        rows = layer.token2token.sum(-1)
        assert torch.allclose(rows[rows > 0], torch.ones(()), atol=1e-5)
        torch.testing.assert_close(layer.source2token.sum(1), torch.ones_like(layer.source2token[:, 0]))
        assert layer.token2token.shape[1] == len(one.words) == len(one.pooling)
    assert all(one.part.startswith("inside block") for one in maps[1:])
    weights = [float(one.pooling.sum()) for one in maps[1:]]
    shown = torch.tensor([float(row.sum()) for row in maps[0].pooling])
    assert sorted(weights) == pytest.approx(sorted(shown.topk(3).values.tolist()), rel=1e-4)
    assert maps_to_json(maps[0])["part"] == maps[0].part
    assert [one.part for one in predictor.explain("apple pear")] == [""]


def test_error_analysis_names_words_and_not_blocks(predictor, tmp_path):
    rows = [(text, "fruit" if label == "colour" else "colour") for text, label in documents(8)]
    predictor.evaluate(rows, errors=tmp_path / "errors.jsonl")
    found = [json.loads(line) for line in (tmp_path / "errors.jsonl").read_text().splitlines()]
    mistakes = [row for row in found if row["kind"] == "mistake"]
    assert mistakes
    for row in mistakes:
        assert len(row["words"]) == min(5, len({word for word in row["text"].split() if word.isalpha()}))
        assert {word for word, _ in row["words"]} <= set(row["text"].split())
    text = document(4, 700)[0]
    (whole,) = predictor.explain_mistake(Example(text, "fruit", 1), Mistake(0, "fruit", "colour", 0.5, 0))
    assert whole.words == text.split()
    assert whole.pooling is not None
    torch.testing.assert_close(whole.pooling.sum(0), torch.ones(whole.pooling.shape[1]))


def test_error_analysis_without_pooling_weights_names_words_inside_blocks(folder):
    settings = {**QUICK, "model.pooling": "mean", "training.max_steps": 1}  # and a hidden layer: no contributions either
    model = mtsa.train(train=documents(12), out=folder / "mean", settings=settings, **ENCODER)
    text = document(4, 100)[0]
    assert [one.of_blocks for one in model.explain(text)] == [True, False, False, False]
    maps = model.explain_mistake(Example(text, "fruit", 1), Mistake(0, "fruit", "colour", 0.5, 0))
    assert len(maps) == 3
    assert {word for one in maps for word in one.words} <= set(text.split())


def test_explain_logs_that_the_text_is_truncated(predictor, tmp_path):
    folder, text = str(predictor.run.folder), "apple pear . " * 6000
    for words, said in ((text, "1 text truncated to 16,384 words"), ("apple pear .", "")):
        done = CliRunner().invoke(app, ["explain", folder, words, "--out", str(tmp_path / "maps.html")])
        assert done.exit_code == 0
        assert said == done.stderr.strip()


def test_levels_are_explained_from_the_top(folder):
    settings = {**QUICK, "encoder.block": 4, "encoder.levels": 2, "training.max_steps": 1}
    model = mtsa.train(train=documents(12), out=folder / "levels", settings=settings, **ENCODER)
    maps = model.explain(document(4, 100)[0])
    assert "blocks of the text" in maps[0].part
    assert [len(one.words) <= 4 for one in maps[1:]] == [True] * (len(maps) - 1)
    assert len(maps) == 1 + 1 + 3


@pytest.mark.slow
@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_an_exported_graph_equals_the_model_at_other_lengths(predictor, tmp_path, form):
    parts = predictor.export_spec()
    target = TARGETS[form]
    target.save(trace(parts), tmp_path / target.file, parts.probability_model.inputs, parts.outputs)
    rows = compare_by_length(parts, open_graph(tmp_path, form), predictor.tokenizer.get_vocab_size())
    assert all(row["apart"] < 1e-5 for row in rows)


def test_large_batches_are_computed_in_parts_with_the_same_gradient(folder):
    settings = [*(f"{key}={json.dumps(value)}" for key, value in QUICK.items()), "model.dropout=0.0"]
    recipe = build_recipe(None, data={"train": "unused"}, settings=settings, sized=False, **ENCODER)
    prepared = prepare(recipe, read_split(recipe, {"train": documents(30)}))
    found = []
    for limit in (100_000, 600):
        chosen = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, batch_tokens=limit))
        model = prepared.model()
        parts = prepared.parts
        loop = TrainingLoop(model, chosen, get_task("classification"), parts["train"], parts["dev"],
                            known=prepared.inputs.known, folder=folder)  # fmt: skip
        batch = list(range(10))
        found.append((len(loop._shares(batch)), loop._step([batch]), [one.detach().clone() for one in model.parameters()]))
    assert found[0][0] == 1 < found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-5)
    for one, other in zip(found[0][2], found[1][2], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_the_server_explains_documents(predictor):
    with TestClient(build_app({"a": ServedModel("a", predictor)}, Limits()), base_url="http://localhost") as client:
        text = document(5, 4000)[0]
        (found,) = client.post("/api/predict", json={"inputs": [{"text": text}]}).json()["predictions"]
        assert found["label"] in ("fruit", "colour")
        response = client.post("/api/explain", json={"input": {"text": text}})
        assert response.status_code == 200
        assert len(response.content) < 2_000_000
        assert response.json()["sentences"][0]["part"].startswith("the 48 of")


def test_pairs_and_tags(folder):
    rows = [{"text": document(n, 50)[0], "pair": document(n + 1, 90)[0], "label": "ab"[n % 2]} for n in range(20)]
    quick = {**QUICK, "training.max_steps": 1}
    pairs = mtsa.train(task="pair", train=rows, out=folder / "pairs", settings=quick, **ENCODER)
    assert len(pairs.explain(ModelInput(rows[0]["text"], rows[0]["pair"]))) == 8
    tagged = [{"words": document(n, 60)[0].split(), "tags": ["O"] * 69 + ["B-X"]} for n in range(12)]
    settings = {key: value for key, value in quick.items() if key != "model.hidden"} | {"training.refit": False}
    tagger = mtsa.train(task="tagging", train=tagged, out=folder / "tags", settings=settings, **ENCODER)
    (found,) = tagger.predict([document(3, 1000)[0].split()])
    assert len(found.tags) == len(found.words) > 1000
    assert len(tagger.explain(document(3, 100)[0])) == 4


def test_a_frozen_pretrained_model_reads_windows(windowed):
    assert windowed.recipe.pretrained.window == 64
    assert windowed.recipe.tokens.max_length == DOCUMENT_LENGTH
    long, other = document(1, 700)[0], document(1, 690)[0] + " red" * 10
    a, b = windowed.predict([long, other])
    assert a.probabilities != b.probabilities
    short = document(1, 12)[0]
    (alone,), (beside, _) = windowed.predict([short]), windowed.predict([short, long])
    assert beside.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
    assert len(windowed.explain(long)) == 4


def test_a_pretrained_model_is_trained_through_its_windows(folder):
    bert = write_bert(folder / "bert2")
    settings = {"training.max_steps": 2, "encoder.head_dim": 4, "encoder.heads": 2, "training.warmup_steps": 0}
    model = mtsa.train(train=documents(12), pretrained=bert, out=folder / "tuned", settings=settings, **ENCODER)
    before = mtsa.models.pretrained.AutoModel.from_pretrained(bert)
    after = model.model.words.model.state_dict()
    changed = [name for name, value in before.state_dict().items() if name in after and not torch.equal(value, after[name])]
    assert any("layer.0" in name for name in changed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pretrained.window": 100}, "supports at most 64 tokens; add --set pretrained.window=64"),
        ({"pretrained.window": 5}, "must be 0 .no windows. or at least 16"),
        ({"pretrained.window": 0, "tokens.max_length": 1000}, "set pretrained.window=64"),
    ],
)
def test_invalid_windows(folder, tmp_path, settings, message):
    bert = write_bert(tmp_path / "bert")
    with pytest.raises(InputError, match=message):
        mtsa.train(train=documents(12), pretrained=bert, out=tmp_path / "out", settings=settings, **ENCODER)


def test_default_settings_of_windows():
    facts = PretrainedFacts(max_length=512, joins_pairs=True)
    for frozen in (False, True):
        plain = pretrained_settings(1000, facts, frozen=frozen, paired=True)
        windows = pretrained_settings(1000, facts, frozen=frozen, paired=True, windows=True)
        assert "window" not in plain.get("pretrained", {})
        assert windows["pretrained"]["window"] == 256
        assert (plain["model"]["pair_encoding"], windows["model"]["pair_encoding"]) == ("joint", "separate")
