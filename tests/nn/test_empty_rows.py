"""Nothing to look at: no tokens, no keys, no allowed key, nothing but padding. The result is exactly 0, its gradient too."""

import pytest
import torch

import mtsa
from tests import attention_cases as cases

KINDS = {"logsigmoid": "logsigmoid", "identity": "identity", "callable": cases.soft_scale}
SERVED = [(b, name) for b in cases.BACKENDS for name, p in KINDS.items() if cases.serves(b, p)]


@pytest.mark.parametrize(("backend", "kind"), SERVED)
@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 0, 5), (2, 3, 0), (2, 0, 0), (0, 3, 5), (2, 1, 1)])
@pytest.mark.parametrize("padded", [False, True])
def test_a_problem_without_tokens_has_the_right_shape_and_is_zero(backend, kind, batch, queries, keys, padded):
    keep = torch.zeros(batch, keys, dtype=torch.bool) if padded else None
    names = ("forward", "full", "forward & distance(0.5)")
    case = cases.make(names, batch=batch, queries=queries, keys=keys, attention_mask=keep, score_activation=KINDS[kind])
    out, *grads = case.run_with_grads(backend)
    assert out.shape == (batch, 3, queries, 7)
    assert [grad.shape for grad in grads] == [tensor.shape for tensor in case.tensors]
    empty = ~case.arrays["allowed"].any(3)
    assert (out[empty] == 0).all()
    assert (grads[0][empty] == 0).all()


@pytest.mark.parametrize(("backend", "kind"), SERVED)
def test_the_first_forward_query_and_the_last_backward_query_are_exactly_zero(backend, kind):
    case = cases.make(("forward", "backward"), queries=5, score_activation=KINDS[kind])
    out = case.run(backend)
    assert (out[:, 0, 0] == 0).all()
    assert (out[:, 1, 4] == 0).all()
    assert (out[:, 0, 1:] != 0).all()
    assert (out[:, 1, :4] != 0).all()


@pytest.mark.parametrize(("backend", "kind"), SERVED)
def test_an_empty_row_passes_no_gradient_to_anything(backend, kind):
    case = cases.make(("forward", "forward & backward"), queries=5, score_activation=KINDS[kind])
    only_empty = torch.zeros_like(case.grad)
    only_empty[:, 0, 0] = 1e6  # the first query of a forward head
    only_empty[:, 1] = 1e6  # a head without any allowed pair
    for grad in cases.replace(case, grad=only_empty).run_with_grads(backend)[1:]:
        assert (grad == 0).all()


@pytest.mark.parametrize(("backend", "kind"), SERVED)
def test_a_sentence_of_padding_is_zero_and_leaves_the_others_alone(backend, kind):
    keep = torch.tensor([[True] * 5, [False] * 5])
    case = cases.make(("full", "backward"), queries=5, attention_mask=keep, score_activation=KINDS[kind])
    out, *grads = case.run_with_grads(backend)
    assert (out[1] == 0).all()
    assert all((grad[1] == 0).all() for grad in grads)
    cases.assert_within_budget(case, (out, *grads))


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
@pytest.mark.parametrize(("backend", "kind"), SERVED)
def test_what_padding_holds_never_comes_through(backend, kind, garbage):
    keep = torch.tensor([[True, False, True, True, False, True, True], [False, True, False, False, True, True, False]])
    names = ("full", "backward", "forward & distance(0.5)")
    case = cases.make(names, queries=5, keys=7, attention_mask=keep, score_activation=KINDS[kind])
    q, k, v, s = (tensor.clone() for tensor in case.tensors)
    for tensor in (k, v, s):
        tensor.masked_fill_(~keep[:, None, :, None], garbage)
    dirty = cases.replace(case, tensors=(q, k, v, s))
    results, clean = dirty.run_with_grads(backend), case.run_with_grads(backend)
    assert all((grad.movedim(1, 2)[~keep] == 0).all() for grad in results[2:])
    for found, expected in zip(results, clean, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e30])
def test_what_padding_holds_never_comes_through_in_tiles(pairwise, garbage):
    keep = cases.holes(3, 131)
    case = cases.make(("forward", "window(2)"), batch=3, queries=131, width=3, attention_mask=keep, score_activation=pairwise)
    q, *others = (tensor.clone() for tensor in case.tensors)
    dirty = tuple(tensor.masked_fill_(~keep[:, None, :, None], garbage) for tensor in others)
    cases.assert_within_budget(case, cases.replace(case, tensors=(q, *dirty)).run_with_grads("blocked"))


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("masks", ["window(2)", "backward", "forward & window(1)"])
def test_blocks_of_queries_without_a_key_read_nothing_that_earlier_calls_left(masks, dropout_p):
    """A call with NaN fills the buffers of the native kernel; later calls must not see it."""

    def call(queries, keys, fill=None):
        tensors = [torch.randn(1, 1, size, 8) for size in (queries, keys, keys, keys)]
        if fill is not None:
            tensors[1].fill_(fill)
        leaves = [tensor.requires_grad_() for tensor in tensors]
        out = mtsa.tensorized_attention(*leaves, masks=masks, dropout_p=dropout_p, backend="native")
        out.sum().backward()
        return all(bool(leaf.grad.isfinite().all()) for leaf in leaves)

    for queries, keys in ((64, 7), (40, 5), (300, 9), (9, 30), (64, 3)):
        call(300, 300, float("nan"))
        assert call(queries, keys)
