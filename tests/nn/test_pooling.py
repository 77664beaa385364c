"""Source2token pooling: weights per feature over the real tokens."""

import pytest
import torch

import mtsa
from tests.nn.layers import make_input


def make_pool(**options):
    torch.manual_seed(0)
    return mtsa.Source2Token(14, **options).double()


def by_hand(pool, x, keep, activation):
    """softmax over the real tokens of the two layers' scores, one sentence and feature at a time."""
    out = torch.zeros(x.shape[0], x.shape[2], dtype=torch.float64)
    for b in range(x.shape[0]):
        real = x[b][keep[b]]
        if len(real):
            scores = activation(real @ pool.hidden.weight.T + pool.hidden.bias) @ pool.score.weight.T + pool.score.bias
            weights = scores.exp() / scores.exp().sum(0)
            out[b] = (weights * real).sum(0)
    return out


@pytest.mark.parametrize("name", ["relu", "elu", "tanh"])
def test_pooling_is_its_definition(name):
    pool, (x, keep) = make_pool(activation=name), make_input()
    expected = by_hand(pool, x, keep, getattr(torch.nn.functional, name) if name != "tanh" else torch.tanh)
    torch.testing.assert_close(pool(x, keep), expected, rtol=1e-11, atol=1e-12)


def test_weights_sum_to_one_over_real_tokens_and_padding_has_none():
    pool, (x, keep) = make_pool(), make_input()
    weights = pool.weights(x, keep)
    assert weights.shape == (3, 7, 14)
    assert (weights[~keep] == 0).all()
    torch.testing.assert_close(weights.sum(1), keep.any(1).double()[:, None].expand(3, 14), rtol=0, atol=1e-12)


def test_a_sequence_of_padding_gives_zero_and_no_gradient():
    pool, (x, keep) = make_pool(), make_input()
    x.requires_grad_()
    out = pool(x, keep)
    assert not keep[-1].any()
    assert (out[-1] == 0).all()
    out.sum().backward()
    assert (x.grad[~keep] == 0).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in pool.parameters())


@pytest.mark.parametrize("garbage", [1e30, float("inf"), float("nan")])
def test_what_padding_holds_does_not_come_through(garbage):
    pool, (x, keep) = make_pool(), make_input()
    dirty = x.masked_fill(~keep[:, :, None], garbage)
    torch.testing.assert_close(pool(dirty, keep), pool(x, keep), rtol=0, atol=1e-12)


def test_an_empty_sequence_gives_zero():
    assert (make_pool()(torch.zeros(2, 0, 14, dtype=torch.float64)) == 0).all()


def test_no_padding_is_the_same_as_nothing_padded():
    pool, (x, _) = make_pool(), make_input()
    torch.testing.assert_close(pool(x), pool(x, torch.ones(3, 7, dtype=torch.bool)))


def test_gradients_are_the_derivatives():
    pool = mtsa.Source2Token(3, activation="tanh").double()
    x, keep = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True), torch.rand(2, 5) < 0.6
    assert torch.autograd.gradcheck(lambda x: pool(x, keep), (x,))


def test_dropout_is_for_training_only():
    pool, (x, keep) = make_pool(dropout=0.5), make_input()
    assert not torch.equal(pool(x, keep), pool(x, keep))
    pool.eval()
    assert torch.equal(pool(x, keep), pool(x, keep))


def test_large_scores_do_not_overflow():
    pool, (x, keep) = make_pool(), make_input()
    out = pool.float()(x.float() * 1e4, keep)
    assert torch.isfinite(out).all()
    assert float(out.detach().abs().max()) > 0


def test_a_stored_state_gives_the_same_output():
    pool, (x, keep) = make_pool(), make_input()
    fresh = mtsa.Source2Token(14).double()
    assert not torch.equal(fresh(x, keep), pool(x, keep))
    fresh.load_state_dict(pool.state_dict())
    assert torch.equal(fresh(x, keep), pool(x, keep))
