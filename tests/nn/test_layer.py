"""The layer, both forms: what it computes is the definition between its own `project` and `combine`."""

import pytest
import torch

import mtsa
from tests.nn.layers import FORMS, VARIANTS, assert_same, by_definition, make_input, make_layer, results

BACKENDS = ("auto", "blocked", "reference", "factored")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_layer_is_the_definition_between_project_and_combine(form, variant, backend):
    layer, (x, keep) = make_layer(form, variant), make_input()
    layer.backend = "factored" if backend == "blocked" and variant == "callables" else backend
    found = results(layer, x, lambda x: layer(x, keep))
    assert_same(found, results(layer, x, lambda x: by_definition(layer, x, keep, variant)))
    assert (found["output"][~keep] == 0).all()
    assert (found["x"][~keep] == 0).all()


def heads_of(x, weight, bias=None):
    """x [B, N, E] times a weight [H * D, E], split into heads: [B, H, N, D]."""
    out = x @ weight.T
    out = out if bias is None else out + bias
    return out.unflatten(-1, (2, -1)).transpose(1, 2)


def per_head(x, layer):
    """x [B, H, N, D] times the matrix [D, O] of its head, plus the bias of the head if there is one."""
    out = torch.einsum("bhnd,hdo->bhno", x, layer.weight)
    return out if layer.bias is None else out + layer.bias.reshape(2, 1, -1)


@pytest.mark.parametrize("variant", ["default", "tanh", "log-sigmoid source", "wide heads", "wide scores"])
def test_projections_of_the_paper_form_are_those_of_algorithm_1(variant):
    layer, (x, _) = make_layer("paper", variant, bias=True), make_input()
    q, k, v, s = layer.project(x)
    act = torch.tanh if variant == "tanh" else torch.relu
    torch.testing.assert_close(q, heads_of(x, layer.query.weight, layer.query.bias))
    torch.testing.assert_close(k, heads_of(x, layer.key.weight, layer.key.bias))
    torch.testing.assert_close(v, heads_of(x, layer.value.weight, layer.value.bias))
    scores = per_head(act(per_head(k, layer.source_hidden)), layer.source_score)
    torch.testing.assert_close(s, torch.nn.functional.logsigmoid(scores) if variant == "log-sigmoid source" else scores)
    joined = torch.cat([v[:, 0], v[:, 1]], -1) @ layer.output.weight.T + layer.output.bias
    torch.testing.assert_close(layer.combine(v, v), joined)


