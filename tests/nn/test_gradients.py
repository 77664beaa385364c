"""Derivatives: against finite differences in float64, of the second order, and of a user's own scale function."""

import pytest
import torch
from torch import nn

import mtsa
from mtsa.nn.kernels import cpu
from tests import attention_cases as cases

CHECKED = cases.PAIRWISE_OF_FLOAT64


class LearnedScale(nn.Module):
    """A scale function with parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.8, dtype=torch.float64))
        self.bend = nn.Parameter(torch.tensor([0.5, -0.3], dtype=torch.float64))

    def forward(self, score: torch.Tensor) -> torch.Tensor:
        return self.slope * score + self.bend[0] * torch.tanh(score + self.bend[1])


@pytest.mark.parametrize(("backend", "pairwise"), CHECKED)
@pytest.mark.parametrize("names", [("forward", "window(1) | backward"), ("forward & distance(0.5)", "full")])
def test_gradients_are_the_derivatives(backend, pairwise, names):
    keep = torch.tensor([[True, False, True, True, True], [False] * 5])
    case = cases.make(names, queries=3, keys=5, score=2, width=2, attention_mask=keep, score_activation=pairwise).to(
        torch.float64
    )
    leaves = [tensor.requires_grad_() for tensor in case.tensors]
    assert torch.autograd.gradcheck(lambda *four: cases.replace(case, tensors=four).run(backend), leaves, fast_mode=True)


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_gradients_of_the_blocked_form_are_the_derivatives_across_blocks(pairwise):
    names = ("forward", "window(2)", "forward & distance(0.5)")
    keep = cases.holes(1, 131)
    case = cases.make(names, batch=1, queries=97, keys=131, width=2, attention_mask=keep, score_activation=pairwise).to(
        torch.float64
    )
    truths = case.dense(torch.float64)
    for found, truth in zip(case.run_with_grads("blocked"), truths, strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("backend", ["reference", "factored"])
@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_second_derivatives_are_right_where_they_are_offered(backend, pairwise):
    case = cases.make(("forward",), batch=1, queries=3, score=2, width=2, score_activation=pairwise).to(torch.float64)
    leaves = [tensor.requires_grad_() for tensor in case.tensors]
    assert torch.autograd.gradgradcheck(lambda *four: cases.replace(case, tensors=four).run(backend), leaves, fast_mode=True)


@pytest.mark.parametrize("backend", ["factored", "auto"])
@pytest.mark.parametrize("length", [5, 97])
def test_the_gradient_reaches_the_parameters_of_a_users_scale_function(backend, length):
    names = ("forward", "backward", "window(2)")
    keep = cases.holes(2, length)
    case = cases.make(names, queries=length, width=2, attention_mask=keep).to(torch.float64)
    found, expected = [], []
    for name, results in ((backend, found), ("reference", expected)):
        scale = LearnedScale()
        results.extend(cases.replace(case, score_activation=scale).run_with_grads(name))
        leaves = list(case.tensors)
        out = mtsa.tensorized_attention(*leaves, masks=case.masks, attention_mask=keep, score_activation=scale, backend=name)
        results.extend(torch.autograd.grad(out, list(scale.parameters()), case.grad))
    assert len(found) == 7
    assert all(float(grad.abs().max()) > 1e-3 for grad in expected[5:])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("backend", ["factored"])
def test_the_gradient_reaches_the_scale_function_of_rescued_entries(backend):
    q = torch.ones(1, 1, 3, 1, dtype=torch.float64)
    k = torch.tensor([-240.0, 0.0, 0.1], dtype=torch.float64).reshape(1, 1, 3, 1)
    v = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64).reshape(1, 1, 3, 1)
    s = torch.tensor([120.0, 0.0, 0.5], dtype=torch.float64).reshape(1, 1, 3, 1)
    grads = []
    for name in (backend, "reference"):
        scale = LearnedScale()
        with mtsa.count_fallbacks() as count:
            out = mtsa.tensorized_attention(q, k, v, s, score_activation=scale, backend=name)
        assert (count.entries > 0) == (name != "reference")
        grads.append(torch.autograd.grad(out.sum(), list(scale.parameters())))
    for found, expected in zip(*grads, strict=True):
        assert float(expected.abs().max()) > 1e-3
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
@pytest.mark.parametrize("place", range(4))
def test_a_gradient_asked_of_one_tensor_alone_is_the_same(backend, pairwise, place):
    case = cases.make(("forward", "full"), queries=5, keys=7, score_activation=pairwise)
    expected = case.run_with_grads(backend)[1 + place]
    tensors = [tensor.clone() for tensor in case.tensors]
    tensors[place].requires_grad_()
    out = mtsa.tensorized_attention(*tensors, backend=backend, **case.options)
    out.backward(case.grad)
    torch.testing.assert_close(tensors[place].grad, expected, rtol=1e-6, atol=1e-6)
    assert all(tensor.grad is None for number, tensor in enumerate(tensors) if number != place)


@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
def test_backward_twice_over_a_kept_graph_gives_the_same(backend, pairwise):
    case = cases.make(("forward", "full"), queries=5, keys=7, score_activation=pairwise)
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    out = mtsa.tensorized_attention(*leaves, backend=backend, **case.options)
    first = torch.autograd.grad(out, leaves, case.grad, retain_graph=True)
    second = torch.autograd.grad(out, leaves, case.grad)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize(("backend", "pairwise"), cases.BACKEND_PAIRWISE)
def test_two_calls_before_one_backward_do_not_disturb_each_other(backend, pairwise):
    one, other = (cases.make(("forward", "full"), queries=5, keys=7, seed=seed, score_activation=pairwise) for seed in (1, 2))
    expected = one.run_with_grads(backend)
    leaves = [tensor.clone().requires_grad_() for tensor in one.tensors]
    first = mtsa.tensorized_attention(*leaves, backend=backend, **one.options)
    other.run_with_grads(backend)
    found = (first.detach(), *torch.autograd.grad(first, leaves, one.grad))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("dropout", [0.0, 0.36])
def test_long_calls_that_save_nothing_have_the_same_gradients(monkeypatch, pairwise, dropout):
    names = ("forward", "forward & distance(0.5)", "window(1) | backward")
    case = cases.make(names, queries=70, keys=67, steep=30.0, attention_mask=cases.holes(2, 67), score_activation=pairwise)
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(cpu, "_LONG", least)
        torch.manual_seed(3)
        sizes = []

        def note(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
            out = mtsa.tensorized_attention(*leaves, backend="native", dropout_p=dropout, **case.options)
        found.append((sum(sizes), out.detach(), *torch.autograd.grad(out, leaves, case.grad)))
    assert found[0][0] < found[1][0]
    for again, saved in zip(found[0][1:], found[1][1:], strict=True):
        assert torch.equal(again, saved)
