"""Other precisions: half-precision inputs, float64, and autocast."""

import pytest
import torch

import mtsa
from tests import attention_cases as cases

HALF = (torch.float16, torch.bfloat16)
NAMES = ("forward", "backward", "forward & distance(0.5)")


def half_case(dtype, pairwise, length=11):
    return cases.make(NAMES, queries=length, width=3, attention_mask=cases.holes(2, length), score_activation=pairwise).to(
        dtype
    )


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
def test_half_precision_output_is_rounded_once(backend, pairwise, dtype):
    case = half_case(dtype, pairwise)
    out, truth = case.run(backend), case.dense(torch.float64)[0]
    assert out.dtype == dtype
    assert cases.largest(out.double() - truth) <= torch.finfo(dtype).eps * max(1.0, cases.largest(truth))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("length", [11, 97])
@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
def test_half_precision_gradients_are_a_few_roundings_off(backend, pairwise, dtype, length):
    case = half_case(dtype, pairwise, length)
    results, truths = case.run_with_grads(backend), case.dense(torch.float64)
    for found, truth in zip(results[1:], truths[1:], strict=True):
        assert found.dtype == dtype
        assert cases.largest(found.double() - truth) <= 4 * torch.finfo(dtype).eps * cases.largest(truth)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
def test_half_precision_survives_a_gap_of_hundreds(backend, pairwise, dtype):
    case = half_case(dtype, pairwise)
    q, k, v, s = (tensor.clone() for tensor in case.tensors)
    s[:, 0, -1] = 300.0  # forbidden to every forward query
    case = cases.replace(case, tensors=(q, k, v, s))
    out, truth = case.run(backend), case.dense(torch.float64)[0]
    assert cases.largest(out.double() - truth) <= torch.finfo(dtype).eps * max(1.0, cases.largest(truth))


@pytest.mark.parametrize(("backend", "pairwise"), cases.PAIRWISE_OF_FLOAT64)
@pytest.mark.parametrize("steep", [1.0, 200.0])
def test_float64_is_computed_in_float64(backend, pairwise, steep):
    case = cases.make(NAMES, queries=13, keys=11, steep=steep, attention_mask=cases.holes(2, 11), score_activation=pairwise)
    case = case.to(torch.float64)
    truths = case.dense(torch.float64)
    largest = max(cases.largest(truth) for truth in truths)
    for found, truth in zip(case.run_with_grads(backend), truths, strict=True):
        assert found.dtype == torch.float64
        assert cases.largest(found - truth) <= 1e-11 * max(1.0, largest)


@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
def test_autocast_changes_nothing_about_float32_inputs(backend, pairwise):
    case = cases.make(NAMES, queries=13, keys=11, attention_mask=cases.holes(2, 11), score_activation=pairwise)
    expected = case.run_with_grads(backend)
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = mtsa.tensorized_attention(*leaves, backend=backend, **case.options)
    found = (out.detach(), *torch.autograd.grad(out, leaves, case.grad))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "factored", "blocked"])
def test_autocast_takes_the_widest_of_mixed_dtypes(backend):
    case = cases.make(NAMES, queries=5, keys=7)
    q, k, v, s = case.tensors
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = mtsa.tensorized_attention(q.bfloat16(), k.bfloat16(), v, s, backend=backend, **case.options)
    expected = mtsa.tensorized_attention(q.bfloat16().float(), k.bfloat16().float(), v, s, backend=backend, **case.options)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("backend", ["auto", "reference", "factored", "blocked"])
def test_a_layer_under_autocast_is_near_the_layer_in_float32(form, backend):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(14, 2, form=form)
    layer.backend = backend
    x, keep = torch.randn(3, 11, 14), cases.holes(3, 11)

    def step(autocast):
        layer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            out = layer(x, keep)
        out.float().square().sum().backward()
        return out, {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}

    expected, expected_grads = step(False)
    out, grads = step(True)
    assert cases.largest(out.float() - expected) <= 0.03 * cases.largest(expected)
    whole = max(cases.largest(grad) for grad in expected_grads.values())
    for name, grad in grads.items():
        assert cases.largest(grad - expected_grads[name]) <= 0.05 * whole, name


@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_layer_works_in_its_own_dtype(form, dtype):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(14, 2, form=form)
    x, keep = torch.randn(3, 11, 14), cases.holes(3, 11)
    expected = layer(x, keep)
    layer.to(dtype)
    out = layer(x.to(dtype), keep)
    out.float().sum().backward()
    assert out.dtype == dtype
    tolerance = max(8 * torch.finfo(dtype).eps, 1e-5)
    assert cases.largest(out.float() - expected) <= tolerance * max(1.0, cases.largest(expected))
    assert all(torch.isfinite(parameter.grad).all() for parameter in layer.parameters())
