"""Attention maps: weights of the definition for every task, drawn, listed and as numbers."""

import contextlib
import copy
import json
from xml.etree import ElementTree

import pytest
import torch
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.inference.attention_maps import AttentionMaps, LayerMaps, record_attention
from mtsa.inference.attention_page import write_page
from mtsa.inference.attention_weights import maps_to_json, strongest_pairs
from mtsa.inference.heat_maps import draw_heat_maps, shown_heads
from mtsa.inference.sentence_sampling import sample_sentences
from mtsa.models.patched_attention import PatchedAttention
from tests import oracle
from tests.nn.layers import weights_by_definition
from tests.trained_models import attention_maps


@contextlib.contextmanager
def recorded_inputs(model):
    """The first input of every attention and pooling layer, by layer, in the order of the calls."""
    calls = {}

    def note(module, arguments, options):
        given = [one for one in (*arguments, *options.values()) if isinstance(one, torch.Tensor)]
        calls.setdefault(module, []).append(given[0].detach().double())

    watched = (mtsa.MultiMaskAttention, mtsa.Source2Token, PatchedAttention)
    handles = [part.register_forward_pre_hook(note, with_kwargs=True) for part in model.modules() if isinstance(part, watched)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def attention_by_definition(module, x, heads):
    """token2token and source2token weights in float64, by the oracle; the projections are those of the layer."""
    module = copy.deepcopy(module).double()
    if isinstance(module, PatchedAttention):
        q, k, v = module.project(x)
        s, activation = module.source(k, v), module.options.score_activation
    else:
        q, k, _, s = module.project(x)
        activation = module.score_activation
    rules = [{"forward": oracle.FORWARD, "backward": oracle.BACKWARD}[head] for head in heads]
    return weights_by_definition(q, k, s, rules, None, activation)[:2]


@pytest.mark.parametrize("task", ["classification", "pair", "tagging", "srl", "translation"])
def test_weights_are_those_of_the_definition(runs, task):
    predictor = runs[task]
    texts = ("the old red dog", "a small pear is there") if task == "pair" else ("the old red dog",)
    with recorded_inputs(predictor.model) as calls, torch.no_grad():
        maps = attention_maps(predictor, *texts)
    assert len(maps) == len(texts)
    for found, text in zip(maps, texts, strict=True):
        count = len(found.words)
        assert count == len(text.split()) or task == "translation"  # which has subwords
        assert len(found.layers) == (2 if task == "tagging" else 1)
        attention = [part for part in calls if not isinstance(part, mtsa.Source2Token)]
        assert len(attention) == len(found.layers)
        for layer, module in zip(found.layers, attention, strict=True):
            x = next(one for one in calls[module] if one.shape[1] == count)
            token2token, source2token = attention_by_definition(module, x, layer.heads)
            assert set(layer.heads) == {"forward", "backward"}
            torch.testing.assert_close(layer.token2token.double(), token2token[0], rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(layer.source2token.double(), source2token[0], rtol=1e-4, atol=1e-6)
        if task in ("classification", "pair"):
            (pool,) = (part for part in calls if isinstance(part, mtsa.Source2Token))
            x = next(one for one in calls[pool] if one.shape[1] == count)
            pool = copy.deepcopy(pool).double()
            expected = torch.softmax(pool.score(torch.relu(pool.hidden(x))), 1)[0]
            torch.testing.assert_close(found.pooling.double(), expected, rtol=1e-4, atol=1e-6)
        else:
            assert found.pooling is None


def test_a_text_without_words_is_refused(runs):
    for task in ("classification", "tagging", "srl", "translation"):
        with pytest.raises(InputError, match="no words"):
            attention_maps(runs[task], "  ")


def test_no_hook_is_left_on_the_model(runs):
    predictor = runs["classification"]
    before = predictor.predict(["the old red dog"])[0].probabilities
    attention_maps(predictor, "the old red dog")
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in predictor.model.modules())
    assert predictor.predict(["the old red dog"])[0].probabilities == before


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("task", ["classification", "tagging", "srl", "translation"])
def test_pictures(runs, task, ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    draw_heat_maps(attention_maps(runs[task], "the $old_1$ red dog \u65e5\u672c\U0001f642"), path)
    if ending == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
    with pytest.raises(InputError, match="file extension must be"):
        draw_heat_maps(attention_maps(runs[task], "a b"), tmp_path / "a.pdf")
    with pytest.raises(InputError, match="layer 9 does not exist"):
        draw_heat_maps(attention_maps(runs[task], "a b"), path, layer=8)


def test_a_picture_shows_rows_that_look_and_columns_that_are_looked_at(monkeypatch, tmp_path):
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    draw_heat_maps([made()], tmp_path / "a.png")
    figure = pyplot.gcf()
    images = [axes.images[0].get_array() for axes in figure.subfigs[0].axes if axes.images]
    forward, backward, source = (torch.tensor(image.filled(0)) for image in images)
    assert images[0].mask.tolist() == (made().layers[0].token2token[0] == 0).tolist()  # gray
    torch.testing.assert_close(forward, (made().layers[0].token2token[0] * torch.tensor([[0], [1], [2]])).double())
    torch.testing.assert_close(backward, (made().layers[0].token2token[1] * torch.tensor([[2], [1], [0]])).double())
    torch.testing.assert_close(source, torch.ones(3, 2).double())
    monkeypatch.undo()
    pyplot.close("all")


def test_a_long_sentence_is_numbered_and_listed(monkeypatch, tmp_path):
    from matplotlib import pyplot

    words = [f"word{place}" for place in range(60)]
    weights = torch.full((1, 60, 60), 1 / 60)
    one = AttentionMaps(words, [LayerMaps(["full"], weights, torch.full((1, 60, 2), 1 / 60))], None, "x")
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    draw_heat_maps([one], tmp_path / "a.svg")
    figure = pyplot.gcf().subfigs[0]
    assert "60 word59" in figure.get_suptitle()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == [str(place) for place in range(5, 61, 5)]
    monkeypatch.undo()
    pyplot.close("all")


def test_layers_come_in_their_order(runs):
    predictor = runs["tagging"]
    found = attention_maps(predictor, "the old red dog")[0].layers
    last = [part for part in predictor.model.modules() if isinstance(part, mtsa.MultiMaskAttention)][-1]
    before = copy.deepcopy(last.state_dict())
    with torch.no_grad():
        for weight in last.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    changed = attention_maps(predictor, "the old red dog")[0].layers
    last.load_state_dict(before)
    assert torch.equal(changed[0].token2token, found[0].token2token)
    assert not torch.equal(changed[1].token2token, found[1].token2token)


def made(words=3):
    weights = torch.zeros(2, words, words)
    weights[0, 1, 0] = 1.0
    weights[0, 2, :2] = torch.tensor([0.9, 0.1])
    weights[1, 0, 1:] = torch.tensor([0.25, 0.75])
    weights[1, 1, 2] = 1.0
    source = torch.full((2, words, 4), 1 / words)
    return AttentionMaps(["a", "b", "c"], [LayerMaps(["forward", "backward"], weights, source)], None, "x")


def test_the_strongest_pairs():
    found = strongest_pairs(made(), 3)
    assert [(head, word, other) for _, head, word, other in found] == [
        ("head 1 (forward)", "c", "a"),
        ("head 2 (backward)", "a", "c"),
        ("head 2 (backward)", "a", "b"),
    ]
    assert [times for times, *_ in found] == pytest.approx([1.8, 1.5, 0.5])


def test_heads_of_every_kind_are_shown():
    assert shown_heads(["forward"] * 4 + ["backward"] * 4, 4) == [0, 1, 4, 5]
    assert shown_heads(["forward", "backward"], 4) == [0, 1]
    assert shown_heads(["full"] * 8, 3) == [0, 1, 2]


def test_the_page_stands_alone_and_holds_texts_as_data(tmp_path):
    sly = AttentionMaps(["</script><b>", "a", "\u2028"], made().layers, None, "<i>x</i>")
    write_page([sly], tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "</script><b>" not in text
    assert "<i>x</i>" not in text
    assert "http" not in text.split('id="data"')[0]
    assert " src=" not in text
    start = text.index('type="application/json">') + len('type="application/json">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert data["sentences"][0]["words"] == sly.words
    assert data["sentences"][0]["prediction"] == "<i>x</i>"


def test_weights_of_a_feature_follow_from_both_kinds(runs):
    """What the page computes: token2token times source2token, shared out anew, is the tensor of the definition."""
    predictor = runs["classification"]
    (found,) = attention_maps(predictor, "the old red dog")
    ids = torch.tensor([predictor.run.tokenizer.encode("the old red dog").ids])
    keep = torch.ones_like(ids, dtype=torch.bool)
    tensor = predictor.model.encoder.attention.explain(predictor.model.words(ids, keep), keep, full_weights=True).full_weights[
        0
    ]
    (layer,) = found.layers
    product = layer.token2token[..., None] * layer.source2token[:, None]  # [H, N, N, D]
    total = product.sum(2, keepdim=True)
    torch.testing.assert_close(torch.where(total > 0, product / total, 0.0), tensor)


def test_a_layer_tells_the_weights_of_a_feature(runs):
    (found,) = attention_maps(runs["classification"], "the old red dog")
    (layer,) = found.layers
    assert layer.pairs() is layer.token2token
    product = layer.token2token[0, 3] * layer.source2token[0, :, 2]
    torch.testing.assert_close(layer.pairs(2)[0, 3], product / product.sum())
    assert layer.pairs(2)[0, 0].abs().sum() == 0  # the first word has nothing before it
    torch.testing.assert_close(layer.words(2), layer.source2token[..., 2])
    torch.testing.assert_close(layer.words(), layer.source2token.mean(-1))
    assert strongest_pairs(found, 1, feature=2) != strongest_pairs(found, 1)


def test_numbers():
    told = maps_to_json(made())
    assert told["layers"][0]["token2token"][0][2] == pytest.approx([0.9, 0.1, 0.0])
    assert told["layers"][0]["source2token"][0] == pytest.approx([1 / 3] * 3)
    assert len(maps_to_json(made(), features=True)["layers"][0]["source2token"][0][0]) == 4


def test_the_command(runs, tmp_path):
    places = {task: predictor.run.folder for task, predictor in runs.items()}

    def call(*arguments):
        return CliRunner().invoke(app, ["explain", *map(str, arguments)])

    done = call(places["classification"], "the old red dog", "--out", tmp_path / "a.svg", "--top", 2)
    assert done.exit_code == 0, done.output
    assert done.output.count(" -> ") == 2
    told = json.loads(call(places["srl"], "the dog ran home", "--predicate", 3, "--json", "--features").output)
    assert told["sentences"][0]["prediction"].startswith("ran:")
    for arguments, message in (
        ((places["classification"], "a", "--pair", "b"), "expects single texts"),
        ((places["classification"], "a", "--predicate", 1), "applies to semantic roles"),
        ((places["classification"], "a b", "--out", tmp_path / "a.xyz"), "file extension must be .png or .svg"),
        ((places["classification"], "a b", "--features"), "requires --json"),
        ((places["classification"], "a b", "--layer", 2), "layer 2 does not exist; the model has 1"),
        ((places["classification"], "a b", "--layer", 2, "--top", 3, "--out", tmp_path / "a.html"), "layer 2 does not exist"),
        ((places["srl"], "a b", "--predicate", 9), "the text has 2 words"),
        ((places["classification"], "a b", "--out", tmp_path / "no" / "a.png"), "does not exist"),
        ((places["classification"], "a b", "--feature", 6), "feature 6 does not exist; a head of this layer has 5"),
        ((places["classification"],), "--sample with --data"),
        ((places["classification"], "a b", "--sample", 2, "--data", "x"), "either a text, or --sample"),
        ((places["classification"], "--sample", 2), "--sample and --data must be used together"),
        ((places["classification"], "--sample", 2, "--data", "x", "--pair", "b"), "cannot be used with --sample"),
        ((places["classification"], "a b", "--format", "csv"), "--format applies to --data only"),
        ((places["classification"], "--sample", 2, "--data", tmp_path / "none.csv"), "none.csv"),
    ):
        done = call(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert message in done.output


def test_random_sentences_of_a_file(runs, tmp_path):
    texts = [f"number {place} is a red apple" for place in range(30)] + ["short", "long " * 30]
    rows = "".join(f"{text},fruit\n" for text in texts)
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}")
    predictor = runs["classification"]
    drawn = sample_sentences(predictor, str(tmp_path / "a.csv"), 5, 0)
    assert len(set(drawn)) == 5
    assert set(drawn) < set(texts[:30])
    assert drawn == sample_sentences(predictor, str(tmp_path / "a.csv"), 5, 0)
    assert drawn != sample_sentences(predictor, str(tmp_path / "a.csv"), 5, 1)
    with pytest.raises(InputError, match="30 different sentences of 4 to 20 words, but 31 were requested"):
        sample_sentences(predictor, str(tmp_path / "a.csv"), 31, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "data"), [("pair", "corpus:entailment"), ("srl", "corpus:roles")])
def test_the_figure_of_the_paper(runs, task, data, tmp_path):
    """Five sentences, one below the other; of pairs, each side by itself."""
    command = ["explain", str(runs[task].run.folder), "--sample", "5", "--data", data, "--out", str(tmp_path / "a.svg")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("5 sentences\n")
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)["sentences"]
    assert len(told) == 5
    assert all(len(one["words"]) >= 4 for one in told)
    assert (task == "pair") == (told[0]["prediction"] == "")


def test_sentences_of_a_translator_and_a_tagger(runs, tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"the old red dog {place}\n" for place in range(6)))
    for task in ("translation", "tagging"):
        assert len(sample_sentences(runs[task], str(tmp_path / "a.txt"), 3, 0)) == 3


def test_keyword_arguments_of_a_layer_keep_their_meaning():
    """An encoder may pass PyTorch's key_padding_mask, whose sense is the opposite of attention_mask."""
    layer = mtsa.MultiMaskAttention(8, 2)
    x, real = torch.randn(1, 5, 8), torch.tensor([[True, True, True, False, False]])
    plain = record_attention(layer, lambda: layer(x, real), {}, ["w"] * 5, "")
    flipped = record_attention(layer, lambda: layer(x, key_padding_mask=~real), {}, ["w"] * 5, "")
    torch.testing.assert_close(plain.layers[0].token2token, flipped.layers[0].token2token, rtol=0, atol=0)
    assert plain.layers[0].token2token[:, :, :3].sum() > 0
    assert plain.layers[0].token2token[:, :, 3:].abs().max() == 0


def test_explain_accepts_a_text(runs):
    for task in ("classification", "tagging", "srl", "translation"):
        (found,) = runs[task].explain("the old red dog")
        (asked,) = attention_maps(runs[task], "the old red dog")
        assert found.words == asked.words
        torch.testing.assert_close(found.layers[0].token2token, asked.layers[0].token2token)
    with pytest.raises(InputError, match="expected a string or a ModelInput, got list"):
        runs["classification"].explain(["the old red dog"])
