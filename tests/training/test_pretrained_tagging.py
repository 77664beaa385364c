"""Taggers over a pretrained encoder, from file to answer: alignment, windows, settings, and runs that are resumed."""

import json
import random

import pytest
import torch

import mtsa
from mtsa.data.frames import Span
from mtsa.errors import InputError
from mtsa.models.tagger import IGNORED
from mtsa.training.launch import build_recipe
from mtsa.training.loop import TrainingLoop
from mtsa.training.optimizer import make_optimizer
from mtsa.training.prepare import prepare
from mtsa.training.split import read_split
from tests.sample_data import tagged
from tests.tiny_bert import WIDTH, write_bert
from tests.trained_models import CLAUSES

LONG = ["Ada", "saw", "Rome", "City", "and", "the", "old", "Oslo"] * 20


@pytest.fixture
def runs(bert_taggers):
    return bert_taggers


@pytest.fixture
def folder(bert_taggers):
    """Where the small BERT and the tagged sentences are."""
    return bert_taggers["tags"].run.folder.parent


def test_a_tagger_learns(runs, tmp_path):
    model = runs["tags"]
    metrics = json.loads((model.run.folder / "metrics.json").read_text())
    assert metrics["dev"]["f1"] > 0.8
    (answer,) = model.predict(["Bob saw Rome."])
    assert answer.words == ("Bob", "saw", "Rome", ".")
    assert answer.tags == ("B-PER", "O", "B-LOC", "O")
    again = mtsa.load(model.run.folder)
    assert again.predict(["Bob saw Rome."]) == [answer]
    data = tagged(tmp_path / "other.conll", 30, seed=9)
    scores = [one.evaluate(data).as_json() for one in (model, again)]
    assert scores[0] == scores[1]
    assert scores[0]["f1"] > 0.8
    card = (model.run.folder / "README.md").read_text()
    assert "more than 64 word pieces are read in overlapping windows" in card