@pytest.mark.parametrize("variant", ["default", "tanh", "log-sigmoid source", "wide heads", "wide scores"])
def test_projections_of_the_released_form_are_those_of_the_authors(variant):
    layer, (x, _) = make_layer("released", variant), make_input()
    q, k, v, s = layer.project(x)
    act = torch.tanh if variant == "tanh" else torch.relu
    values = act(heads_of(x, layer.value.weight, layer.value.bias))
    torch.testing.assert_close(v, values)
    torch.testing.assert_close(q, per_head(values, layer.query))
    torch.testing.assert_close(k, per_head(values, layer.key))
    scores = per_head(act(per_head(values, layer.source_hidden)), layer.source_score)
    torch.testing.assert_close(s, torch.nn.functional.logsigmoid(scores) if variant == "log-sigmoid source" else scores)
    heads = torch.randn(v.shape, dtype=v.dtype)
    gate = torch.sigmoid(per_head(torch.cat([values, heads], -1), layer.gate))
    mixed = gate * values + (1 - gate) * heads
    torch.testing.assert_close(layer.combine(heads, v), torch.cat([mixed[:, 0], mixed[:, 1]], -1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_biases_of_the_paper_form_are_used_and_trained(backend):
    layer, (x, keep) = make_layer("paper", bias=True), make_input()
    layer.backend = backend
    found = results(layer, x, lambda x: layer(x, keep))
    assert {"query.bias", "key.bias", "value.bias", "output.bias"} < found.keys()
    assert_same(found, results(layer, x, lambda x: by_definition(layer, x, keep)))


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_threads_may_change_between_forward_and_backward(form):
    layer, (x, keep) = make_layer(form), make_input(batch=5)
    before = torch.get_num_threads()

    def call(x):
        torch.set_num_threads(3)
        out = layer(x, keep)
        torch.set_num_threads(1)
        return out

    try:
        found = results(layer, x, call)
    finally:
        torch.set_num_threads(before)
    assert_same(found, results(layer, x, lambda x: by_definition(layer, x, keep)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("batch", "length"), [(1, 97), (2, 131), (1, 1), (2, 2)])
def test_the_layer_is_the_definition_at_other_lengths(form, batch, length):
    layer, (x, keep) = make_layer(form), make_input(batch, length)
    assert_same(results(layer, x, lambda x: layer(x, keep)), results(layer, x, lambda x: by_definition(layer, x, keep)), 1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("batch", "length"), [(2, 0), (0, 5)])
@pytest.mark.parametrize("padded", [False, True])
def test_a_batch_without_tokens_goes_through(form, backend, batch, length, padded):
    layer, (x, keep) = make_layer(form), make_input(batch, length)
    layer.backend = backend
    found = results(layer, x, lambda x: layer(x, keep if padded else None))
    assert found["output"].shape == (batch, length, 14)
    assert all((grad == 0).all() for name, grad in found.items())


@pytest.mark.parametrize("form", FORMS)
def test_no_padding_is_the_same_as_nothing_padded(form):
    layer, (x, _) = make_layer(form), make_input()
    everything = torch.ones(3, 7, dtype=torch.bool)
    assert_same(results(layer, x, lambda x: layer(x)), results(layer, x, lambda x: layer(x, everything)), 1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_stands_in_padding_and_how_much_of_it_changes_nothing(form, backend):
    layer, (x, _) = make_layer(form), make_input(batch=1, length=5)
    layer.backend = backend
    alone = layer(x)
    longer = torch.full((1, 11, 14), 1e3, dtype=torch.float64)
    longer[:, :5] = x
    keep = torch.arange(11)[None] < 5
    padded = layer(longer, keep)
    torch.testing.assert_close(padded[:, :5], alone, rtol=1e-10, atol=1e-10)
    assert (padded[:, 5:] == 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_one_equals_a_batch_of_many(form, backend):
    layer, (x, keep) = make_layer(form), make_input(batch=5)
    layer.backend = backend
    whole = layer(x, keep)
    for place in range(5):
        one = slice(place, place + 1)
        torch.testing.assert_close(layer(x[one], keep[one]), whole[one], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("length", [1, 2, 7, 61])
def test_the_layer_in_float32_is_close_to_the_definition_in_float64(form, variant, length):
    layer, (x, keep) = make_layer(form, variant), make_input(batch=3, length=length)
    expected = results(layer, x, lambda x: by_definition(layer, x, keep, variant))
    layer.float()
    found = results(layer, x.float(), lambda x: layer(x, keep))
    for name, tensor in found.items():
        assert float((tensor - expected[name]).abs().max()) <= 1e-5 * max(1.0, float(expected[name].abs().max())), name
    assert (found["output"][~keep] == 0).all()
    assert (found["x"][~keep] == 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("activation", ["logsigmoid", "identity"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_fallback_entries_inside_a_layer_are_the_definition(form, activation, backend):
    """Source scores with a slope of hundreds, so that forbidden keys hold the maximum everywhere."""
    layer, (x, keep) = make_layer(form, score_activation=activation), make_input(batch=4)
    layer.backend = backend
    with torch.no_grad():
        layer.source_score.weight.mul_(300.0)
    with mtsa.count_fallbacks() as count:
        found = results(layer, x, lambda x: layer(x, keep))
    assert (count.entries > 0) == (backend != "reference")
    assert_same(found, results(layer, x, lambda x: by_definition(layer, x, keep)), 1e-7)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_twice_over_a_kept_graph_gives_the_same(form, backend):
    layer, (x, keep) = make_layer(form), make_input()
    layer.backend = backend
    x.requires_grad_()
    named = [x, *layer.parameters()]
    out = layer(x, keep).square().sum()
    first = torch.autograd.grad(out, named, retain_graph=True)
    second = torch.autograd.grad(out, named)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_another_call_between_forward_and_backward_changes_nothing(form):
    layer, (x, keep) = make_layer(form), make_input()
    other, other_keep = make_input(batch=2, length=13, seed=9)

    def disturbed(x):
        out = layer(x, keep)
        layer(other.requires_grad_(), other_keep).sum().backward()
        return out

    assert_same(results(layer, x, disturbed), results(layer, x, lambda x: layer(x, keep)), 1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_an_input_that_needs_no_gradient_trains_the_parameters_alike(form):
    layer, (x, keep) = make_layer(form), make_input()
    expected = results(layer, x, lambda x: layer(x, keep).sum(-1))
    layer.zero_grad()
    weighting = torch.randn(3, 7, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (layer(x, keep).sum(-1) * weighting).sum().backward()
    assert x.grad is None
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("frozen", ["value.weight", "query.weight", "source_score.bias", "all"])
def test_frozen_parameters_get_no_gradient_and_the_others_the_same(form, frozen):
    layer, (x, keep) = make_layer(form), make_input()
    expected = results(layer, x, lambda x: layer(x, keep))
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(name != frozen and frozen != "all")
    found = results(layer, x, lambda x: layer(x, keep))
    assert frozen not in found
    assert_same(found, {name: expected[name] for name in found}, 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_modes_without_gradients_give_the_same_and_leave_training_alone(form):
    layer, (x, keep) = make_layer(form), make_input()
    expected = results(layer, x, lambda x: layer(x, keep))
    with torch.inference_mode():
        inferred = layer(x, keep)
    with torch.no_grad():
        quiet = layer(x, keep)
    assert torch.equal(inferred, expected["output"])
    assert torch.equal(quiet, expected["output"])
    assert_same(results(layer, x, lambda x: layer(x, keep)), expected, 1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_an_input_that_is_not_contiguous_gives_the_same(form):
    layer, (x, keep) = make_layer(form), make_input()
    strided = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert not strided.is_contiguous()
    assert_same(results(layer, strided, lambda x: layer(x, keep)), results(layer, x, lambda x: layer(x, keep)), 1e-12)


@pytest.mark.parametrize("form", ["paper", "released"])
def test_a_map_put_in_place_of_another_or_hooked_is_used(form):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(14, 2, form=form)
    x = torch.randn(2, 5, 14)
    plain = layer(x)
    seen = []
    handle = layer.value.register_forward_hook(lambda module, given, out: seen.append(out.shape))
    assert torch.allclose(layer(x), plain, atol=1e-6)
    handle.remove()
    assert seen

    class Doubled(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.weight, self.bias = inner, inner.weight, inner.bias

        def forward(self, given):
            return 2 * self.inner(given)

    layer.value = Doubled(layer.value)
    assert not torch.allclose(layer(x), plain, atol=1e-3)


@pytest.mark.parametrize("form", ["paper", "released"])
def test_nan_in_padding_reaches_no_gradient(form):
    layer = mtsa.MultiMaskAttention(14, 2, form=form)
    x, keep = torch.randn(2, 5, 14), torch.ones(2, 5, dtype=torch.bool)
    keep[0, 3:] = False
    x[0, 3:] = float("nan")
    x.requires_grad_()
    layer(x, keep).pow(2).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in layer.parameters())


@pytest.mark.parametrize("form", ["paper", "released"])
def test_padding_that_changes_between_forward_and_backward_is_noticed(form):
    layer = mtsa.MultiMaskAttention(14, 2, form=form)
    keep = torch.ones(2, 5, dtype=torch.bool)
    keep[0, 3:] = False
    out = layer(torch.randn(2, 5, 14), keep)
    keep.fill_(True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("backend", ["auto", "native", "factored"])
def test_second_derivatives_are_those_of_the_definition(backend):
    layer = mtsa.MultiMaskAttention(14, 2)
    x = torch.randn(2, 5, 14, requires_grad=True)

    def second(name):
        layer.backend = name
        (grad,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    torch.testing.assert_close(second(backend), second("reference"), rtol=1e-4, atol=1e-4)


def test_second_derivatives_are_refused_where_they_are_not_available():
    layer = mtsa.MultiMaskAttention(14, 2)
    x = torch.randn(2, 5, 14, requires_grad=True)
    layer.backend = "blocked"
    with pytest.raises(RuntimeError, match="factored"):
        torch.autograd.grad(layer(x).sum(), x, create_graph=True)


def test_the_masks_are_part_of_what_a_layer_prints():
    assert "Window(radius=3)" in repr(mtsa.MultiMaskAttention(14, 2, masks="window(3)"))


@pytest.mark.parametrize("form", FORMS)
def test_one_source_layer_is_linear_in_the_keys_or_values(form):
    layer, (x, _) = make_layer(form, source_layers=1), make_input()
    _, k, v, s = layer.project(x)
    assert layer.source_hidden is None
    torch.testing.assert_close(s, per_head(k if form == "paper" else v, layer.source_score))


def test_other_numbers_of_source_layers_are_refused():
    with pytest.raises(ValueError, match=r"source_layers \(3\) must be 1 or 2"):
        mtsa.MultiMaskAttention(8, 2, source_layers=3)
