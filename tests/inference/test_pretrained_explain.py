"""What is shown of models over a pretrained encoder: words in place of word pieces, contributions, pairs as one sequence."""

import dataclasses
import json

import pytest
import torch
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.data import word_pieces
from mtsa.data.tokenization import Tokenizer, word_tokenizer
from mtsa.errors import InputError
from mtsa.inference.attention_maps import AttentionMaps, LayerMaps, merge_words
from mtsa.inference.attention_weights import maps_to_json, strongest_words
from mtsa.inference.heat_maps import draw_heat_maps
from mtsa.tasks.predictor import ModelInput
from tests.sample_data import sentences, write_csv
from tests.trained_models import attention_maps

TEXT = "The Redder apples"
PIECES = ["[CLS]", "the", "red", "##d", "##er", "apple", "##s", "[SEP]"]
WORDS = ["[CLS]", "The", "Redder", "apples", "[SEP]"]
WORD_OF = [0, 1, 2, 2, 2, 3, 3, 4]


def made():
    """Three words of one, two and one pieces; two heads, the second of which has a row without weights."""
    first = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.2, 0.2, 0.2, 0.4], [0.25, 0.25, 0.25, 0.25]]
    second = [[0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    source = torch.tensor([[[0.1, 0.4], [0.2, 0.3], [0.3, 0.2], [0.4, 0.1]]] * 2)
    layer = LayerMaps(["full", "full"], torch.tensor([first, second]), source)
    gains = torch.tensor([1.0, -2.0, 0.5, 3.0])
    return AttentionMaps(["a", "b", "##c", "d"], [layer], source[0], "x (0.90)", contributions=gains, bias=0.25)


def test_pieces_are_merged_as_by_hand():
    found = merge_words(made(), ["A", "BC", "D"], [0, 1, 1, 2])
    (layer,) = found.layers
    first = torch.tensor([[0.1, 0.5, 0.4], [0.35, 0.3, 0.35], [0.25, 0.5, 0.25]])
    second = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])  # the piece that attends to nothing is left out
    torch.testing.assert_close(layer.token2token, torch.stack([first, second]))
    torch.testing.assert_close(layer.source2token[0], torch.tensor([[0.1, 0.4], [0.5, 0.5], [0.4, 0.1]]))
    torch.testing.assert_close(found.pooling, torch.tensor([[0.1, 0.4], [0.5, 0.5], [0.4, 0.1]]))
    torch.testing.assert_close(found.contributions, torch.tensor([1.0, -1.5, 3.0]))
    assert (found.words, found.bias, found.prediction) == (["A", "BC", "D"], 0.25, "x (0.90)")
    assert [word for _, word in strongest_words(found, 2)] == ["D", "BC"]


def test_weights_of_a_feature_are_merged_after_the_product():
    merged = merge_words(made(), ["A", "BC", "D"], [0, 1, 1, 2]).layers[0]
    row = torch.tensor([0.1 * 0.4, 0.2 * 0.3, 0.3 * 0.2, 0.4 * 0.1])  # of the first word and the second feature
    row = row / row.sum()
    torch.testing.assert_close(merged.pairs(1)[0, 0], torch.stack([row[0], row[1] + row[2], row[3]]))
    torch.testing.assert_close(merged.pairs(1)[0].sum(-1), torch.ones(3))
    from_words = merged.token2token[0] * merged.source2token[0, :, 1]
    assert not torch.allclose(merged.pairs(1)[0], from_words / from_words.sum(-1, keepdim=True), atol=1e-3)


def test_words_of_one_piece_are_left_alone():
    given = made()
    found = merge_words(given, ["A", "B", "C", "D"], [0, 1, 2, 3])
    assert found.layers[0] is given.layers[0]
    assert found.pooling is given.pooling
    assert found.words == ["A", "B", "C", "D"]
    assert "pieces" not in maps_to_json(found, features=True)["layers"][0]


def test_the_words_of_a_tokenizer_of_words_are_its_tokens():
    text = "Don't ask U.S. voters \u201cwhy\u201d: 1,000.50 a-b"
    encoding = word_tokenizer(["ask"]).encode(text)
    words, word_of = word_pieces.group_pieces(encoding, [text], range(len(encoding.ids)))
    assert word_of == list(range(len(encoding.ids)))
    assert words == [text[start:stop] for start, stop in encoding.offsets]


