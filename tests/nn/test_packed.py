"""Packed sequences: every implementation against the definition in float64, and against the same sequences one by one."""

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import mtsa
from mtsa.masks import Mask
from mtsa.nn import operators
from mtsa.nn.mask_specs import HeadMasks
from tests import attention_cases as cases
from tests.nn.layers import FORMS

LENGTHS = (5, 1, 0, 13, 2)
BOUNDS = torch.tensor([0, *itertools.accumulate(LENGTHS)])
TOTAL = int(BOUNDS[-1])
BACKENDS = (*cases.BACKENDS, "triton")
INTERVALS = ("forward", "window(3) & noself", "forward & distance(0.5)", "backward")
VARIANTS = [
    (backend, activation, names)
    for backend in cases.BACKENDS
    for activation in cases.PAIRWISE
    for names in (cases.NAMES[:8], cases.NAMES[8:])
] + [("triton", activation, INTERVALS) for activation in cases.PAIRWISE]


@dataclass(frozen=True)
class Every(Mask):
    """A mask of a user's own, which depends on the positions themselves."""

    step: int = 3

    def allowed(self, query, key):
        return (key % self.step == 0) & (key <= query)


class Learned(nn.Module, Mask):
    """A mask with a trainable bias."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.3))

    def allowed(self, query, key):
        return torch.ones_like(query == key)

    def bias(self, query, key, dtype):
        return -self.slope * (query - key).abs().to(dtype)

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


def sequences(names, lengths=LENGTHS, **options):
    """A case of each sequence that is not empty."""
    made = [cases.make(names, batch=1, queries=n, seed=place, **options) for place, n in enumerate(lengths)]
    return [case for case in made if case.tensors[0].shape[2]]


def joined(parts):
    return tuple(torch.cat(tensors, 2) for tensors in zip(*parts, strict=True))


def run_packed(parts, backend, bounds=BOUNDS, **options):
    leaves = [tensor.clone().requires_grad_() for tensor in joined([case.tensors for case in parts])]
    grad = torch.cat([case.grad for case in parts], 2)
    options = {"masks": parts[0].masks, "score_activation": parts[0].score_activation, **options}
    out = mtsa.tensorized_attention(*leaves, cu_seqlens=bounds, backend=backend, **options)
    return out.detach(), *torch.autograd.grad(out, leaves, grad)


def assert_near(found, expected, rtol=1e-5, atol=2e-6):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.to(one.dtype), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("backend", "activation", "names"), VARIANTS)
def test_every_implementation_is_within_the_budget_of_its_sequences(backend, activation, names):
    parts = sequences(names, score_activation=activation)
    found = run_packed(parts, backend)
    truths = joined([case.dense(torch.float64) for case in parts])
    plain = [joined([case.dense(torch.float32, spelling) for case in parts]) for spelling in range(3)]
    floor = 5e-6 * max(cases.largest(truth) for truth in truths[1:])
    for place, (one, truth) in enumerate(zip(found, truths, strict=True)):
        error = max(cases.largest(spelling[place] - truth) for spelling in plain)
        budget = 3 * error + floor if place else 2 * error + 2e-6
        assert cases.largest(one.double() - truth) <= budget


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sequence_with_extreme_scores_does_not_change_its_neighbours(backend, activation):
    names = ("forward", "window(2)")
    calm, steep = (sequences(names, (6, 4), steep=size, score_activation=activation) for size in (1.0, 3000.0))
    bounds = torch.tensor([0, 6, 10])
    alone = run_packed(calm[:1], backend, torch.tensor([0, 6]))
    together = run_packed([calm[0], steep[1]], backend, bounds)
    assert_near([tensor[:, :, :6] for tensor in together], alone)
    exact = steep[1].dense(torch.float64)[0]
    assert cases.largest(together[0][:, :, 6:].double() - exact) <= 1e-2  # scores of 3000 in float32


@pytest.mark.parametrize("backend", cases.BACKENDS)
@pytest.mark.parametrize("kind", ["own", "tensor", "callable", "long"])
def test_other_masks_and_long_sequences_equal_one_by_one(backend, kind):
    lengths = (300, 1, 140, 0, 20) if kind == "long" else LENGTHS
    names = ("forward", "window(2)", "distance(0.3)")
    bounds = torch.tensor([0, *itertools.accumulate(lengths)])
    total, whole, options = int(bounds[-1]), None, {}
    if kind == "callable":
        if backend in ("native", "blocked"):
            pytest.skip("has no callables")
        options["score_activation"] = cases.soft_scale
    if kind == "own":
        options["masks"] = [Every(2), Every(3), mtsa.masks.Window(1)]
    if kind == "tensor":
        whole = torch.rand(1, 3, total, total, generator=torch.Generator().manual_seed(0)) < 0.6
    expected = []
    parts = sequences(names, lengths)
    starts = [start for start, n in zip(bounds.tolist(), lengths, strict=False) if n]
    for start, case in zip(starts, parts, strict=True):
        n = case.tensors[0].shape[2]
        own = options if whole is None else {"masks": whole[:, :, start : start + n, start : start + n]}
        leaves = [tensor.double().requires_grad_() for tensor in case.tensors]
        out = mtsa.tensorized_attention(*leaves, backend="factored", **{"masks": case.masks, **own})
        expected.append((out.detach(), *torch.autograd.grad(out, leaves, case.grad.double())))
    found = run_packed(parts, backend, bounds, **options, **({} if whole is None else {"masks": whole}))
    assert_near(found, joined(expected), atol=1e-5)


def test_a_mask_of_a_users_own_is_drawn_for_one_sequence_and_not_for_all_tokens():
    drawn = []

    @dataclass(frozen=True)
    class Recorded(Every):
        def allowed(self, query, key):
            drawn.append((query.shape[0], key.shape[1]))
            return super().allowed(query, key)

    layer = mtsa.MultiMaskAttention(14, 2, masks=Recorded())
    drawn.clear()
    layer(torch.randn(TOTAL, 14), cu_seqlens=BOUNDS).sum().backward()
    assert set(drawn) == {(max(LENGTHS), max(LENGTHS))}


@pytest.mark.parametrize("backend", cases.BACKENDS)
def test_a_bias_over_packed_positions_is_that_of_each_sequence(backend):
    parts = sequences(("full",) * 2)
    bias = torch.randn(1, 2, TOTAL, TOTAL, generator=torch.Generator().manual_seed(0))
    allowed = torch.rand(1, 1, TOTAL, TOTAL, generator=torch.Generator().manual_seed(1)) < 0.7
    full = (mtsa.masks.Full(),) * 2
    found = run_packed(parts, backend, masks=HeadMasks(full, allowed, bias))
    expected = []
    for start, case in zip([start for start, n in zip(BOUNDS.tolist(), LENGTHS, strict=False) if n], parts, strict=True):
        own = slice(start, start + case.tensors[0].shape[2])
        leaves = [tensor.double().requires_grad_() for tensor in case.tensors]
        masks = HeadMasks(full, allowed[:, :, own, own], bias[:, :, own, own].double())
        options = {"masks": masks, "score_activation": case.score_activation}
        out = mtsa.tensorized_attention(*leaves, backend="reference", **options)
        expected.append((out.detach(), *torch.autograd.grad(out, leaves, case.grad.double())))
    assert_near(found, joined(expected), atol=1e-5)


@pytest.mark.parametrize("backend", ["factored", "reference", "auto"])
def test_trainable_masks_get_the_gradient_of_all_sequences(backend):
    parts, learned = sequences(("full",) * 2), Learned()
    out = mtsa.tensorized_attention(
        *joined([case.tensors for case in parts]), masks=learned, cu_seqlens=BOUNDS, backend=backend
    )
    alone = [mtsa.tensorized_attention(*case.tensors, masks=learned, backend=backend) for case in parts]
    (found,), (expected,) = (torch.autograd.grad((y * y).sum(), [learned.slope]) for y in (out, torch.cat(alone, 2)))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype):
    parts = sequences(("forward", "backward"))
    tensors = [tensor.to(dtype) for tensor in joined([case.tensors for case in parts])]
    out = mtsa.tensorized_attention(*tensors, masks=parts[0].masks, cu_seqlens=BOUNDS)
    exact = mtsa.tensorized_attention(*(t.float() for t in tensors), masks=parts[0].masks, cu_seqlens=BOUNDS.int())
    torch.testing.assert_close(out, exact.to(dtype), rtol=0, atol=torch.finfo(dtype).eps)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_differs_between_sequences_and_has_matching_gradients(backend):
    one = cases.make(("full",), batch=1, queries=6)
    q, k, _, s = (torch.cat([tensor] * 3, 2) for tensor in one.tensors)
    v = torch.cat([one.tensors[2]] * 3, 2).requires_grad_()
    bounds = torch.tensor([0, 6, 12, 18])

    def run(p):
        torch.manual_seed(3)
        return mtsa.tensorized_attention(q, k, v, s, cu_seqlens=bounds, dropout_p=p, backend=backend)

    out = run(0.5)
    assert torch.equal(out, run(0.5))
    first, second, third = out.split(6, 2)
    assert not torch.allclose(first, second)
    assert not torch.allclose(second, third)
    assert not torch.allclose(out, run(0.0))
    grad = torch.randn_like(out)
    (dv,) = torch.autograd.grad(out, v, grad)
    torch.testing.assert_close((dv * v).sum(), (grad * out).sum(), rtol=1e-4, atol=1e-4)  # the output is linear in v


def test_dropout_keeps_the_mean():
    parts = sequences(("full",) * 2, (40, 24), width=64)
    tensors, bounds = joined([case.tensors for case in parts]), torch.tensor([0, 40, 64])
    plain = mtsa.tensorized_attention(*tensors, cu_seqlens=bounds)
    torch.manual_seed(0)
    drawn = [mtsa.tensorized_attention(*tensors, cu_seqlens=bounds, dropout_p=0.3) for _ in range(300)]
    assert (torch.stack(drawn).mean(0) - plain).abs().max() < 0.15


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize(("backend", "activation"), [("auto", "logsigmoid"), ("factored", "identity"), ("auto", torch.tanh)])
def test_a_compiled_function_gives_the_same_for_other_lengths(backend, activation):
    def function(q, k, v, s, bounds):
        masks = [Every(2), mtsa.masks.Window(2)] if backend == "auto" and activation == "logsigmoid" else "forward, window(2)"
        options = {"masks": masks, "score_activation": activation, "backend": backend}
        return mtsa.tensorized_attention(q, k, v, s * 1.5, cu_seqlens=bounds, **options) * 2.0

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for lengths in ((5, 1, 4), (3, 0, 6)):
        parts = sequences(("full",) * 2, lengths)
        bounds = torch.tensor([0, *itertools.accumulate(lengths)])
        leaves = [tensor.requires_grad_() for tensor in joined([case.tensors for case in parts])]
        grads = []
        for call in (compiled, function):
            out = call(*leaves, bounds)
            grads.append((out.detach(), *torch.autograd.grad(out.square().sum(), leaves)))
        assert_near(*grads, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("fresh_compiler")
def test_wrong_boundaries_are_found_in_a_compiled_function():
    compiled = torch.compile(
        lambda q, bounds: mtsa.tensorized_attention(q, q, q, q, cu_seqlens=bounds), backend="eager", fullgraph=True
    )
    with pytest.raises(ValueError, match="cu_seqlens ends with 4, but the input has 5 tokens"):
        compiled(torch.randn(1, 2, 5, 3), torch.tensor([0, 4]))


@pytest.mark.parametrize(("name", "dtype"), [("native", torch.float32), ("factored", torch.float64)])
def test_the_packed_operator_passes_opcheck(name, dtype):
    tensors = [torch.randn(1, 2, 7, 4, dtype=dtype, requires_grad=True) for _ in range(4)]
    options = ("forward, backward", "logsigmoid", 0.3, 0.0, False, name)
    packed = (*tensors, None, None, None, None, torch.tensor([0, 3, 3, 7]), None, *options)
    torch.library.opcheck(operators.tensorized_attention, packed)
    query = torch.randn(1, 2, 2, 4, dtype=dtype, requires_grad=True)
    later = (query, *tensors[1:], None, None, None, None, None, torch.tensor([5]), *options)
    torch.library.opcheck(operators.tensorized_attention, later)


@pytest.mark.parametrize("activation", cases.PAIRWISE)
def test_an_exported_graph_serves_other_lengths(activation):
    class Packed(nn.Module):
        def forward(self, q, k, v, s, bounds):
            options = {"masks": "forward, window(2)", "score_activation": activation}
            return mtsa.tensorized_attention(q, k, v, s, cu_seqlens=bounds, **options)

    tokens, count = torch.export.Dim("tokens", min=2), torch.export.Dim("count", min=3)
    given = (*joined([case.tensors for case in sequences(("full",) * 2)]), BOUNDS)
    shapes = (*({2: tokens},) * 4, {0: count})
    graph = torch.export.export(Packed(), given, dynamic_shapes=shapes).module()
    for lengths in (LENGTHS, (4, 3), (1, 9, 30)):
        tensors = joined([case.tensors for case in sequences(("full",) * 2, lengths)])
        bounds = torch.tensor([0, *itertools.accumulate(lengths)])
        torch.testing.assert_close(graph(*tensors, bounds), Packed()(*tensors, bounds), rtol=1e-5, atol=1e-6)


def test_transforms_of_torch_func_and_second_derivatives_work():
    tensors = [tensor.double() for tensor in joined([case.tensors for case in sequences(("forward", "window(2)"))])]

    def total(q, backend="auto"):
        options = {"masks": "forward, window(2)", "cu_seqlens": BOUNDS, "backend": backend}
        return mtsa.tensorized_attention(q, *tensors[1:], **options).square().sum()

    q = tensors[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(total(q), q)
    torch.testing.assert_close(torch.func.grad(total)(tensors[0]), expected)
    small = [tensor[:, :, :5].float().requires_grad_() for tensor in tensors]
    for backend in ("factored", "native"):
        out = mtsa.tensorized_attention(*small, cu_seqlens=torch.tensor([0, 2, 5]), backend=backend)
        (first,) = torch.autograd.grad(out.square().sum(), small[0], create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), small[0])
        assert second.abs().max() > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tokens_and_no_sequences_give_nothing(backend):
    for bounds in ([0], [0, 0, 0]):
        empty = torch.zeros(1, 2, 0, 3, requires_grad=True)
        out = mtsa.tensorized_attention(empty, empty, empty, empty, cu_seqlens=torch.tensor(bounds), backend=backend)
        assert out.shape == (1, 2, 0, 3)
        out.sum().backward()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [{}, {"score_activation": "identity", "masks": "window(2), noself"}])
def test_a_layer_gives_packed_padded_and_single_sequences_the_same(form, options):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(14, 2, form=form, **options).double()
    x = torch.randn(TOTAL, 14, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(TOTAL, layer.out_dim, dtype=torch.float64)
    wanted = [x, *layer.parameters()]
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    padded = x.new_zeros(len(LENGTHS), max(LENGTHS), 14).masked_scatter(mask[..., None], x)
    outputs = {
        "packed": layer(x, cu_seqlens=BOUNDS),
        "padded": layer(padded, mask)[mask],
        "alone": torch.cat([layer(part[None])[0] for part in x.split(LENGTHS) if len(part)]),
    }
    results = {name: (out, *torch.autograd.grad(out, wanted, grad)) for name, out in outputs.items()}
    for other in ("padded", "alone"):
        assert_near(results["packed"], results[other], rtol=1e-9, atol=1e-10)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_a_compiled_layer_gives_the_same(form):
    layer = mtsa.MultiMaskAttention(14, 2, form=form, masks="forward, window(2)")
    compiled, x = torch.compile(layer, backend="aot_eager", fullgraph=True), torch.randn(TOTAL, 14)
    torch.testing.assert_close(compiled(x, cu_seqlens=BOUNDS), layer(x, cu_seqlens=BOUNDS), rtol=1e-5, atol=1e-6)


def test_pooling_gives_packed_and_padded_sequences_the_same():
    torch.manual_seed(0)
    pool = mtsa.Source2Token(6).double()
    x = torch.randn(TOTAL, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    padded = x.new_zeros(len(LENGTHS), max(LENGTHS), 6).masked_scatter(mask[..., None], x)
    packed, expected = pool(x, cu_seqlens=BOUNDS), pool(padded, mask)
    assert packed.shape == (len(LENGTHS), 6)
    assert (packed[2] == 0).all()
    grads = [torch.autograd.grad(out.square().sum(), [x, *pool.parameters()]) for out in (packed, expected)]
    assert_near((packed, *grads[0]), (expected, *grads[1]), rtol=1e-9, atol=1e-10)
    nothing = pool(x[:0], cu_seqlens=torch.tensor([0, 0]))
    assert nothing.tolist() == [[0.0] * 6]


def test_pooling_works_under_transforms_and_on_meta_tensors():
    torch.manual_seed(0)
    pool, x = mtsa.Source2Token(6).double(), torch.randn(TOTAL, 6, dtype=torch.float64)
    steep = 800.0 * x  # whose scores overflow without their maximum

    def total(x):
        return pool(x, cu_seqlens=BOUNDS).square().sum()

    for given in (x, steep):
        leaf = given.clone().requires_grad_()
        torch.testing.assert_close(torch.func.grad(total)(given), torch.autograd.grad(total(leaf), leaf)[0])
    several = torch.func.vmap(lambda one: pool(one, cu_seqlens=BOUNDS))(torch.stack([x, steep]))
    torch.testing.assert_close(several, torch.stack([pool(one, cu_seqlens=BOUNDS) for one in (x, steep)]))
    assert pool.to("meta")(x.to("meta"), cu_seqlens=BOUNDS.to("meta")).shape == (len(LENGTHS), 6)


def test_exported_pooling_serves_other_lengths():
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = mtsa.Source2Token(6)

        def forward(self, x, bounds):
            return self.pool(x, cu_seqlens=bounds)

    tokens, count = torch.export.Dim("tokens", min=2), torch.export.Dim("count", min=3)
    model = Pool().eval()
    graph = torch.export.export(model, (torch.randn(TOTAL, 6), BOUNDS), dynamic_shapes=({0: tokens}, {0: count})).module()
    for lengths in (LENGTHS, (4, 3), (1, 9, 0, 30)):
        x, bounds = torch.randn(sum(lengths), 6), torch.tensor([0, *itertools.accumulate(lengths)])
        torch.testing.assert_close(graph(x, bounds), model(x, bounds))


def test_several_threads_give_the_same():
    parts = sequences(("forward", "backward"), (40, 1, 60, 0, 33) * 4, score=32, width=32)
    bounds = torch.tensor([0, *itertools.accumulate((40, 1, 60, 0, 33) * 4)])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run_packed(parts, "native", bounds)
        torch.set_num_threads(2)
        two = run_packed(parts, "native", bounds)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_caller_may_change_the_boundaries_before_the_backward_pass():
    parts = sequences(("forward", "backward"))
    leaves = [tensor.requires_grad_() for tensor in joined([case.tensors for case in parts])]
    bounds = BOUNDS.clone()
    out = mtsa.tensorized_attention(*leaves, masks="forward, backward", cu_seqlens=bounds)
    bounds.fill_(10**9)
    out.sum().backward()
    assert torch.isfinite(leaves[0].grad).all()


WRONG = {
    "list": ([0, 5], TypeError, "cu_seqlens is a list; it must be a tensor of integers"),
    "float": (torch.tensor([0.0, 5.0]), TypeError, "cu_seqlens has dtype torch.float32; it must be int32 or int64"),
    "bool": (torch.tensor([False, True]), TypeError, "cu_seqlens has dtype torch.bool"),
    "matrix": (torch.tensor([[0, 5]]), ValueError, r"cu_seqlens has shape \(1, 2\); it must be \[sequences \+ 1\]"),
    "nothing": (torch.tensor([], dtype=torch.long), ValueError, r"cu_seqlens has shape \(0,\)"),
    "lengths": (torch.tensor([2, 3]), ValueError, "cu_seqlens starts with 2; it must start with 0"),
    "not monotone": (torch.tensor([0, 4, 3, 5]), ValueError, "cu_seqlens decreases from 4 to 3 at index 2"),
    "too short": (torch.tensor([0, 4]), ValueError, "cu_seqlens ends with 4, but the input has 5 tokens"),
    "too long": (torch.tensor([0, 6]), ValueError, "cu_seqlens ends with 6, but the input has 5 tokens"),
    "device": (torch.zeros(2, dtype=torch.long, device="meta"), ValueError, "cu_seqlens is on meta, but the input is on cpu"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_boundaries_are_one_clear_sentence(case):
    bounds, error, message = WRONG[case]
    q = torch.randn(1, 2, 5, 4)
    layer, pool = mtsa.MultiMaskAttention(8, 2), mtsa.Source2Token(8)
    calls = (
        lambda: mtsa.tensorized_attention(q, q, q, q, cu_seqlens=bounds),
        lambda: layer(torch.randn(5, 8), cu_seqlens=bounds),
        lambda: pool(torch.randn(5, 8), cu_seqlens=bounds),
    )
    for call in calls:
        with pytest.raises(error, match=message):
            call()


def test_wrong_shapes_and_combinations_are_one_clear_sentence():
    q, bounds, x = torch.randn(2, 2, 5, 4), torch.tensor([0, 5]), torch.randn(5, 8)
    layer, pool, mask = mtsa.MultiMaskAttention(8, 2), mtsa.Source2Token(8), torch.ones(1, 5, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"packed input must have the shape \[1, H, T, .\]"):
        mtsa.tensorized_attention(q, q, q, q, cu_seqlens=bounds)
    one = q[:1]
    with pytest.raises(ValueError, match="as many queries as keys"):
        mtsa.tensorized_attention(one[:, :, :3], one, one, one, cu_seqlens=bounds)
    with pytest.raises(ValueError, match="packed input has no padding"):
        mtsa.tensorized_attention(one, one, one, one, cu_seqlens=bounds, attention_mask=mask)
    with pytest.raises(ValueError, match="cannot be combined with cu_seqlens"):
        mtsa.tensorized_attention(one, one, one, one, cu_seqlens=bounds, query_offset=2)
    with pytest.raises(ValueError, match=r"x has shape \(1, 5, 8\); with cu_seqlens it must be \[T, embed_dim=8\]"):
        layer(x[None], cu_seqlens=bounds)
    for module in (layer, pool):
        with pytest.raises(ValueError, match=r"x has shape \(5, 7\); with cu_seqlens it must be \[T, embed_dim=8\]"):
            module(x[:, :7], cu_seqlens=bounds)
    with pytest.raises(TypeError, match="cu_seqlens cannot be combined with attention_mask"):
        layer(x, mask, cu_seqlens=bounds)
    with pytest.raises(ValueError, match=r"with cu_seqlens it must be \[T, embed_dim=8\]"):
        pool(x[None], cu_seqlens=bounds)
    with pytest.raises(TypeError, match="packed input has no padding"):
        pool(x, mask, cu_seqlens=bounds)
