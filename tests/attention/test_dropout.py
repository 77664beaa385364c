"""Attention dropout (appendix A.3): both factors of the numerator are dropped, the denominator never is.

Batch items are dropped independently of each other, so one large batch of equal items is many draws.
"""

import math

import pytest
import torch

import mtsa
from mtsa.attention import blocks
from tests import cases

BACKENDS = ("reference", "factored", "tiled")
DRAWS = 4000
RATE = 0.36  # so that each factor is kept with probability 0.8


def repeated(case, draws=DRAWS):
    """The first item of a case, many times."""
    tensors = tuple(tensor[:1].expand(draws, -1, -1, -1).contiguous() for tensor in case.tensors)
    keep = None if case.keep is None else case.keep[:1].expand(draws, -1)
    return cases.replace(case, tensors=tensors, keep=keep)


def ones(queries, keys, width, draws=DRAWS):
    """Scores of 0 and values of 1: what comes out is the mean of the dropout factors."""
    zero = torch.zeros
    return zero(draws, 1, queries, 1), zero(draws, 1, keys, 1), torch.ones(draws, 1, keys, width), zero(draws, 1, keys, width)


def assert_mean(sample, expected):
    """The mean over the draws is within 5 standard errors of what is expected."""
    error = sample.std(0) / math.sqrt(sample.shape[0])
    assert ((sample.mean(0) - expected).abs() <= 5 * error + 1e-6).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pairwise", [*cases.PAIRWISE, cases.soft_scale])
def test_the_mean_over_many_draws_is_the_output_without_dropout(backend, pairwise):
    keep = torch.tensor([[True, False, True, True, True]])
    names = ("forward", "full", "forward & distance(0.5)")
    case = repeated(cases.make(names, batch=1, queries=3, keys=5, width=2, keep=keep, pairwise=pairwise))
    torch.manual_seed(1)
    out = case.run(backend, dropout_p=RATE)
    assert_mean(out, case.run(backend)[0])
    assert (out.std(0)[:, 1:] > 0.01).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_the_denominator_is_not_dropped(backend, pairwise):
    """With values of 1, dropping both would give 1 each time; dropping the numerator alone gives 1 in the mean only."""
    torch.manual_seed(2)
    out = mtsa.tensorized_attention(*ones(3, 5, 2), pairwise=pairwise, dropout_p=RATE, backend=backend)
    assert_mean(out, 1.0)
    assert (out.std(0) > 0.1).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_key_is_dropped_with_the_whole_rate_and_rescaled(backend):
    torch.manual_seed(3)
    out = mtsa.tensorized_attention(*ones(1, 1, 1), dropout_p=RATE, backend=backend).flatten()
    kept = out != 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - RATE)))
    assert abs(float(kept.float().mean()) - (1 - RATE)) < 0.04


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("queries", "width"), [(2, 1), (1, 2)])
def test_two_queries_share_the_dropped_value_and_two_features_the_dropped_pair(backend, queries, width):
    """One factor is shared and one is not, so both entries survive with probability (1 - p) ** 1.5."""
    torch.manual_seed(4)
    out = mtsa.tensorized_attention(*ones(queries, 1, width), dropout_p=RATE, backend=backend).reshape(DRAWS, 2)
    both = float((out != 0).all(1).float().mean())
    assert abs(both - (1 - RATE) ** 1.5) < 0.04  # 0.512, against 0.41 if independent and 0.64 if all shared


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [5, 97])
def test_the_same_seed_gives_the_same_and_another_seed_does_not(backend, length):
    case = cases.make(("forward", "full"), queries=length, width=2)
    torch.manual_seed(5)
    first, next_call = case.run(backend, dropout_p=RATE), case.run(backend, dropout_p=RATE)
    torch.manual_seed(5)
    again = case.run(backend, dropout_p=RATE)
    assert torch.equal(first, again)
    assert not torch.equal(first, next_call)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pairwise", [*cases.PAIRWISE, cases.soft_scale])
@pytest.mark.parametrize("rescued", [False, True])
def test_backward_drops_what_forward_dropped(backend, pairwise, rescued):
    keep = torch.tensor([[True, False, True, True, True], [True] * 5])
    case = cases.make(("forward", "full"), queries=5, width=2, keep=keep, pairwise=pairwise).to(torch.float64)
    if rescued:
        s = case.tensors[3].clone()
        s[:, 0, -1] += 100.0  # forbidden to every forward query
        case = cases.replace(case, tensors=(*case.tensors[:3], s))

    def seeded(*four):
        torch.manual_seed(6)
        return cases.replace(case, tensors=four).run(backend, dropout_p=RATE)

    with mtsa.count_rescued() as count:
        seeded(*case.tensors)
    assert (count.entries > 0) == (rescued and backend != "reference")
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    assert torch.autograd.gradcheck(seeded, leaves, fast_mode=True)


@pytest.mark.parametrize("pairwise", [*cases.PAIRWISE, cases.soft_scale])
@pytest.mark.parametrize("chunks", ["one", "many"])
def test_backward_drops_what_forward_dropped_across_tiles_and_chunks(pairwise, chunks, monkeypatch):
    if chunks == "many":
        monkeypatch.setattr(blocks, "_PAIRS", 64 * 131)
    keep = cases.holes(3, 131)
    case = cases.make(("forward", "forward", "window(2)"), batch=3, queries=97, keys=131, width=2, keep=keep)
    case = cases.replace(case, pairwise=pairwise).to(torch.float64)

    def seeded(*four):
        torch.manual_seed(7)
        return (cases.replace(case, tensors=four).run("tiled", dropout_p=RATE) * case.grad).sum()

    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    grads = torch.autograd.grad(seeded(*leaves), leaves)
    way = cases.make(case.names, batch=3, queries=97, keys=131, width=2, seed=8).to(torch.float64).tensors
    for place, (grad, step) in enumerate(zip(grads, way, strict=True)):
        ends = []
        for sign in (1e-6, -1e-6):
            moved = list(case.tensors)
            moved[place] = moved[place] + sign * step
            ends.append(seeded(*moved))
        torch.testing.assert_close((ends[0] - ends[1]) / 2e-6, (grad * step).sum(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rescued_entries_are_dropped_by_the_same_law(backend):
    case = cases.make(("forward",), batch=1, queries=3, width=2)
    s = case.tensors[3].clone()
    s[:, :, -1] += 100.0
    case = repeated(cases.replace(case, tensors=(*case.tensors[:3], s)))
    torch.manual_seed(9)
    with mtsa.count_rescued() as count:
        out = case.run(backend, dropout_p=RATE)
    assert (count.entries > 0) == (backend != "reference")
    assert_mean(out, case.run(backend)[0])
    kept = (out[:, 0, 1] != 0).float().mean(0)  # query 1 sees one key, so it is there or not
    assert ((kept - (1 - RATE)).abs() < 0.04).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_dropout_draws_no_random_number(backend):
    case = cases.make(("forward", "full"), queries=5)
    before = torch.get_rng_state()
    case.run(backend)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("form", ["paper", "released"])
def test_a_layer_drops_in_training_and_not_in_evaluation(form):
    torch.manual_seed(0)
    x = torch.randn(2, 5, 14)
    for rates in ((0.3, 0.0), (0.0, 0.3)):
        layer = mtsa.MultiMaskAttention(14, 2, form=form, dropout=rates)
        layer.train()
        assert not torch.equal(layer(x), layer(x))
        plain = mtsa.MultiMaskAttention(14, 2, form=form)
        plain.load_state_dict(layer.state_dict())
        layer.eval()
        torch.testing.assert_close(layer(x), plain(x), rtol=0, atol=1e-6)