@pytest.mark.parametrize("name", ["tags", "attended", "stacked"])
def test_batches_and_padding_change_nothing(runs, name):
    model = runs[name]
    rng = random.Random(2)
    sentences = [LONG, *([rng.choice(LONG) for _ in range(rng.randint(0, 12))] for _ in range(12)), ["\u200d"], LONG[:70]]
    together = model.predict(sentences)
    assert [len(one.tags) for one in together] == [len(words) for words in sentences]
    assert together == [model.predict([words])[0] for words in sentences]
    encoded = model.encode(sentences)
    assert max(encoded.lengths) > 3 * model.model.config.max_pieces
    with torch.no_grad():
        batch = encoded.batch(range(len(sentences)))
        logits = model.model(**batch).logits
        padded = {key: torch.nn.functional.pad(value, (0, 7)) for key, value in batch.items()}
        padded["input_ids"][padded["attention_mask"] == 0] = 5
        wider = model.model(**padded).logits
        for number, words in enumerate(sentences):
            alone = model.model(**encoded.batch([number])).logits[0, : len(words)]
            torch.testing.assert_close(logits[number, : len(words)], alone, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(wider[number, : len(words)], alone, rtol=1e-4, atol=1e-5)


def test_the_vector_of_a_word_is_that_of_its_first_piece(runs):
    model = runs["tags"].model
    encoded = runs["tags"].encode([["Ada", "Smith"]])
    batch = encoded.batch([0])
    hidden = model.words.model(input_ids=batch["input_ids"]).last_hidden_state[0]
    names = [runs["tags"].tokenizer.id_to_token(number) for number in encoded.rows[0]]
    assert names == ["[CLS]", "a", "##d", "##a", "s", "##m", "##i", "##t", "##h", "[SEP]"]
    shapes = model.shapes(torch.tensor([7, 7]))
    by_hand = model.tags(torch.cat([hidden[[1, 4]], shapes], -1)) / model.config.softmax_temperature
    torch.testing.assert_close(model(**batch).logits[0], by_hand, rtol=1e-4, atol=1e-5)
    lower = runs["tags"].encode([["ada", "smith"]]).batch([0])
    assert torch.equal(lower["input_ids"], batch["input_ids"])
    assert not torch.allclose(model(**lower).logits, model(**batch).logits, atol=1e-3)  # another shape


def test_roles_depend_on_the_predicate(runs):
    model = runs["roles"]
    words = ["red", "apples", "and", "blue", "plums", "are", "old"]
    encoded = model.encode([words])
    batch = encoded.batch([0])
    logits = [model.model(**batch, predicates=torch.eye(7, dtype=torch.long)[[place]]).logits for place in (1, 4)]
    assert (logits[0] - logits[1]).abs().max() > 1e-3
    scores = [model.model(**batch, predicates=torch.eye(7, dtype=torch.long)[[place]]).predicate_logits for place in (1, 4)]
    assert torch.equal(*scores)  # the finder does not see the predicate
    (answer,) = model.predict([CLAUSES])
    assert answer.frames
    for frame in answer.frames:
        assert Span(frame.predicate, frame.predicate, "V") in frame.spans
    metrics = json.loads((model.run.folder / "metrics.json").read_text())
    assert {"f1", "predicates"} <= metrics["dev"].keys()
    assert model.predict([" ".join(LONG)])[0].words == tuple(LONG)


def test_rows_of_long_sentences_are_not_cut(tmp_path):
    bert = write_bert(tmp_path / "short", positions=12)
    path = tmp_path / "long.jsonl"
    roles = {"words": LONG, "frames": [{"predicate": 100, "lemma": "x", "roles": [["V", 100, 100]]}]}
    path.write_text((json.dumps(roles) + "\n") * 4)
    recipe = build_recipe(None, task="srl", data={"train": str(path), "dev": str(path)}, pretrained=str(bert))
    assert recipe.tokens.max_length == 12
    prepared = prepare(recipe, read_split(recipe))
    batch = prepared.parts["train"].collate([0, 1])
    assert batch["labels"].shape == batch["predicates"].shape == batch["predicate_labels"].shape == (2, len(LONG))
    assert batch["predicates"].nonzero().tolist() == [[0, 100], [1, 100]]
    assert (batch["labels"] != IGNORED).all()
    assert not [remark for remark in prepared.remarks if "truncated" in remark]
    loss = prepared.model()(**batch).loss
    loss.backward()
    assert loss.isfinite()


def test_settings_follow_from_the_pretrained_model(folder, runs):
    data = {"train": str(folder / "tags.conll")}
    recipe = build_recipe(None, task="tagging", data=data, pretrained=str(folder / "bert"))
    assert recipe.tokens.max_length == 64
    assert recipe.training.schedule == "linear"
    assert recipe.training.warmup_steps > 0
    model = prepare(recipe, read_split(recipe)).model()
    assert model.encoder.out_dim == WIDTH + recipe.model.shape_dim
    optimizer = make_optimizer(model, recipe)
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    head, below = (rates[id(one)] for one in (model.tags.linear.weight, next(model.words.parameters())))
    assert (head, below) == (recipe.training.learning_rate, recipe.training.learning_rate * recipe.pretrained.lr_multiplier)
    roles = build_recipe(None, task="srl", data={"train": "corpus:roles"}, pretrained=str(folder / "bert"))
    assert roles.encoder["name"] == "stacked_mtsa"
    assert roles.training.warmup_steps > 2 * recipe.training.warmup_steps  # as many sentences, more predicates
    named = build_recipe(None, task="tagging", data=data, pretrained=str(folder / "bert"), encoder="residual_mtsa")
    assert named.encoder["name"] == "residual_mtsa"


WRONG = {
    "frozen": ({"pretrained.frozen": True}, "pretrained.frozen is not used by task tagging"),
    "lm_weight": ({"pretrained.lm_weight": 0.3}, "pretrained.lm_weight is not used by task tagging"),
    "too long": ({"tokens.max_length": 65}, "supports at most 64 tokens; add --set tokens.max_length=64"),
    "too short": ({"tokens.max_length": 2}, "set it to at least 3"),
    "shape_dim": ({"model.shape_dim": -1}, "model.shape_dim is -1; it must be at least 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_refused(runs, folder, case, tmp_path):
    settings, message = WRONG[case]
    with pytest.raises(InputError, match=message) as caught:
        mtsa.train(
            task="tagging", train=folder / "tags.conll", pretrained=folder / "bert", out=tmp_path / "run", settings=settings
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pretrained", [False, True])
def test_roles_need_an_encoder_with_context(folder, pretrained):
    given = {"pretrained": str(folder / "bert")} if pretrained else {}
    with pytest.raises(InputError, match="do not depend on the predicate; use an encoder with context"):
        build_recipe(None, task="srl", data={"train": "corpus:roles"}, encoder="embedding", **given)


@pytest.mark.parametrize("model_type", ["bert", "canine", "ctrl"])  # no file, another kind of tokenizer, a missing vocabulary
def test_a_model_without_a_fast_tokenizer_is_refused(runs, folder, tmp_path, model_type):
    slow = write_bert(tmp_path / "slow")
    for path in slow.glob("*token*"):
        path.unlink()
    config = json.loads((slow / "config.json").read_text())
    (slow / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
    with pytest.raises(InputError, match=r"slow.*tokenizer") as caught:
        mtsa.train(task="tagging", train=folder / "tags.conll", pretrained=slow, out=tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_an_interrupted_run_resumes_to_the_same_result(runs, folder, tmp_path, monkeypatch):
    def train(out):
        settings = {"training.max_steps": 6, "training.eval_steps": 2, "training.batch_tokens": 200, "model.dropout": 0.1}
        return mtsa.train(
            task="tagging",
            train=folder / "tags.conll",
            pretrained=folder / "bert",
            encoder="residual_mtsa",
            out=out,
            settings=settings,
        )

    whole = train(tmp_path / "whole")
    steps = []
    original = TrainingLoop._step

    def stop(self, batches):
        if len(steps) == 4:
            raise KeyboardInterrupt
        steps.append(batches)
        return original(self, batches)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "_step", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "stopped")
    resumed = train(tmp_path / "stopped")
    for one, other in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_transformers_reads_a_run(runs):
    from transformers import AutoModelForTokenClassification

    import mtsa.hub  # noqa: F401

    model = runs["attended"]
    loaded = AutoModelForTokenClassification.from_pretrained(model.run.folder).eval()
    batch = model.encode([["Ada", "saw", "Rome"]]).batch([0])
    torch.testing.assert_close(loaded(**batch).logits, model.model(**batch).logits)
    assert loaded(batch["input_ids"]).logits.shape[:2] == batch["input_ids"].shape  # without words, every token is one


def test_explanations_show_words(runs):
    (maps,) = runs["attended"].explain("Ada saw Rome.")
    assert maps.words == ["Ada", "saw", "Rome", "."]
    assert maps.layers[0].token2token.shape[1:] == (4, 4)
    (roles,) = runs["roles"].explain("red apples and plums")
    assert roles.words == ["red", "apples", "and", "plums"]
    with pytest.raises(InputError, match="no attention weights to explain; train a model with the encoder residual_mtsa"):
        runs["tags"].explain("Ada saw Rome.")
