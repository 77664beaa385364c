"""The tagger: its loss, its flag, its finder, and what it is allowed to answer."""

import pytest
import torch

from mtsa.data.bio import may_follow, tag_names
from mtsa.data.encoded_words import EncodedWords
from mtsa.models.config import MtsaTaggerConfig
from mtsa.models.hub_models import MtsaForTokenClassification
from mtsa.models.tag_inference import find_predicates, predict_tags
from mtsa.models.tagger import IGNORED

TAGS = tag_names(["A0", "A1", "V"])


def made(tags=TAGS, **options):
    torch.manual_seed(0)
    names = dict(enumerate(tags))
    config = MtsaTaggerConfig(
        words=(20, 0),
        width=6,
        encoder="stacked_mtsa",
        encoder_options={"layers": 1, "width": 12, "heads": 2, "hidden": 10},
        num_labels=len(tags),
        id2label=names,
        label2id={name: number for number, name in names.items()},
        **options,
    )
    model = MtsaForTokenClassification(config).eval()
    with torch.no_grad():
        model.words.tuned[1:] = torch.randn(19, 6)
        model.tags.linear.weight.normal_()
    return model


def test_the_loss_is_that_of_smoothed_truth_over_the_tagged_words():
    model = made(label_smoothing=0.1)
    ids = torch.tensor([[3, 4, 5], [6, 7, 0]])
    labels = torch.tensor([[0, 1, IGNORED], [3, 4, IGNORED]])
    out = model(ids, labels=labels)
    T = len(TAGS)
    log = out.logits.log_softmax(-1)
    wanted = 0.0
    for row, place in ((0, 0), (0, 1), (1, 0), (1, 1)):
        truth = torch.full((T,), 0.1 / (T - 1))
        truth[labels[row, place]] = 0.9
        wanted -= (truth * log[row, place]).sum()
    torch.testing.assert_close(out.loss, wanted / 4)


def test_the_finder_learns_from_marked_rows_alone():
    model = made(predicate_dim=4, finder_channels=3)
    ids = torch.tensor([[3, 4, 5], [6, 7, 0]])
    labels = torch.zeros_like(ids).masked_fill(ids == 0, IGNORED)
    found = torch.tensor([[0, 1, 0], [IGNORED] * 3])
    alone = model(ids, labels=labels).loss
    both = model(ids, labels=labels, predicate_labels=found).loss
    scores = model(ids).predicate_logits[0]
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(scores, torch.tensor([0.0, 1.0, 0.0]))
    torch.testing.assert_close(both - alone, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.predicate_scores(ids, ids > 0), model(ids).predicate_logits)
    unmarked = model(ids, labels=labels, predicate_labels=torch.full_like(ids, IGNORED)).loss
    torch.testing.assert_close(unmarked, alone)


def test_the_flag_tells_which_predicate_is_asked_about():
    model = made(predicate_dim=4)
    ids = torch.tensor([[3, 4, 5]])
    first, second = (model(ids, predicates=torch.eye(3, dtype=torch.long)[[place]]).logits for place in (0, 1))
    assert (first - second).abs().max() > 1e-3
    torch.testing.assert_close(model(ids).logits, model(ids, predicates=torch.zeros_like(ids)).logits)


def rows(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 12, (count,), generator=generator).tolist()
    return [torch.randint(1, 20, (length,), generator=generator).tolist() for length in lengths]


def test_nothing_but_allowed_rows_comes_out_and_batches_change_nothing():
    model = made(predicate_dim=4, finder_channels=3)
    asked = rows(300)
    places = [len(row) // 2 if row else None for row in asked]
    found = predict_tags(model, EncodedWords(asked), places)
    assert [len(row) for row in found] == [len(row) for row in asked]
    assert len({tag for row in found for tag in row}) > 3
    for row in found:
        names = [TAGS[tag] for tag in row]
        assert all(may_follow(before, after) for before, after in zip([None, *names], names, strict=False))
    assert [
        predict_tags(model, EncodedWords([row]), [place])[0] for row, place in zip(asked[:40], places[:40], strict=True)
    ] == found[:40]
    predicates = find_predicates(model, EncodedWords(asked))
    assert any(predicates)
    assert [find_predicates(model, EncodedWords([row]))[0] for row in asked[:40]] == predicates[:40]


def test_other_tags_are_chosen_word_by_word():
    model = made(["DT", "NN", "VB"])
    ids = torch.tensor([[3, 4, 5, 6]])
    assert predict_tags(model, EncodedWords(ids.tolist())) == model(ids).logits.argmax(-1).tolist()


@pytest.mark.parametrize("name", ["stacked_multihead", "stacked_bilstm", "stacked_multi_cnn", "mtsa"])
def test_any_encoder_goes_below(name):
    options = {"head_dim": 6} if name == "mtsa" else {"layers": 1, "width": 12, "hidden": 10}
    options |= {"heads": 2} if name == "stacked_multihead" else {}
    config = MtsaTaggerConfig(
        words=(20, 0), width=6, encoder=name, encoder_options=options, predicate_dim=4, id2label={0: "O", 1: "B-V"}
    )
    assert MtsaForTokenClassification(config)(torch.tensor([[2, 3]])).logits.shape == (1, 2, 2)


def test_the_word_that_is_asked_about_is_the_verb():
    model = made(predicate_dim=4)
    asked = [row for row in rows(200, 3) if row]
    places = [len(row) // 2 for row in asked]
    for row, place in zip(predict_tags(model, EncodedWords(asked), places), places, strict=True):
        assert TAGS[row[place]] == "B-V"


def test_the_finder_says_yes_above_one_half():
    model = made(predicate_dim=4, finder_channels=3)
    asked = [row for row in rows(80) if row]
    for row, found in zip(asked, find_predicates(model, EncodedWords(asked)), strict=True):
        ids = torch.tensor([row])
        chance = model.predicate_scores(ids, torch.ones_like(ids).bool()).sigmoid()[0]
        assert found == [place for place, value in enumerate(chance.tolist()) if value > 0.5]


@pytest.mark.parametrize("applied", [True, False])
def test_dropout_before_the_tag_layer_is_optional(applied):
    model = made(dropout=0.5, tag_dropout=applied)
    assert model.tags.dropout == (0.5 if applied else 0.0)
