"""Any problem, any backend: output and all four gradients against the definition in float64, within the error budget."""

import pytest
import torch
from hypothesis import assume, given, settings

from tests import attention_cases as cases
from tests.properties.strategies import problems


@pytest.mark.parametrize("backend", ["reference", "factored"])
@given(case=problems(pairwise=(*cases.PAIRWISE, cases.soft_scale)))
def test_every_problem_is_solved_within_the_budget(backend, case):
    cases.assert_within_budget(case, case.run_with_grads(backend), lucky=False)


@pytest.mark.parametrize("backend", ["native", "blocked"])
@given(case=problems())
def test_every_problem_with_a_named_activation_is_solved_within_the_budget(backend, case):
    cases.assert_within_budget(case, case.run_with_grads(backend), lucky=False)


@given(case=problems())
def test_auto_solves_every_problem_within_the_budget(case):
    cases.assert_within_budget(case, case.run_with_grads("auto"), lucky=False)


@pytest.mark.parametrize("backend", cases.BACKENDS)
@given(case=problems(steep=(100.0, 1000.0)))
def test_steep_problems_are_solved_within_the_budget(backend, case):
    cases.assert_within_budget(case, case.run_with_grads(backend), lucky=False)


@pytest.mark.parametrize("backend", cases.BACKENDS)
@settings(max_examples=25)
@given(case=problems())
def test_rows_without_a_key_are_exactly_zero(backend, case):
    empty = ~case.arrays["allowed"].any(3)
    out, dq, *_ = case.run_with_grads(backend)
    assert (out[empty] == 0).all()
    assert (dq[empty] == 0).all()


@pytest.mark.parametrize("backend", cases.BACKENDS)
@settings(max_examples=25)
@given(case=problems())
def test_keys_that_no_query_sees_get_exactly_no_gradient(backend, case):
    unseen = ~case.arrays["allowed"].any(2)
    _, _, *key_grads = case.run_with_grads(backend)
    for grad in key_grads:
        assert (grad[unseen] == 0).all()


@settings(max_examples=25)
@given(case=problems())
def test_the_three_ways_to_pass_masks_give_the_same_numbers(case):
    assume(not any("distance" in name for name in case.names))
    outs = [cases.replace(case, how=how).run("reference") for how in ("list", "string", "tensor")]
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[0], outs[2])
