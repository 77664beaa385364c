"""The Triton kernels under the interpreter (tests/conftest.py sets TRITON_INTERPRET), against the definition in float64."""

import itertools

import pytest
import torch

import mtsa
from mtsa.nn.fallback import LARGE, SATURATED, TINY
from mtsa.nn.kernels import triton as kernels
from mtsa.nn.kernels import triton_check
from mtsa.nn.spec import make_spec
from tests import attention_cases as cases
from tests.attention_cases import Case
from tests.nn.philox import factors, philox

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not kernels.interpreting(), reason="TRITON_INTERPRET is not set")

NAMES = [name for name in cases.POOL if "|" not in name]
GROUPS = (tuple(NAMES[:6]), tuple(NAMES[6:]))
WIDTHS = (16, 64, 75, 80, 128, 300)
DTYPES = (torch.float32, torch.float16)


def assert_near(case, dtype, lucky=True, times=1.0):
    """Within the budget in float32; a few roundings off in half precision."""
    if dtype == torch.float32:
        cases.assert_within_budget(case, case.run_with_grads("triton"), lucky=lucky, times=times)
        return
    case = case.to(dtype)
    results, truths = case.run_with_grads("triton"), case.dense(torch.float64)
    eps = torch.finfo(dtype).eps
    assert results[0].dtype == dtype
    assert cases.largest(results[0].double() - truths[0]) <= eps * max(1.0, cases.largest(truths[0]))
    for found, truth in zip(results[1:], truths[1:], strict=True):
        assert found.dtype == dtype
        assert cases.largest(found.double() - truth) <= 4 * eps * max(cases.largest(truth) for truth in truths[1:])


def test_there_is_a_group_for_every_mask_that_is_an_interval():
    assert sorted(itertools.chain(*GROUPS)) == sorted(NAMES)
    spec = make_spec(*cases.make(tuple(NAMES)).tensors, masks=[cases.POOL[name][0] for name in NAMES])
    assert kernels.unsupported_reason(spec, "cpu", (16, 16)) is None


