"""Models compute padded batches as packed sequences, with the same results."""

import pytest
import torch

from mtsa.models.config import MtsaConfig, MtsaPairConfig, MtsaTaggerConfig
from mtsa.models.hub_models import (
    MtsaForSequenceClassification,
    MtsaForSequencePairClassification,
    MtsaForTokenClassification,
)
from mtsa.models.packed_batch import packed_batch, without_packing

ENCODERS = {
    "mtsa": {"heads": 2, "head_dim": 5},
    "stacked_mtsa": {"layers": 2, "width": 12, "heads": 2, "hidden": 20},
}
LENGTHS = (7, 2, 1, 4)


def make_ids(lengths, seed=0):
    ids = torch.randint(2, 30, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def sentence_model(encoder, **options):
    config = {"words": (30, 0), "width": 8, "encoder": encoder, "encoder_options": ENCODERS[encoder], "hidden": 6}
    return MtsaForSequenceClassification(MtsaConfig(**config, num_labels=3, **options))


def results(model, **inputs):
    """Logits and gradients."""
    model.zero_grad()
    out = model(**inputs)
    out.loss.backward()
    return out.logits.detach(), *(value.grad.clone() for value in model.parameters() if value.grad is not None)


def assert_packing_changes_nothing(model, real, **inputs):
    shapes = []
    model.encoder.register_forward_pre_hook(lambda module, given: shapes.append(given[0].dim()))
    found = results(model.double().eval(), **inputs)
    with without_packing():
        expected = results(model, **inputs)
    assert shapes[0] == 2  # [tokens, features]
    assert set(shapes[1:]) == {3}
    assert len(found) == len(expected) > 5
    real = torch.ones(found[0].shape[:-1], dtype=torch.bool) if real is None else real
    torch.testing.assert_close(found[0][real], expected[0][real], rtol=1e-9, atol=1e-10)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("pooling", ["source2token", "max", "mean", "last"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_classifiers_give_the_same(encoder, pooling):
    torch.manual_seed(0)
    ids = make_ids(LENGTHS)
    model = sentence_model(encoder, pooling=pooling)
    assert_packing_changes_nothing(model, None, input_ids=ids, labels=torch.tensor([0, 1, 2, 0]))


def test_pair_models_give_the_same():
    torch.manual_seed(0)
    config = {"words": (30, 0), "width": 8, "encoder": "mtsa", "encoder_options": ENCODERS["mtsa"], "hidden": 6}
    model = MtsaForSequencePairClassification(MtsaPairConfig(**config, num_labels=3))
    inputs = {"input_ids": make_ids(LENGTHS), "pair_ids": make_ids((3, 9, 2, 2), 1), "labels": torch.tensor([0, 1, 2, 0])}
    assert_packing_changes_nothing(model, None, **inputs)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_taggers_give_the_same(encoder):
    torch.manual_seed(0)
    config = {"words": (30, 0), "width": 8, "encoder": encoder, "encoder_options": ENCODERS[encoder]}
    model = MtsaForTokenClassification(MtsaTaggerConfig(**config, id2label={0: "O", 1: "B-A", 2: "I-A"}))
    ids = make_ids(LENGTHS)
    labels = (ids % 3).masked_fill(ids == 0, -100)
    assert_packing_changes_nothing(model, ids != 0, input_ids=ids, labels=labels)


def test_batches_are_packed_where_that_is_the_same_and_saves_padding():
    keep = torch.arange(6) < torch.tensor([6, 2])[:, None]
    packed = packed_batch(keep)
    assert packed.cu_seqlens.tolist() == [0, 6, 8]
    x = torch.randn(2, 6, 3)
    torch.testing.assert_close(packed.pad(packed.pack(x)), x * keep[..., None])
    left = packed_batch(keep.flip(1))  # padding on the left
    assert left.rows.tolist() == [0, 1, 2, 3, 4, 5, 10, 11]
    hole = keep.clone()
    hole[0, 2] = False
    for other in (hole, torch.ones(2, 6, dtype=torch.bool), torch.zeros(2, 6, dtype=torch.bool), keep.to("meta")):
        assert packed_batch(other) is None
    with without_packing():
        assert packed_batch(keep) is None
    with_empty = packed_batch(torch.tensor([[True, True], [False, False], [True, False]]))
    assert with_empty.cu_seqlens.tolist() == [0, 2, 2, 3]


def test_an_empty_sentence_in_a_batch_gives_the_same():
    torch.manual_seed(0)
    ids = make_ids(LENGTHS)
    ids[2] = 0
    assert_packing_changes_nothing(sentence_model("mtsa"), None, input_ids=ids, labels=torch.tensor([0, 1, 2, 0]))


def test_a_classifier_is_exported_without_packing():
    model, ids = sentence_model("mtsa").eval(), make_ids(LENGTHS)
    with torch.no_grad():
        graph = torch.export.export(model, (ids,), strict=False).module()
    torch.testing.assert_close(graph(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-6)
