"""The parameters of the layers: how many, how they start, and how they are stored."""

import copy
import math
import pickle

import pytest
import torch

import mtsa
from mtsa.masks import Backward, Forward, Full
from tests.nn.layers import FORMS, VARIANTS, make_input, make_layer


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_paper_form_has_the_parameters_of_algorithm_1():
    assert count(mtsa.MultiMaskAttention(600, 8)) == 4 * 600 * 600 + 8 * (75 * 75 + 75) * 2


def test_the_released_form_has_the_parameters_of_the_authors_code():
    assert count(mtsa.MultiMaskAttention(300, 2, form="released", head_dim=300)) == 1_262_400


def test_biases_of_the_paper_form_are_four_vectors():
    assert count(mtsa.MultiMaskAttention(14, 2, bias=True)) == count(mtsa.MultiMaskAttention(14, 2)) + 4 * 14


def test_pooling_has_two_square_layers():
    assert count(mtsa.Source2Token(600)) == 721_200


def test_the_defaults_are_those_of_the_paper():
    layer = mtsa.MultiMaskAttention(56, 8)
    assert layer.masks == (Forward(),) * 4 + (Backward(),) * 4
    assert (layer.head_dim, layer.score_dim, layer.out_dim) == (7, 7, 56)
    assert (layer.score_activation, layer.source_activation) == ("logsigmoid", "identity")
    assert (layer.dense_dropout, layer.attention_dropout, layer.backend) == (0.0, 0.0, "auto")


def test_an_odd_number_of_heads_works_with_masks():
    layer = mtsa.MultiMaskAttention(15, 3, masks="forward, backward, full")
    assert layer.masks == (Forward(), Backward(), Full())
    assert layer(torch.randn(2, 5, 15)).shape == (2, 5, 15)


@pytest.mark.parametrize("form", FORMS)
def test_head_and_score_widths_may_differ_from_the_embedding(form):
    layer = mtsa.MultiMaskAttention(13, 2, form=form, head_dim=7, score_dim=5)
    q, k, v, s = layer.project(torch.randn(3, 11, 13))
    assert q.shape == k.shape == (3, 2, 11, 5)
    assert v.shape == s.shape == (3, 2, 11, 7)
    assert layer(torch.randn(3, 11, 13)).shape == (3, 11, 14)


@pytest.mark.parametrize("form", FORMS)
def test_weights_start_within_glorots_bounds_and_biases_at_zero(form):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(120, 4, form=form, head_dim=20, score_dim=50, bias=form == "paper")
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
            continue
        bound = math.sqrt(6 / (parameter.shape[-1] + parameter.shape[-2]))
        largest = float(parameter.detach().abs().max())
        assert 0.9 * bound < largest <= bound, name


def test_pooling_starts_within_glorots_bounds_and_biases_at_zero():
    pool = mtsa.Source2Token(50)
    for linear in (pool.hidden, pool.score):
        largest = float(linear.weight.detach().abs().max())
        assert 0.9 * math.sqrt(6 / 100) < largest <= math.sqrt(6 / 100)
        assert (linear.bias == 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_stored_state_gives_the_same_output(form, variant):
    layer, (x, keep) = make_layer(form, variant), make_input()
    fresh = mtsa.MultiMaskAttention(14, 2, form=form, **VARIANTS[variant]).double()
    assert not torch.equal(fresh(x, keep), layer(x, keep))
    fresh.load_state_dict(layer.state_dict())
    assert torch.equal(fresh(x, keep), layer(x, keep))


@pytest.mark.parametrize("form", FORMS)
def test_a_copied_or_pickled_layer_gives_the_same_output(form):
    layer, (x, keep) = make_layer(form), make_input()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x, keep), layer(x, keep))


@pytest.mark.parametrize("form", FORMS)
def test_an_optimiser_step_lowers_the_loss(form):
    layer, (x, keep) = make_layer(form), make_input()
    target = torch.randn(3, 7, 14, dtype=torch.float64)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1e-3)
    losses = []
    for _ in range(5):
        loss = (layer(x, keep) - target).square()[keep].mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_the_printed_layer_names_its_sizes():
    text = repr(mtsa.MultiMaskAttention(14, 2, form="released", head_dim=5))
    assert "14 -> 10, 2 heads, form=released" in text
    assert "2 heads, 10 -> 5, bias=True" in text