@pytest.mark.parametrize("names", GROUPS, ids=["simple", "joined"])
@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("padded", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_every_mask_is_within_budget(names, activation, padded):
    keep = cases.holes(1, 19) if padded else None
    case = cases.make(names, batch=1, queries=23, keys=19, attention_mask=keep, score_activation=activation)
    assert_near(case, torch.float32)


@pytest.mark.parametrize("activation", cases.PAIRWISE)
def test_several_tiles_are_within_budget(activation):
    keep = cases.holes(2, 67, 1)
    case = cases.make(("forward", "window(2)"), queries=37, keys=67, attention_mask=keep, score_activation=activation)
    assert_near(case, torch.float32)


@pytest.fixture
def tf32():
    """Tiles of TF32; the interpreter multiplies in float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("width", "activation"), [(20, "identity"), (75, "logsigmoid")])
def test_the_tiles_of_other_arithmetic_are_within_budget(dtype, width, activation, monkeypatch):
    """With float32 numbers, also for bfloat16, whose products the interpreter gets wrong."""
    tiles, launches = kernels.tiles, []

    def recorded(kernel, operand, *rest):
        launches.append((kernel, tiles(kernel, dtype, *rest)))
        return launches[-1][1]

    monkeypatch.setattr(kernels, "tiles", recorded)
    keep = cases.holes(1, 37)
    options = {"batch": 1, "queries": 66, "keys": 37, "width": width, "attention_mask": keep}
    assert_near(cases.make(("forward", "forward & distance(0.5)"), **options, score_activation=activation), torch.float32)
    assert dict(launches)["keys"].together == (dtype == torch.bfloat16 and width <= 64)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize(
    ("dtype", "queries", "keys"), [(torch.float32, 67, 67), (torch.float32, 130, 45), (torch.float16, 33, 131)]
)
def test_every_mask_alone_is_within_budget_over_several_tiles(name, activation, dtype, queries, keys):
    keep = cases.holes(2, keys)
    keep[1, ::3] = True
    case = cases.make((name,), queries=queries, keys=keys, width=20, attention_mask=keep, score_activation=activation)
    assert_near(case, dtype)


@pytest.mark.parametrize(("width", "dtype"), [(64, torch.float16), (75, torch.float32)])
def test_head_widths_are_within_budget(width, dtype):
    keep = torch.arange(9)[None] != 3
    case = cases.make(("forward", "window(2)"), batch=1, queries=9, score=width, width=width, attention_mask=keep)
    assert_near(case, dtype)


@pytest.mark.parametrize("activation", cases.PAIRWISE)
def test_errors_of_half_precision_gradients_grow_with_the_values_at_most(activation):
    """The backward pass subtracts products with the rounded output from products with the values: see docs/gpu.md."""
    for mean in (10.0, 100.0):
        case = cases.make(("forward", "full"), batch=1, queries=17, score_activation=activation)
        q, k, v, s = case.tensors
        case = cases.replace(case, tensors=(q, k, v + mean, s)).to(torch.float16)
        results, truths = case.run_with_grads("triton"), case.dense(torch.float64)
        allowed = 4 * torch.finfo(torch.float16).eps * max(map(cases.largest, truths[1:]))
        errors = [cases.largest(found.double() - truth) for found, truth in zip(results[1:], truths[1:], strict=True)]
        assert max(errors) <= allowed * mean / 10
        assert errors[2] <= allowed / 4  # v: without that difference


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize(("score", "width"), [*((width, width) for width in WIDTHS), (300, 16), (16, 300), (129, 7), (1, 1)])
def test_all_head_widths_are_within_budget(score, width, activation, dtype):
    names = ("forward", "backward", "forward & distance(0.5)")
    keep = cases.holes(2, 37) | (torch.arange(2) == 1)[:, None]
    case = cases.make(names, queries=41, keys=37, score=score, width=width, attention_mask=keep, score_activation=activation)
    assert_near(case, dtype)


def test_negative_rates_and_steep_distances_are_within_budget():
    for rate in (-0.5, 30.0):
        case = cases.make(("full",), batch=1, queries=19)
        bias = (torch.arange(19)[None] - torch.arange(19)[:, None]).abs() * -rate
        leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
        out = mtsa.tensorized_attention(*leaves, masks=mtsa.masks.Distance(rate), backend="triton")
        found = (out.detach(), *torch.autograd.grad(out, leaves, case.grad))
        exact = [tensor.double().requires_grad_() for tensor in case.tensors]
        expected = cases.oracle.dense(*exact, allowed=case.arrays["allowed"], bias=bias[None].double())
        truths = (expected.detach(), *torch.autograd.grad(expected, exact, case.grad.double()))
        for one, other in zip(found, truths, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", cases.PAIRWISE)
def test_empty_rows_and_heads_are_exactly_zero_without_gradient(activation):
    keep = torch.tensor([[True] * 5, [False] * 5])
    case = cases.make(("forward", "forward & backward"), queries=5, attention_mask=keep, score_activation=activation)
    only_empty = torch.zeros_like(case.grad)
    only_empty[:, 0, 0] = 1e6
    only_empty[:, 1] = 1e6
    out, *grads = cases.replace(case, grad=only_empty).run_with_grads("triton")
    assert all((grad == 0).all() for grad in grads)
    assert (out[:, 0, 0] == 0).all()
    assert (out[:, 1] == 0).all()
    assert (out[1] == 0).all()
    assert (out[0, 0, 1:] != 0).all()


@pytest.mark.parametrize("garbage", [float("nan"), pytest.param(float("inf"), marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("activation", cases.PAIRWISE)
def test_values_at_padded_positions_never_affect_the_result(activation, garbage):
    keep = torch.tensor([[True, False, True, True, False, True, True], [False, True, False, False, True, True, False]])
    case = cases.make(("full", "forward & distance(0.5)"), queries=5, keys=7, attention_mask=keep, score_activation=activation)
    q, *others = (tensor.clone() for tensor in case.tensors)
    dirty = cases.replace(case, tensors=(q, *(tensor.masked_fill(~keep[:, None, :, None], garbage) for tensor in others)))
    for found, expected in zip(dirty.run_with_grads("triton"), case.run_with_grads("triton"), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


# Numeric traps


def flagged(case: Case) -> int:
    """Entries that the kernels leave to the repair."""
    spec = make_spec(*case.tensors, **case.options)
    return int((kernels.forward(spec, None, *case.tensors)[1] == -torch.inf).sum())


def with_s(case: Case, s: torch.Tensor) -> Case:
    return cases.replace(case, tensors=(*case.tensors[:3], s))


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("shift", [89.0, -5000.0])
def test_scores_beyond_the_range_of_exp_do_not_overflow(activation, shift):
    case = cases.make(("full", "forward"), batch=1, queries=7, score_activation=activation)
    assert_near(with_s(case, case.tensors[3] + shift), torch.float32)


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize(("gap", "padded"), [(100.0, False), (1e4, True)])
def test_a_forbidden_or_padded_key_that_holds_the_maximum_does_not_zero_the_row(activation, gap, padded):
    keep = torch.tensor([[True] * 6 + [False], [False] + [True] * 6]) if padded else None
    case = cases.make(("forward", "backward"), queries=7, attention_mask=keep, score_activation=activation)
    s = case.tensors[3].clone()
    s[:, 0, -1] += gap  # no forward query sees the last key
    s[:, 1, 0] += gap  # no backward query sees the first one
    case = with_s(case, s)
    assert_near(case, torch.float32)
    assert flagged(case) > 0
    truth = case.dense(torch.float64)[0]
    assert (case.run("triton")[truth.abs() > 1e-3] != 0).all()


def opposed(activation, length=5):
    """One key with s = +120 and score -240, the others with 0 and 0."""
    case = cases.make(("full", "forward"), queries=length, score=1, width=3, score_activation=activation, scale=1.0)
    q, k, _, s = torch.ones_like(case.tensors[0]), *(torch.zeros_like(t) for t in case.tensors[1:])
    k[:, :, 0], s[:, :, 0] = -240.0, 120.0
    return cases.replace(case, tensors=(q, k, case.tensors[2], s))


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("length", [5, pytest.param(97, marks=pytest.mark.exhaustive)])
def test_opposed_gaps_are_repaired(activation, length):
    case = opposed(activation, length)
    assert_near(case, torch.float32)
    assert flagged(case) >= 3 * 2 * (length + length - 2)
    half = case.to(torch.float16)
    truths = half.dense(torch.float64)
    for found, truth in zip(half.run_with_grads("triton"), truths, strict=True):
        assert cases.largest(found.double() - truth) <= 4e-3 * max(map(cases.largest, truths))


@pytest.mark.parametrize("activation", cases.PAIRWISE)
def test_a_repair_in_the_last_tile_and_slice_is_within_budget(activation):
    names = ("backward", "forward & distance(0.5)")
    case = cases.make(names, batch=1, queries=35, score=40, width=40, score_activation=activation)
    s = case.tensors[3].clone()
    s[:, 0, 33, -1] += 100.0  # which query 33 does not see, and those before it do
    s[:, 1, 1, 0] += 100.0  # which query 1 does not see, and those after it do
    case = with_s(case, s)
    assert_near(case, torch.float32)
    assert flagged(case) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("names", [("forward", "backward", "noself"), ("window(2)", "forward & distance(0.5)", "full")])
def test_the_largest_scores_and_values_of_the_contract_are_within_budget(activation, seed, names):
    generator = torch.Generator().manual_seed(seed)

    def spread(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator) * 2 - 1

    keep = cases.holes(2, 11, seed) | (torch.arange(2) == 1)[:, None]
    q, k = spread(2, 3, 13, 5) * 100, spread(2, 3, 11, 5) * 100  # |score| up to 1e4 under scale 1/5
    v, s = spread(2, 3, 11, 7) * 1e6, spread(2, 3, 11, 7) * 1e4
    case = Case((q, k, v, s), names, attention_mask=keep, score_activation=activation, scale=0.2, grad=spread(2, 3, 13, 7))
    assert_near(case, torch.float32)


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize(("queries", "keys", "width"), [(7, 7, 7), (3, 30, 40)])
def test_saturated_rows_have_the_gradient_of_the_definition(queries, keys, width, activation):
    """One key holds all the weight of every row, so the true gradient of s is next to nothing."""
    options = {"queries": queries, "keys": keys, "width": width, "values": 1e3}
    case = cases.make(("full",), **options, score_activation=activation)
    s = case.tensors[3].clone()
    s[:, :, 0] += 60.0
    case = with_s(case, s)
    assert flagged(case) > 0
    assert_near(case, torch.float32)


@pytest.mark.parametrize("name", ["one query", "every head", "padded"])
def test_nearly_saturated_rows_keep_their_gradients(name):
    from tests.nn.test_numeric_traps import NEARLY_SATURATED

    assert_near(cases.make(**NEARLY_SATURATED[name]), torch.float32, lucky=False)


@pytest.mark.exhaustive
def test_the_hardest_problems_found_at_random_are_within_budget():
    from tests.nn.test_numeric_traps import HARD

    for settings in HARD.values():
        names = [name.replace("forward | backward", "noself") for name in settings["names"]]  # the same pairs
        case = cases.make(**{**settings, "names": tuple(names)}, score_activation="identity")
        assert_near(case, torch.float32, lucky=False, times=2.0)


def test_the_constants_of_the_kernels_are_those_of_the_fallback():
    from mtsa.nn.kernels import triton_forward

    assert (triton_forward.TINY.value, triton_forward.LARGE.value, triton_forward.SATURATED.value) == (TINY, LARGE, SATURATED)


# Dropout


def test_philox_is_that_of_random123():
    """The test vectors that come with the reference implementation."""
    ones = 2**32 - 1
    assert philox(0, (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(2**64 - 1, (ones,) * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_the_self_check_draws_the_same_numbers():
    counter = torch.tensor([[0, 1, 7, 2**32 - 1], [5, 0, 9, 2**31], [3, 3, 3, 3], [0, 1, 0, 2**32 - 1]])
    words = triton_check.philox(2**61 + 12345, *counter)
    assert words.T.tolist() == [philox(2**61 + 12345, column) for column in counter.T.tolist()]


def with_factors(case, seed, dropout_p, grad):
    """Output and gradients of the definition with the dropout factors of an independent implementation."""
    leaves = [tensor.double().requires_grad_() for tensor in case.tensors]
    q, k, v, s = leaves
    (B, H, N, _), (M, D) = q.shape, v.shape[2:]
    pair, value = factors(seed, dropout_p, B * H, N, M, D)
    whole = cases.oracle.exponents(q, k, s, **case.arrays, pairwise=case.score_activation, scale=case.scale)
    weight = cases.oracle.weights(whole)
    total = weight.sum(3)
    dropped = weight * pair.view(B, H, N, M, 1) * (v * value.view(B, H, M, D))[:, :, None]
    out = dropped.sum(3) / torch.where(total == 0, 1.0, total)
    return out.detach(), *torch.autograd.grad(out, leaves, grad.double())


@pytest.mark.parametrize("activation", cases.PAIRWISE)
@pytest.mark.parametrize("underflow", [False, True])
def test_dropout_has_the_factors_of_an_independent_philox(activation, underflow):
    seed, dropout_p = 2**61 + 4321, 0.36
    keep = cases.holes(2, 13) | (torch.arange(2) == 1)[:, None]
    case = cases.make(("forward", "window(2)"), queries=11, keys=13, attention_mask=keep, score_activation=activation)
    if underflow:
        s = case.tensors[3].clone()
        s[:, :, 12] += 100.0  # which few queries see
        case = with_s(case, s)
        assert flagged(case) > 0
    spec = make_spec(*case.tensors, dropout_p=dropout_p, **case.options)
    drawn = torch.tensor(seed)
    out, total, shift = kernels.forward(spec, drawn, *case.tensors)
    found = (out, *kernels.backward(spec, drawn, case.grad, out, total, shift, *case.tensors))
    for one, other in zip(found, with_factors(case, seed, dropout_p, case.grad), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-5)


def test_seeds_decide_the_dropout():
    case = cases.make(("full",), queries=9)
    torch.manual_seed(1)
    first = case.run("triton", dropout_p=0.3)
    torch.manual_seed(1)
    assert torch.equal(case.run("triton", dropout_p=0.3), first)
    assert not torch.equal(case.run("triton", dropout_p=0.3), first)
