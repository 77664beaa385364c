"""Looking at the weights does not change the answer, and what is shown is what was used."""

import pytest
import torch

import mtsa
from tests import oracle
from tests.nn.layers import FORMS, HEAD_RULES, VARIANTS, make_input, make_layer, weights_by_definition

RULES = (oracle.FORWARD, oracle.BACKWARD)


def assert_bit_equal(found, expected):
    difference = float((found - expected).detach().abs().max())
    assert difference == 0.0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["auto", "reference", "factored", "blocked"])
def test_the_output_is_that_of_a_plain_call_bit_by_bit(form, variant, dtype, backend):
    layer, (x, keep) = make_layer(form, variant).to(dtype), make_input(batch=5, length=11)
    layer.backend = "factored" if backend == "blocked" and variant == "callables" else backend
    assert_bit_equal(layer.explain(x.to(dtype), keep).output, layer(x.to(dtype), keep))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 97), (3, 131), (33, 61)])
def test_the_output_is_that_of_a_plain_call_at_every_size(form, batch, length):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(64, 8, form=form)
    x, keep = torch.randn(batch, length, 64), torch.rand(batch, length) < 0.8
    assert_bit_equal(layer.explain(x).output, layer(x))
    assert_bit_equal(layer.explain(x, keep).output, layer(x, keep))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("variant", ["default", "identity scores", "log-sigmoid source", "other masks", "biased mask"])
def test_weights_are_those_of_the_definition(form, variant, padded):
    layer, (x, keep) = make_layer(form, variant), make_input()
    keep = keep if padded else None
    found = layer.explain(x, keep, full_weights=True)
    q, k, v, s = layer.project(x if keep is None else x * keep[:, :, None])
    rules = HEAD_RULES.get(variant, RULES)
    token2token, source2token, tensor = weights_by_definition(q, k, s, rules, keep, layer.score_activation)
    torch.testing.assert_close(found.token2token, token2token, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(found.source2token, source2token, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(found.full_weights, tensor, rtol=1e-11, atol=1e-12)
    combined = layer.combine((found.full_weights * v[:, :, None]).sum(3), v)
    combined = combined if keep is None else combined * keep[:, :, None]
    torch.testing.assert_close(found.output, combined, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_forbidden_keys_are_exactly_zero(form):
    layer, (x, keep) = make_layer(form), make_input()
    found = layer.explain(x, keep)
    allowed = oracle.allowed_array(RULES, 7, 7, keep, 3)
    assert (found.token2token[~allowed] == 0).all()
    assert (found.source2token.movedim(1, 2)[~keep] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_two_kinds_of_weight_are_the_factors_of_the_whole_tensor(form):
    layer, (x, keep) = make_layer(form), make_input()
    found = layer.explain(x, keep, full_weights=True)
    product = found.token2token[..., None] * found.source2token[:, :, None]
    total = product.sum(3, keepdim=True)
    expected = product / torch.where(total == 0, 1.0, total)
    torch.testing.assert_close(found.full_weights, expected, rtol=1e-9, atol=1e-10)


def test_the_whole_tensor_is_made_on_request_only():
    layer, (x, keep) = make_layer("paper"), make_input()
    assert layer.explain(x, keep).full_weights is None


@pytest.mark.parametrize("backend", ["auto", "factored", "reference"])
def test_the_explanation_names_the_backend_and_counts_rescued_entries(backend):
    layer, (x, keep) = make_layer("paper"), make_input()
    layer.backend = backend
    found = layer.explain(x, keep)
    assert found.backend.startswith(("factored" if backend == "auto" else backend) + ": ")
    assert found.fallback_entries == 0
    with torch.no_grad():
        layer.source_score.weight.mul_(300.0)
    assert (layer.explain(x, keep).fallback_entries > 0) == (backend != "reference")


@pytest.mark.parametrize("form", FORMS)
def test_an_explained_output_can_be_trained_on(form):
    layer, (x, keep) = make_layer(form), make_input()
    layer.explain(x, keep).output.sum().backward()
    explained = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    layer(x, keep).sum().backward()
    for one, other in zip(explained, layer.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-11, atol=1e-11)


def test_names_of_version_0_2_are_accepted():
    layer = mtsa.MultiMaskAttention(8, 2).eval()
    x = torch.randn(1, 3, 8)
    with pytest.warns(DeprecationWarning, match="tensor= is deprecated"):
        found = layer.explain(x, tensor=True)
    with pytest.warns(DeprecationWarning, match="use full_weights"):
        assert found.tensor is found.full_weights
    with pytest.warns(DeprecationWarning, match="use fallback_entries"):
        assert found.rescued == found.fallback_entries == 0
