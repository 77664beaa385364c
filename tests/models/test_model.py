"""The parts around the encoder."""

import torch

from mtsa.models.sentence_pooling import build_pooling
from mtsa.models.word_vectors import WordVectors


def test_poolings_see_real_tokens_alone():
    x = torch.tensor([[[1.0, -5.0], [3.0, -7.0], [100.0, 100.0]]])
    keep = torch.tensor([[True, True, False]])
    options = {"activation": "relu", "dropout": 0.0}
    assert build_pooling("max", 2, **options)(x, keep).tolist() == [[3.0, -5.0]]
    assert build_pooling("mean", 2, **options)(x, keep).tolist() == [[2.0, -6.0]]
    assert build_pooling("last", 2, **options)(x, keep).tolist() == x[:, keep[0].nonzero().max()].tolist()
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    for name in ("max", "mean", "source2token"):
        assert build_pooling(name, 2, **options)(x, nothing).tolist() == [[0.0, 0.0]]


def test_tuned_and_frozen_vectors_by_number():
    words = WordVectors(4, 3, 2)
    words.frozen.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    out = words(torch.tensor([[0, 3, 4, 5, 6]]))
    assert out[0, 2:].tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert torch.equal(out[0, 1], words.tuned[3])
    out.sum().backward()
    assert words.tuned.grad[0].tolist() == [0.0, 0.0]  # padding stays where it is
    assert words.tuned.grad[3].tolist() == [1.0, 1.0]
