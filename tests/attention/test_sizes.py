"""Lengths at which the tiled form changes its cut, unequal lengths, and many chunks of heads."""

import pytest
import torch

import mtsa
from mtsa.attention import blocks
from tests import cases

MIXED = ("forward", "backward", "window(3) & noself", "full", "forward & distance(0.5)")
LIGHT = ("forward", "window(2)", "forward & distance(0.5)")


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize(("queries", "keys"), [(96, 97), (97, 97), (131, 131), (192, 193), (193, 97), (257, 257)])
def test_tiled_is_within_budget_where_the_cells_change_size(queries, keys, pairwise):
    keep = cases.holes(2, keys)
    keep[1, ::3] = True
    case = cases.make(MIXED[:4], queries=queries, keys=keys, width=3, keep=keep, pairwise=pairwise)
    cases.assert_backend_within_budget(case, "tiled")


@pytest.mark.parametrize(("queries", "keys"), [(2, 257), (257, 2), (1, 131), (131, 1), (0, 97), (97, 0)])
@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_tiled_is_within_budget_for_very_unequal_lengths(queries, keys, pairwise):
    case = cases.make(MIXED, queries=queries, keys=keys, width=3, pairwise=pairwise)
    cases.assert_backend_within_budget(case, "tiled")


@pytest.mark.parametrize("backend", ["factored", "sdpa", "flex"])
def test_the_other_backends_are_within_budget_at_a_tile_boundary(backend):
    case = cases.make(LIGHT, queries=131, keys=97, width=3, keep=cases.holes(2, 97), pairwise="identity")
    cases.assert_backend_within_budget(case, backend)


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("queries", [13, 97])
def test_tiled_gives_the_same_in_many_small_chunks_of_heads(queries, pairwise, monkeypatch):
    names = ("forward", "forward", "forward", "backward", "forward & distance(0.5)")
    case = cases.make(names, batch=3, queries=queries, width=3, keep=cases.holes(3, queries), pairwise=pairwise)
    monkeypatch.setattr(blocks, "_PAIRS", 2 * queries * queries)
    shape = (3, 5, queries, queries, 3)
    problem = mtsa.attention.problem.state(*case.tensors, dropout_p=0.0, **case.options)
    assert len(list(blocks.Grid(problem, shape, torch.device("cpu")).chunks())) > 3
    cases.assert_backend_within_budget(case, "tiled")


@pytest.mark.parametrize("queries", [97, 257])
def test_a_scale_function_of_the_users_own_is_within_budget_in_tiles(queries):
    case = cases.make(LIGHT, queries=queries, keys=131, width=3, keep=cases.holes(2, 131), pairwise=cases.soft_scale)
    cases.assert_backend_within_budget(case, "tiled")


@pytest.mark.parametrize("shape", [(2, 1, 1, 1), (1, 3, 1, 1), (1, 1, 13, 1), (1, 1, 1, 11), (2, 3, 13, 11), (13, 11), (11,)])
@pytest.mark.parametrize("backend", cases.BACKENDS)
def test_a_mask_tensor_broadcasts_along_every_axis(backend, shape):
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.7
    case = cases.make(("full",) * 3, queries=13, keys=11, pairwise="identity")
    out = mtsa.tensorized_attention(*case.tensors, masks=allowed, pairwise="identity", backend=backend)
    arrays = {"allowed": allowed.expand(2, 3, 13, 11), "bias": torch.zeros(3, 13, 11)}
    double = [tensor.double() for tensor in case.tensors]
    torch.testing.assert_close(out.double(), cases.oracle.dense(*double, pairwise="identity", **arrays), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", ["factored", "tiled"])
def test_a_mask_tensor_of_large_blocks_is_within_budget_in_tiles(backend):
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


@pytest.mark.parametrize("backend", cases.TRAINABLE)
def test_tensors_that_are_not_contiguous_give_the_same(backend):
    case = cases.make(LIGHT, queries=13, keys=11, pairwise="identity")
    moved = [tensor.permute(3, 2, 0, 1).contiguous().permute(2, 3, 1, 0) for tensor in case.tensors]
    assert not moved[0].is_contiguous()
    cases.assert_within_budget(case, cases.replace(case, tensors=tuple(moved)).run_with_grads(backend))


@pytest.mark.slow
@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_tiled_is_within_budget_beyond_two_thousand_tokens(pairwise):
    keep = cases.holes(1, 2053)
    case = cases.make(("forward", "window(2)"), batch=1, queries=2053, width=2, keep=keep, pairwise=pairwise)
    cases.assert_backend_within_budget(case, "tiled")