def test_a_tokenizer_that_splits_nothing_beforehand_is_split_at_spaces():
    from tokenizers import models, pre_tokenizers

    vocabulary = {"\u2581the": 0, "\u2581red": 1, "der": 2, "\u2581pear": 3}
    scores = [(piece, -1.0) for piece in vocabulary]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    encoding = tokenizer.encode("the redder pear")
    assert encoding.tokens == ["\u2581the", "\u2581red", "der", "\u2581pear"]
    assert len(set(encoding.word_ids)) == 1
    words, word_of = word_pieces.group_pieces(encoding, ["the redder pear"], range(4))
    assert (words, word_of) == (["the", "redder", "pear"], [0, 1, 1, 2])


def tokens_of(predictor, *texts):
    """The weights of the tokens of a text, or of a pair, without any merging."""
    model = predictor.model
    encoded = predictor.encode([texts if len(texts) == 2 else texts[0]]).inputs([0])
    keep = encoded["attention_mask"].bool()
    with torch.no_grad():
        vectors = model.words(encoded["input_ids"], keep, encoded.get("token_type_ids"))
        return model.encoder(vectors, keep)[0], vectors, model(**encoded).logits[0]


def test_attention_is_merged_into_words(bert_runs):
    predictor = bert_runs["attended"]
    (found,) = predictor.explain(TEXT)
    assert predictor.tokenizer.encode(TEXT).tokens == PIECES
    assert found.words == WORDS
    (layer,) = found.layers
    _, vectors, _ = tokens_of(predictor, TEXT)
    with torch.no_grad():
        exact = predictor.model.encoder.attention.explain(vectors, torch.ones(1, 8, dtype=torch.bool))
    torch.testing.assert_close(layer.pieces.token2token, exact.token2token[0])
    assert layer.pieces.word_of.tolist() == WORD_OF
    for head, weights in enumerate(layer.token2token):
        by_hand = [[sum(exact.token2token[0, head, query, key] for key in range(8) if WORD_OF[key] == word)
                    for word in range(5)] for query in range(8)]  # fmt: skip
        rows = torch.tensor(by_hand)
        torch.testing.assert_close(weights[2], rows[2:5].mean(0))
        torch.testing.assert_close(weights[3], rows[5:7].mean(0))
        torch.testing.assert_close(weights[1], rows[1])
        empty = 0 if layer.heads[head] == "forward" else 4
        wanted = torch.ones(5).index_fill_(0, torch.tensor(empty), 0.0)
        torch.testing.assert_close(weights.sum(-1), wanted)
    torch.testing.assert_close(layer.source2token.sum(1), torch.ones(2, layer.source2token.shape[-1]))
    torch.testing.assert_close(layer.pairs(3).sum(-1), layer.token2token.sum(-1))


@pytest.mark.parametrize("name", ["texts", "attended", "pairs", "attended_pairs", "numbers"])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_contributions_sum_to_the_output(bert_runs, name, temperature, monkeypatch):
    predictor = bert_runs[name]
    monkeypatch.setattr(predictor.model.config, "softmax_temperature", temperature)
    texts = (TEXT, "A bluish plum") if predictor.paired else (TEXT,)
    (found,) = predictor.explain(ModelInput(*texts))
    hidden, _, logits = tokens_of(predictor, *texts)
    weight, bias = (part.detach() for part in predictor.model.head.classes.linear.parameters())
    if predictor.paired:
        count = len(PIECES)  # of the first text, with [CLS] and [SEP]
        first, second = hidden[:count].mean(0), hidden[count:].mean(0)
        raw = torch.cat([first, second, first - second, first * second]) @ weight.T + bias
    else:
        raw = hidden.mean(0) @ weight.T + bias
    if name == "numbers":
        mean, deviation = predictor.model.config.target
        output, rest, scale = raw[0] * deviation + mean, bias[0] * deviation + mean, deviation
        best = 0
    else:
        best = int(raw.argmax())
        assert found.prediction.startswith(predictor.labels[best])
        output, rest, scale = raw[best] / temperature, bias[best] / temperature, 1 / temperature
    assert found.bias == pytest.approx(float(rest), abs=1e-6)
    assert float(found.contributions.sum()) == pytest.approx(float(output - rest), abs=1e-5)
    if name == "numbers":
        assert float(logits[0]) == pytest.approx(float(output), abs=1e-5)
    else:
        assert float(logits[best]) == pytest.approx(float(output), abs=1e-5)
    if predictor.paired:  # the product is shared equally by both texts
        plain, other, gap, product = weight[best].chunk(4)
        start = float(hidden[0] @ (plain + gap + product * second / 2)) / count * scale
        end = float(hidden[-1] @ (other - gap + product * first / 2)) / (len(hidden) - count) * scale
        assert float(found.contributions[-1]) == pytest.approx(end, abs=1e-6)
    else:
        start = float(hidden[0] @ weight[best]) / len(hidden) * scale  # [CLS] is a word of its own
    assert float(found.contributions[0]) == pytest.approx(start, abs=1e-6)
    assert len(found.contributions) == len(found.words) < len(hidden)
    assert len(found.layers) == name.startswith("attended")


