"""torch.compile: the same numbers as without, gradients and rescued entries included."""

import pytest
import torch

import mtsa
from tests import attention_cases as cases
from tests.nn.layers import FORMS, assert_same, make_input, make_layer, results

# The compiler itself looks at .grad of whatever enters a part of a function that it compiles by itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.usefixtures("fresh_compiler"),
]


def trap(pairwise, length):
    """Opposed gaps: one key with s = +120 and score -240, the others with 0 and 0."""
    case = cases.make(("full", "forward"), queries=length, score=1, width=3, score_activation=pairwise, scale=1.0)
    q, k, _, s = torch.ones_like(case.tensors[0]), *(torch.zeros_like(t) for t in case.tensors[1:])
    k[:, :, 0], s[:, :, 0] = -240.0, 120.0
    return cases.replace(case, tensors=(q, k, case.tensors[2], s))


def compiled_with_grads(function, case):
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    out = function(*leaves)
    return out.detach(), *torch.autograd.grad(out, leaves, case.grad)


@pytest.mark.parametrize("compiler", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("backend", "pairwise"), [("auto", "logsigmoid"), ("factored", "identity"), ("reference", "identity")]
)
def test_a_compiled_function_gives_the_same_at_every_length(compiler, backend, pairwise):
    def function(q, k, v, s):
        out = mtsa.tensorized_attention(
            q, k, v, s * 1.5, masks="forward, backward", score_activation=pairwise, backend=backend
        )
        return out * 2.0

    compiled = torch.compile(function, backend=compiler, fullgraph=True)
    for length in (7, 11, 13, 1):
        case = cases.make(("forward", "backward"), queries=length, score_activation=pairwise)
        found, expected = compiled_with_grads(compiled, case), compiled_with_grads(function, case)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("backend", ["auto", "factored"])
def test_a_compiled_function_rescues_what_underflows(backend, pairwise):
    def function(q, k, v, s):
        return mtsa.tensorized_attention(
            q, k, v, s, masks="full, forward", score_activation=pairwise, scale=1.0, backend=backend
        )

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    for length in (5, 7):
        case = trap(pairwise, length)
        with mtsa.count_fallbacks() as count:
            results = compiled_with_grads(compiled, case)
        assert count.entries > 0
        cases.assert_within_budget(case, results)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compiler", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_layer_gives_the_same(form, compiler):
    layer = make_layer(form)
    compiled = torch.compile(layer, backend=compiler, fullgraph=True)
    for length in (7, 11):
        x, keep = make_input(length=length)
        assert_same(results(layer, x, lambda x, k=keep: compiled(x, k)), results(layer, x, lambda x, k=keep: layer(x, k)))


@pytest.mark.parametrize("form", FORMS)
def test_a_compiled_layer_gives_the_same_in_evaluation(form):
    layer, (x, keep) = make_layer(form).eval(), make_input()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, keep), layer(x, keep), rtol=1e-10, atol=1e-11)


def test_a_compiled_pooling_gives_the_same():
    torch.manual_seed(0)
    pool, (x, keep) = mtsa.Source2Token(14).double(), make_input()
    compiled = torch.compile(pool, backend="eager", fullgraph=True)
    assert_same(results(pool, x, lambda x: compiled(x, keep)), results(pool, x, lambda x: pool(x, keep)))
