"""Where the plain algorithm is silently wrong in float32: overflow, a forbidden maximum, opposed gaps, large sizes."""

import pytest
import torch

import mtsa
from tests import cases
from tests.cases import Case

SERVED = cases.BACKEND_PAIRWISE
FACTORED = [pair for pair in SERVED if pair[0] in cases.FACTORED]


def solve(case: Case, backend: str) -> tuple[torch.Tensor, int]:
    """Check a backend against the budget and for silent zeros; its output, and how many entries it computed again."""
    cases.assert_backend_within_budget(case, backend)
    with mtsa.count_rescued() as count:
        out = case.run(backend)
    truth = case.dense(torch.float64)[0]
    assert (out[truth.abs() > 1e-3] != 0).all()
    return out, count.entries


def with_s(case: Case, s: torch.Tensor) -> Case:
    return cases.replace(case, tensors=(*case.tensors[:3], s))


def opposed(pairwise: str, length: int = 5, flip: bool = False) -> Case:
    """One key with s = +120 and score -240 (or the other way round), the others with 0 and 0."""
    case = cases.make(("full", "forward"), queries=length, score=1, width=3, pairwise=pairwise, scale=1.0)
    q, k, _, s = torch.ones_like(case.tensors[0]), *(torch.zeros_like(t) for t in case.tensors[1:])
    k[:, :, 0], s[:, :, 0] = -240.0, 120.0
    if flip:
        k, s = -k, -s
    return cases.replace(case, tensors=(q, k, case.tensors[2], s))


@pytest.mark.parametrize(("backend", "pairwise"), SERVED)
@pytest.mark.parametrize("shift", [89.0, 300.0, 5000.0, -5000.0])
def test_scores_beyond_the_range_of_exp_do_not_overflow(backend, pairwise, shift):
    case = cases.make(("full", "forward"), queries=7, pairwise=pairwise)
    solve(with_s(case, case.tensors[3] + shift), backend)


@pytest.mark.parametrize(("backend", "pairwise"), SERVED)
@pytest.mark.parametrize("gap", [100.0, 1e4])
def test_a_forbidden_key_that_holds_the_maximum_does_not_zero_the_row(backend, pairwise, gap):
    case = cases.make(("forward", "backward"), queries=7, pairwise=pairwise)
    s = case.tensors[3].clone()
    s[:, 0, -1] += gap  # no forward query sees the last key
    s[:, 1, 0] += gap  # no backward query sees the first one
    out, rescued = solve(with_s(case, s), backend)
    assert (out[:, 0, 1:] != 0).all()
    assert (out[:, 1, :-1] != 0).all()
    assert (rescued > 0) == (backend in cases.FACTORED)


@pytest.mark.parametrize(("backend", "pairwise"), SERVED)
@pytest.mark.parametrize("gap", [100.0, 1e4])
def test_a_padded_key_that_holds_the_maximum_does_not_zero_the_row(backend, pairwise, gap):
    keep = torch.tensor([[True] * 6 + [False], [False] + [True] * 6])
    case = cases.make(("full", "noself"), queries=7, keep=keep, pairwise=pairwise)
    out, _ = solve(with_s(case, case.tensors[3] + gap * ~keep[:, None, :, None]), backend)
    assert (out != 0).all()


@pytest.mark.parametrize(("backend", "pairwise"), SERVED)
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("length", [3, 5, 97])
def test_opposed_gaps_in_score_and_s_do_not_zero_the_row(backend, pairwise, flip, length):
    out, rescued = solve(opposed(pairwise, length, flip), backend)
    assert (out[:, 0] != 0).all()
    if not flip:
        assert (rescued > 0) == (backend in cases.FACTORED)


@pytest.mark.parametrize(("backend", "pairwise"), SERVED)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("names", [("forward", "backward", "noself"), ("window(2)", "forward & distance(0.5)", "full")])
def test_the_largest_scores_and_values_of_the_contract_are_within_budget(backend, pairwise, seed, names):
    generator = torch.Generator().manual_seed(seed)

    def spread(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator) * 2 - 1

    keep = cases.holes(2, 11, seed) | (torch.arange(2) == 1)[:, None]
    q, k = spread(2, 3, 13, 5) * 100, spread(2, 3, 11, 5) * 100  # |score| up to 1e4 under scale 1/5
    v, s = spread(2, 3, 11, 7) * 1e6, spread(2, 3, 11, 7) * 1e4
    grad = spread(2, 3, 13, 7)
    solve(Case((q, k, v, s), names, keep=keep, pairwise=pairwise, scale=0.2, grad=grad, label="largest"), backend)


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("length", [131, 257])
def test_steep_scores_over_many_tiles_are_within_budget(pairwise, length):
    names = ("forward", "backward", "forward & distance(0.5)")
    keep = cases.holes(2, length) | (torch.arange(2) == 1)[:, None]
    case = cases.make(names, queries=length, width=3, steep=300.0, values=1e3, keep=keep, pairwise=pairwise)
    _, rescued = solve(case, "tiled")
    assert rescued > 0


@pytest.mark.parametrize("length", [5, 97])
def test_a_users_scale_function_is_rescued_too(length):
    case = cases.replace(opposed("identity", length), pairwise=lambda score: 1.5 * score)
    for backend in ("factored", "tiled"):
        _, rescued = solve(case, backend)
        assert rescued > 0


@pytest.mark.parametrize(("backend", "pairwise"), FACTORED)
def test_ordinary_inputs_need_no_rescue(backend, pairwise):
    keep = cases.holes(2, 11)
    case = cases.make(("forward", "backward", "full"), queries=13, keys=11, steep=3.0, keep=keep, pairwise=pairwise)
    with mtsa.count_rescued() as count:
        if backend in cases.TRAINABLE:
            case.run_with_grads(backend)
        else:
            case.run(backend)
    assert (count.entries, count.saturated) == (0, 0)


def test_counts_nest_and_stop_at_the_end_of_their_block():
    case = opposed("logsigmoid")
    with mtsa.count_rescued() as outer:
        case.run("tiled")
        with mtsa.count_rescued() as inner:
            case.run("tiled")
    case.run("tiled")
    assert inner.entries > 0
    assert outer.entries == 2 * inner.entries


def test_the_count_is_the_number_of_query_and_feature_entries():
    case = opposed("identity")
    with mtsa.count_rescued() as count:
        case.run("tiled")
    # In the full head all 5 queries need it; in the forward head query 0 has no key and query 1 sees key 0 alone.
    assert count.entries == 2 * 3 * (5 + 3)


@pytest.mark.parametrize(("backend", "pairwise"), [p for p in cases.TRAINABLE_PAIRWISE if p[0] != "reference"])
@pytest.mark.parametrize("names", [("full",), ("forward",)])
def test_saturated_rows_have_the_gradient_of_the_definition(backend, pairwise, names):
    """One key holds all the weight of every row, so the true gradient of s is next to nothing."""
    case = cases.make(names, queries=7, values=1e3, pairwise=pairwise)
    s = case.tensors[3].clone()
    s[:, :, 0] += 60.0
    case = with_s(case, s)
    with mtsa.count_rescued() as count:
        results = case.run_with_grads(backend)
    assert count.saturated == 1
    cases.assert_within_budget(case, results)
