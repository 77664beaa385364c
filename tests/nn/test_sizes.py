"""Lengths around the sizes of blocks, unequal lengths, mask tensors, strides."""

import pytest
import torch

import mtsa
from tests import attention_cases as cases

MIXED = ("forward", "backward", "window(3) & noself", "full", "forward & distance(0.5)")
LIGHT = ("forward", "window(2)", "forward & distance(0.5)")


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize(("queries", "keys"), [(96, 97), (97, 97), (131, 131), (192, 193), (193, 97), (257, 257)])
@pytest.mark.parametrize("backend", ["native", "blocked"])
def test_lengths_around_the_size_of_a_block_are_within_budget(queries, keys, pairwise, backend):
    keep = cases.holes(2, keys)
    keep[1, ::3] = True
    case = cases.make(MIXED[:4], queries=queries, keys=keys, width=3, attention_mask=keep, score_activation=pairwise)
    cases.assert_backend_within_budget(case, backend)


@pytest.mark.parametrize(("queries", "keys"), [(2, 257), (257, 2), (1, 131), (131, 1), (0, 97), (97, 0)])
@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("backend", ["native", "blocked"])
def test_very_unequal_lengths_are_within_budget(queries, keys, pairwise, backend):
    case = cases.make(MIXED, queries=queries, keys=keys, width=3, score_activation=pairwise)
    cases.assert_backend_within_budget(case, backend)


@pytest.mark.parametrize("backend", ["factored", "native"])
def test_the_other_backends_are_within_budget_at_a_block_boundary(backend):
    case = cases.make(LIGHT, queries=131, keys=97, width=3, attention_mask=cases.holes(2, 97), score_activation="identity")
    cases.assert_backend_within_budget(case, backend)


@pytest.mark.parametrize("width", [1, 15, 16, 17, 75, 80, 81, 161])
@pytest.mark.parametrize("score", [1, 15, 17, 64])
def test_native_is_within_budget_where_vectors_are_filled_in_part(width, score):
    """Widths on both sides of a multiple of the vector length, and of the number of vectors in registers."""
    keep = cases.holes(2, 13)
    keep[1, ::3] = True
    for activation in cases.PAIRWISE:
        case = cases.make(
            MIXED, queries=11, keys=13, score=score, width=width, attention_mask=keep, score_activation=activation
        )
        cases.assert_backend_within_budget(case, "native")


@pytest.mark.parametrize("queries", [63, 64, 65, 129])
@pytest.mark.parametrize("keys", [255, 256, 257, 516])
def test_native_is_within_budget_at_the_ends_of_tiles_and_chunks(queries, keys):
    keep = cases.holes(2, keys)
    keep[1, ::3] = True
    for activation in cases.PAIRWISE:
        names = ("window(3) & noself", "backward", "full", "distance(0.3)", "forward")
        case = cases.make(names, queries=queries, keys=keys, width=3, attention_mask=keep, score_activation=activation)
        cases.assert_backend_within_budget(case, "native")


@pytest.mark.parametrize("shape", [(2, 1, 1, 1), (1, 3, 1, 1), (1, 1, 13, 1), (1, 1, 1, 11), (2, 3, 13, 11), (13, 11), (11,)])
@pytest.mark.parametrize("backend", cases.BACKENDS)
def test_a_mask_tensor_broadcasts_along_every_axis(backend, shape):
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.7
    case = cases.make(("full",) * 3, queries=13, keys=11, score_activation="identity")
    out = mtsa.tensorized_attention(*case.tensors, masks=allowed, score_activation="identity", backend=backend)
    arrays = {"allowed": allowed.expand(2, 3, 13, 11), "bias": torch.zeros(3, 13, 11)}
    double = [tensor.double() for tensor in case.tensors]
    torch.testing.assert_close(out.double(), cases.oracle.dense(*double, pairwise="identity", **arrays), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", ["factored", "native", "blocked"])
def test_a_mask_tensor_of_large_blocks_is_within_budget(backend):
    allowed = torch.zeros(2, 3, 131, 131, dtype=torch.bool)
    allowed[0, :2, :70, 70:] = True
    allowed[1, 2, 60:, :40] = True
    case = cases.make(("full",) * 3, queries=131, width=3)
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    out = mtsa.tensorized_attention(*leaves, masks=allowed, backend=backend)
    grads = torch.autograd.grad(out, leaves, case.grad)
    double = [tensor.double().requires_grad_() for tensor in case.tensors]
    truth = cases.oracle.dense(*double, allowed=allowed, bias=torch.zeros(3, 131, 131))
    truths = torch.autograd.grad(truth, double, case.grad.double())
    for found, expected in zip((out, *grads), (truth, *truths), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", cases.BACKENDS)
def test_tensors_that_are_not_contiguous_give_the_same(backend):
    case = cases.make(LIGHT, queries=13, keys=11, score_activation="identity")
    moved = [tensor.permute(3, 2, 0, 1).contiguous().permute(2, 3, 1, 0) for tensor in case.tensors]
    assert not moved[0].is_contiguous()
    cases.assert_within_budget(case, cases.replace(case, tensors=tuple(moved)).run_with_grads(backend), lucky=False)


@pytest.mark.slow
@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("backend", ["native", "blocked"])
def test_more_than_two_thousand_tokens_are_within_budget(pairwise, backend):
    keep = cases.holes(1, 2053)
    case = cases.make(("forward", "window(2)"), batch=1, queries=2053, width=2, attention_mask=keep, score_activation=pairwise)
    cases.assert_backend_within_budget(case, backend)
