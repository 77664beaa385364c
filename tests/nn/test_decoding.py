"""Queries that continue a sequence: `query_offset`, and the cache of a causal layer."""

import pytest
import torch

import mtsa
from mtsa.masks import Mask
from tests import attention_cases as cases
from tests.nn.layers import FORMS

BACKENDS = (*cases.BACKENDS, "triton")
INTERVALS = ("forward", "window(3) & noself", "distance(0.2) & distance(0.1) & backward", "noself")
MASKS = (
    "causal",
    "forward",
    "window(3) & causal",
    "window(2) & forward, causal & distance(0.2)",
    "window(1) & forward | forward & window(4), causal",
)


class Every(Mask):
    """A mask of a user's own, which depends on the positions themselves."""

    def __repr__(self):
        return "every"

    def allowed(self, query, key):
        return (key % 2 == 0) & (key <= query)


def make_layer(masks, form="paper", **more):
    torch.manual_seed(0)
    return mtsa.MultiMaskAttention(14, 2, form=form, masks=masks, **more).double().eval()


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ragged", [False, True])
def test_queries_with_an_offset_equal_those_of_the_whole_sequence(backend, activation, ragged):
    names = INTERVALS if backend == "triton" else cases.NAMES
    case = cases.make(names, batch=3, queries=17, score_activation=activation)
    lengths, offsets = ([17, 9, 4], [14, 6, 1]) if ragged else ([17] * 3, [14] * 3)
    mask = torch.arange(17) < torch.tensor(lengths)[:, None]
    whole = cases.replace(case, attention_mask=mask).dense(torch.float64)[0]
    rows = torch.tensor(offsets)[:, None] + torch.arange(3)
    q = torch.stack([case.tensors[0][b][:, rows[b]] for b in range(3)])
    expected = torch.stack([whole[b][:, rows[b]] for b in range(3)])
    options = {"masks": case.masks, "score_activation": activation, "backend": backend}
    options |= {"attention_mask": mask, "query_offset": torch.tensor(offsets)} if ragged else {"query_offset": 14}
    leaves = [tensor.clone().requires_grad_() for tensor in (q, *case.tensors[1:])]
    out = mtsa.tensorized_attention(*leaves, **options)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(0))
    spread = torch.zeros_like(whole, dtype=torch.float32)
    for b in range(3):
        spread[b, :, rows[b]] = grad[b]
    exact = cases.replace(case, attention_mask=mask, grad=spread).dense(torch.float64)[1:]
    for number, (found, truth) in enumerate(zip(torch.autograd.grad(out, leaves, grad), exact, strict=True)):
        truth = torch.stack([truth[b][:, rows[b]] for b in range(3)]) if number == 0 else truth
        torch.testing.assert_close(found.double(), truth, rtol=1e-4, atol=2e-5)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("masks", ["causal", Every()])
def test_an_offset_works_in_a_compiled_function(masks):
    def function(q, k, v, s, offset):
        return mtsa.tensorized_attention(q, k, v, s, masks=masks, query_offset=offset)

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    k, v, s = torch.randn(3, 2, 2, 9, 4)
    q = torch.randn(2, 2, 1, 4)
    for offset in (torch.tensor([3, 8]), torch.tensor([0, 5])):
        torch.testing.assert_close(compiled(q, k, v, s, offset), function(q, k, v, s, offset))


@pytest.mark.parametrize(
    ("offset", "error", "message"),
    [
        (-1, ValueError, r"query_offset \(-1\) must not be negative"),
        (1.5, TypeError, "query_offset is a float"),
        (True, TypeError, "query_offset is a bool"),
        (torch.tensor([1.0, 2.0]), TypeError, "query_offset has dtype torch.float32"),
        (torch.tensor([1]), ValueError, r"query_offset has shape \(1,\); it must be an integer or \[B=2\]"),
        (torch.tensor([1, -2]), ValueError, "query_offset contains -2"),
    ],
)
def test_wrong_offsets_are_one_clear_sentence(offset, error, message):
    q = torch.randn(2, 2, 3, 4)
    with pytest.raises(error, match=message):
        mtsa.tensorized_attention(q, q, q, q, query_offset=offset)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("masks", [*MASKS, Every()], ids=str)