def test_without_a_temperature_the_output_is_the_logit(bert_runs):
    for name in ("texts", "attended"):
        (found,) = bert_runs[name].explain(TEXT)
        _, _, logits = tokens_of(bert_runs[name], TEXT)
        assert float(found.contributions.sum()) + found.bias == pytest.approx(float(logits.max()), abs=1e-5)


def test_source2token_pooling_is_shown_alone(bert_runs):
    predictor = bert_runs["pooled"]
    (found,) = predictor.explain(TEXT)
    assert (found.layers, found.contributions, found.words) == ([], None, WORDS)
    _, vectors, _ = tokens_of(predictor, TEXT)
    exact = predictor.model.pool.weights(vectors)[0].detach()
    torch.testing.assert_close(found.pooling[2], exact[2:5].sum(0))
    torch.testing.assert_close(found.pooling.sum(0), torch.ones(exact.shape[1]))
    told = maps_to_json(found)
    assert told["layers"] == []
    assert "contributions" not in told


def test_a_pair_is_one_map_with_its_separator(bert_runs):
    (found,) = bert_runs["attended_pairs"].explain(ModelInput(TEXT, "A bluish plum"))
    assert found.words == [*WORDS, "A", "bluish", "plum", "[SEP]"]
    assert found.layers[0].token2token.shape[1:] == (9, 9)
    both = bert_runs["separate"].explain(ModelInput(TEXT, "A bluish plum"))
    assert [one.words for one in both] == [WORDS, ["[CLS]", "A", "bluish", "plum", "[SEP]"]]
    assert [one.contributions for one in both] == [None, None]  # the head compares two vectors
    (cut,) = bert_runs["pairs"].explain(ModelInput("red " * 90, "a plum"))
    assert len(cut.words) == 64
    assert cut.words[-4:] == ["[SEP]", "a", "plum", "[SEP]"]


def test_texts_without_words(bert_runs):
    with pytest.raises(InputError, match="no words"):
        bert_runs["texts"].explain("  ")
    with pytest.raises(InputError, match="no words"):
        bert_runs["pairs"].explain(ModelInput(" ", ""))


def test_other_models(tmp_path):
    data = write_csv(tmp_path / "a.csv", sentences(60))
    quick = {"training.epochs": 1, "training.refit": False, "vectors.dim": 6, "encoder.width": 5}
    hidden = {"model.pooling": "max"}
    predictor = mtsa.train(train=data, encoder="bilstm", out=tmp_path / "max", settings={**quick, **hidden})
    with pytest.raises(InputError, match="no attention weights to explain") as caught:
        predictor.explain("a red apple")
    assert "\n" not in str(caught.value)
    linear = {"model.pooling": "mean", "model.hidden": 0}
    predictor = mtsa.train(train=data, encoder="bilstm", out=tmp_path / "mean", settings={**quick, **linear})
    (found,) = predictor.explain("a red apple")
    assert found.words == ["a", "red", "apple"]
    (prediction,) = predictor.predict(["a red apple"])
    logits = torch.tensor(sorted(prediction.probabilities.values(), reverse=True)).log()
    data = predictor.encode(["a red apple"]).predict(predictor.model)[0]
    assert float(found.contributions.sum()) + found.bias == pytest.approx(float(data.max()), abs=1e-5)
    assert float(logits[0] - logits[1]) == pytest.approx(float(data.max() - data.min()), abs=1e-4)


