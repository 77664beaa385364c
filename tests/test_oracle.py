"""The oracle itself: the plain formula in float64 against Python numbers, pair by pair."""

import pytest
import torch

from tests import attention_cases as cases
from tests import oracle


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("name", cases.NAMES)
def test_dense_formula_agrees_with_the_definition_worked_out_pair_by_pair(name, pairwise):
    keep = torch.tensor([[True, False, True, True, True], [False] * 5])
    case = cases.make((name,), queries=3, keys=5, score=2, width=2, attention_mask=keep, score_activation=pairwise).to(
        torch.float64
    )
    expected = oracle.by_hand(*case.tensors, case.rules, keep, pairwise)
    torch.testing.assert_close(case.dense(torch.float64)[0], expected, rtol=1e-12, atol=1e-12)


def test_forward_is_before_the_query_and_backward_after_it():
    allowed = oracle.allowed_array([oracle.FORWARD, oracle.BACKWARD], 3, 3, None, 1)[0]
    assert allowed[0].tolist() == [[False] * 3, [True, False, False], [True, True, False]]
    assert allowed[1].tolist() == [[False, True, True], [False, False, True], [False] * 3]


def test_gradient_of_the_dense_formula_is_its_derivative():
    case = cases.make(("forward & distance(0.5)",), batch=1, queries=3, score=2, width=2).to(torch.float64)
    leaves = [tensor.requires_grad_() for tensor in case.tensors]
    assert torch.autograd.gradcheck(lambda *four: oracle.dense(*four, **case.arrays), leaves)