def test_token_by_token_equals_the_whole_sequences(form, masks):
    layer, lengths, steps = make_layer(masks, form), [6, 2, 4], 40  # beyond the first capacity of the cache
    x = torch.randn(3, 6 + steps, 14, dtype=torch.float64)
    x[1, 2:6] = torch.nan  # padding of the prompts
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    cache = layer.new_cache()
    with torch.inference_mode():
        first = layer(x[:, :6], mask, cache=cache)
        assert (first[~mask] == 0).all()
    outputs = [[first[b, :n]] for b, n in enumerate(lengths)]
    with torch.no_grad():
        for place in range(6, 6 + steps, 2):  # two tokens at a time, and one sequence that gets only one
            real = torch.tensor([[True, True], [True, False], [True, True]])
            out = layer(x[:, place : place + 2], real, cache=cache)
            for b in range(3):
                outputs[b].append(out[b][real[b]])
        assert cache.lengths == [46, 22, 44]
        for b, n in enumerate(lengths):
            tokens = torch.cat([x[b, :n], x[b, 6:] if b != 1 else x[b, 6::2]])[None]
            torch.testing.assert_close(torch.cat(outputs[b])[None], layer(tokens), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("score_activation", [*cases.PAIRWISE, torch.tanh])
def test_float32_equals_the_whole_sequence_to_1e_5(score_activation):
    layer = make_layer("causal, window(5) & forward", score_activation=score_activation).float()
    x, cache = torch.randn(2, 50, 14), layer.new_cache(capacity=50)
    with torch.inference_mode():
        found = torch.cat([layer(x[:, place : place + 1], cache=cache) for place in range(50)], 1)
        torch.testing.assert_close(found, layer(x), rtol=0, atol=1e-5)


def test_old_keys_are_not_computed_again_and_memory_is_kept():
    layer, seen = make_layer("causal"), []
    layer.key.register_forward_hook(lambda module, given, out: seen.append(given[0].shape[1]))
    cache, memory = layer.new_cache(), set()
    with torch.no_grad():
        for _ in range(100):
            layer(torch.randn(1, 1, 14, dtype=torch.float64), cache=cache)
            memory.add(cache._stored[0].data_ptr())
    assert seen == [1] * 100
    assert len(memory) <= 3  # 32, 64, 128 tokens


def test_heads_with_windows_read_only_what_they_reach():
    layer = make_layer("window(4) & causal")
    cache = layer.new_cache()
    keys = torch.randn(1, 2, 30, 7)
    assert cache.append(keys, keys, keys, None).k.shape[2] == 30
    later = cache.append(keys[:, :, :1], keys[:, :, :1], keys[:, :, :1], None)
    assert (later.k.shape[2], later.query_offset) == (5, 4)


def test_wrong_use_of_a_cache_is_one_clear_sentence():
    layer, x = make_layer("causal"), torch.randn(2, 3, 14, dtype=torch.float64)
    for masks in ("forward, backward", "full", "window(2)", Every() | mtsa.masks.NoSelf()):
        with pytest.raises(ValueError, match=r"attends to later tokens.*requires causal masks"):
            make_layer(masks).new_cache()
    with pytest.raises(RuntimeError, match="a cache does not support gradients"):
        layer(x, cache=layer.new_cache())
    with torch.no_grad():
        cache = layer.new_cache()
        layer(x, cache=cache)
        with pytest.raises(ValueError, match="x has batch size 1, but the cache has 2 sequences"):
            layer(x[:1], cache=cache)
        with pytest.raises(ValueError, match="padding before a token; with a cache, pad on the right"):
            layer(x, torch.tensor([[0, 1, 1], [1, 1, 1]]), cache=cache)
        with pytest.raises(ValueError, match="another layer, or the masks were changed"):
            make_layer("causal")(x, cache=cache)
        with pytest.raises(TypeError, match="cannot be combined with a context"):
            layer(x, context=x, cache=cache)
        with pytest.raises(ValueError, match=r"those of the cache are torch\.float64"):
            layer.float()(x.float(), cache=cache)
        assert cache.lengths == [3, 3]