def test_models_of_words_are_shown_as_before(runs):
    (found,) = attention_maps(runs["classification"], "the Old red dog")
    told = maps_to_json(found, features=True)
    assert list(told) == ["words", "prediction", "layers", "pooling"]
    assert list(told["layers"][0]) == ["heads", "token2token", "source2token"]
    assert told["words"] == ["the", "Old", "red", "dog"]


def call(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def test_the_command(bert_runs, tmp_path):
    places = {name: predictor.run.folder for name, predictor in bert_runs.items()}
    done = call(places["texts"], TEXT, "--out", tmp_path / "a.png")
    assert done.exit_code == 0, done.output
    (found,) = bert_runs["texts"].explain(TEXT)
    line = next(line for line in done.output.splitlines() if line.startswith("[CLS] "))
    values = [float(part.rsplit(" ", 1)[1]) for part in line.split("  ")]
    assert values == pytest.approx(found.contributions.tolist(), abs=6e-4)
    assert [part.rsplit(" ", 1)[0] for part in line.split("  ")] == WORDS
    done = call(places["pooled"], TEXT, "--out", tmp_path / "b.svg", "--top", 2)
    assert done.output.count("\n") == 5
    done = call(places["attended_pairs"], TEXT, "--pair", "a plum", "--out", tmp_path / "c.png", "--top", 2)
    assert done.exit_code == 0, done.output
    assert "text 1:" not in done.output
    assert done.output.count(" -> ") == 2
    assert "contributions" in done.output
    told = json.loads(call(places["attended_pairs"], TEXT, "--pair", "a plum", "--json", "--features").output)["sentences"]
    assert len(told) == 1
    assert sum(told[0]["contributions"]) + told[0]["bias"] == pytest.approx(
        float(tokens_of(bert_runs["attended_pairs"], TEXT, "a plum")[2].max()), abs=1e-5
    )
    assert told[0]["layers"][0]["pieces"]["word"] == [*WORD_OF, 5, 6, 7]
    for arguments, message in (
        (("--layer", 1), "layer 1 does not exist; the model has 0"),
        (("--feature", 1), "feature 1 does not exist; the model has no attention layer"),
    ):
        done = call(places["texts"], TEXT, *arguments, "--out", tmp_path / "d.png")
        assert done.exit_code == 2
        assert message in done.output


def test_random_pairs_of_a_file(bert_runs, tmp_path):
    rows = [{"text": f"the red apple {place}", "pair": "a blue plum", "label": "same"} for place in range(9)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call(bert_runs["pairs"].run.folder, "--sample", 3, "--data", tmp_path / "a.jsonl", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["sentences"]
    assert len(told) == 3
    assert all(one["words"][-4:] == ["a", "blue", "plum", "[SEP]"] for one in told)


def test_bars_have_the_signs_and_values_of_the_contributions(monkeypatch, tmp_path):
    from matplotlib import colors, pyplot

    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    one = dataclasses.replace(made(), layers=[], pooling=None)
    draw_heat_maps([one], tmp_path / "a.png")
    (axes,) = pyplot.gcf().subfigs[0].axes
    assert [bar.get_height() for bar in axes.patches] == [1.0, -2.0, 0.5, 3.0]
    shades = [colors.to_hex(bar.get_facecolor()) for bar in axes.patches]
    assert shades == [colors.to_hex("tab:blue" if value > 0 else "tab:red") for value in (1, -2, 0.5, 3)]
    assert [label.get_text() for label in axes.get_xticklabels()] == one.words
    assert {label.get_text() for label in axes.texts} == {"+1.00", "-2.00", "+0.50", "+3.00"}
    assert "output +2.75" in axes.get_title()
    monkeypatch.undo()
    pyplot.close("all")
