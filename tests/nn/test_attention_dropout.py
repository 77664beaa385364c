"""Attention dropout (appendix A.3): both factors of the numerator are dropped and rescaled, the denominator is not."""

import pytest
import torch

import mtsa
from tests import attention_cases as cases

KEYS, RATE = 64, 0.36  # each factor is kept with probability 0.8


def revealing(activation, queries=200):
    """Equal weights, and values that pick one key for each feature: the output is the product of its two factors."""
    q, k = torch.zeros(3, 2, queries, 4), torch.zeros(3, 2, KEYS, 4)
    v = torch.eye(KEYS).expand(3, 2, KEYS, KEYS).contiguous() * KEYS
    return q, k, v, torch.zeros_like(v), {"score_activation": activation}


@pytest.mark.parametrize(("backend", "activation"), cases.BACKEND_PAIRWISE)
def test_the_factors_are_those_of_the_numerator_alone(backend, activation):
    *tensors, options = revealing(activation)
    torch.manual_seed(0)
    out = mtsa.tensorized_attention(*tensors, dropout_p=RATE, backend=backend, **options)  # [3, 2, queries, features]
    kept = out != 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - RATE)), rtol=1e-5, atol=1e-5)
    column = kept.any(2)  # the factor of E^X, one for each key and feature
    assert column.double().mean().item() == pytest.approx(0.8, abs=0.06)
    pairs = kept.movedim(2, 3)[column]  # the factor of E^R, one for each pair
    assert pairs.double().mean().item() == pytest.approx(0.8, abs=0.01)
    assert (pairs.double().mean(1) - 0.8).abs().max() < 0.15, "pairs of one key are dropped together"
    heads = kept.flatten(0, 1).flatten(1)
    assert len({tuple(row.tolist()) for row in heads}) == 6, "heads or sequences share their factors"


@pytest.mark.parametrize(("backend", "activation"), cases.BACKEND_PAIRWISE)
@pytest.mark.parametrize("padded", [False, True])
def test_gradients_are_those_of_the_factors_that_were_drawn(backend, activation, padded):
    """Finite differences along a random direction, with the same seed for every call."""
    generator = torch.Generator().manual_seed(4)
    keep = cases.holes(2, 37) if padded else None
    names = ("forward", "backward", "window(2)")
    case = cases.make(names, queries=33, keys=37, width=9, attention_mask=keep, score_activation=activation)

    def run(tensors):
        torch.manual_seed(7)
        return mtsa.tensorized_attention(*tensors, dropout_p=RATE, backend=backend, **case.options)

    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    grads = torch.autograd.grad(run(leaves), leaves, case.grad)
    for place in range(4):
        way = torch.randn(case.tensors[place].shape, generator=generator)
        ends = []
        for step in (-1e-2, 1e-2):
            moved = [tensor + step * way if number == place else tensor for number, tensor in enumerate(case.tensors)]
            ends.append((run(moved).double() * case.grad).sum())
        expected = float(ends[1] - ends[0]) / 2e-2
        assert float((grads[place] * way).sum()) == pytest.approx(expected, rel=2e-2, abs=2e-2)


@pytest.mark.parametrize(("backend", "activation"), cases.BACKEND_PAIRWISE)
def test_the_mean_over_many_draws_is_the_output_without_dropout(backend, activation):
    case = cases.make(("forward", "backward"), queries=7, score_activation=activation)
    torch.manual_seed(0)
    many = cases.replace(case, tensors=tuple(tensor.repeat(1500, 1, 1, 1) for tensor in case.tensors))
    mean = many.run(backend, dropout_p=RATE).unflatten(0, (1500, 2)).mean(0)
    assert (mean - case.run("reference")).abs().max() < 0.15


@pytest.mark.parametrize("backend", cases.BACKENDS)
def test_seeds_decide_and_fallback_entries_are_dropped_alike(backend):
    case = cases.make(("full", "forward"), queries=5, score=1, width=3, scale=1.0)
    q, k, _, s = torch.ones_like(case.tensors[0]), *(torch.zeros_like(t) for t in case.tensors[1:])
    k[:, :, 0], s[:, :, 0] = -240.0, 120.0  # opposed gaps: every sum underflows
    case = cases.replace(case, tensors=(q, k, torch.ones_like(case.tensors[2]), s))
    torch.manual_seed(1)
    first = case.run(backend, dropout_p=RATE)
    torch.manual_seed(1)
    assert torch.equal(case.run(backend, dropout_p=RATE), first)
    torch.manual_seed(2)
    draws = torch.stack([case.run(backend, dropout_p=RATE) for _ in range(400)])
    assert not torch.equal(draws[0], first)
    expected = case.run(backend)
    assert (draws.mean(0) - expected).abs().max() < 0.2


@pytest.mark.parametrize(("backend", "activation"), cases.BACKEND_PAIRWISE)
def test_fallback_entries_have_both_factors(backend, activation):
    """Opposed gaps at the first key, equal weights at the others: every sum underflows, and the factors still show."""
    q, k, v, s, options = revealing(activation, queries=40)
    q, k, v = torch.ones_like(q), k.clone(), v * (KEYS - 1) / KEYS
    k[:, :, 0], s[:, :, 0] = -60.0, 120.0  # a score of -240
    torch.manual_seed(0)
    with mtsa.count_fallbacks() as count:
        out = mtsa.tensorized_attention(q, k, v, s, dropout_p=RATE, scale=1.0, backend=backend, **options)
    assert (count.entries == out.numel()) == (backend != "reference")
    kept = out[..., 1:][out[..., 1:] != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - RATE)), rtol=1e-4, atol=1e-4)
    assert len(kept) / out[..., 1:].numel() == pytest.approx(1 - RATE, abs=0.04)
