"""Vectors of words from pieces, and rows of several windows."""

import torch
from torch import nn

from mtsa.models.word_windows import gather_words, read_windows


class Mean(nn.Module):
    """The vector of each token plus the mean over the sentence; NaN where a sentence has no token."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.vectors = nn.Embedding(11, 3)
        self.sizes = []

    def forward(self, ids, keep):
        self.sizes.append(tuple(ids.shape))
        x = self.vectors(ids)
        return x + ((x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True))[:, None]


def test_windows_are_read_separately():
    model = Mean()
    ids = torch.tensor([[1, 2, 3, 4, 0, 5, 6, 0], [7, 8, 0, 0, 0, 0, 0, 0]])
    keep = ids > 0
    found = read_windows(model, ids, keep, 5)
    assert model.sizes == [(3, 5)]  # the second window of the short sentence is empty
    assert found.shape == (2, 8, 3)
    torch.testing.assert_close(found[0, :4], model(ids[:1, :4], keep[:1, :4])[0])
    torch.testing.assert_close(found[0, 5:7], model(ids[:1, 5:7], keep[:1, 5:7])[0])
    torch.testing.assert_close(found[1, :2], model(ids[1:, :2], keep[1:, :2])[0])
    found[keep].sum().backward()
    assert model.vectors.weight.grad.isfinite().all()
    assert model.vectors.weight.grad[1:9].abs().min() > 0


def test_short_rows_are_read_at_once():
    model = Mean()
    ids = torch.tensor([[1, 2, 3]])
    for window in (0, 3, 7):
        torch.testing.assert_close(read_windows(model, ids, ids > 0, window), model(ids, ids > 0))
    assert set(model.sizes) == {(1, 3)}


def test_words_are_the_mean_of_their_tokens():
    x = torch.randn(2, 5, 3)
    word_of = torch.tensor([[0, 1, 1, 3, 0], [1, 0, 0, 0, 0]])
    found = gather_words(x, word_of, 3)
    torch.testing.assert_close(found[0], torch.stack([x[0, 1:3].mean(0), torch.zeros(3), x[0, 3]]))
    assert torch.equal(found[1, 0], x[1, 0])
    assert not found[1, 1:].any()
