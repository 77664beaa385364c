"""The native and the blocked form hold nothing of the size N x M: the largest tensor grows linearly."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import mtsa
from mtsa.bench import memory
from tests import attention_cases as cases


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation gives back."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.numel())
        return result


def largest_tensor(step):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # what other threads do is not seen
    try:
        with Largest() as seen:
            step()
    finally:
        torch.set_num_threads(threads)
    return seen.elements


def attention_step(backend, length, pairwise):
    keep = torch.ones(1, length, dtype=torch.bool)
    keep[:, -3:] = False
    case = cases.make(("full",), batch=1, queries=length, score=3, width=2, attention_mask=keep)
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]

    def step():
        out = mtsa.tensorized_attention(
            *leaves, masks="forward", attention_mask=keep, score_activation=pairwise, backend=backend
        )
        out.backward(case.grad)

    return step


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("backend", ["native", "blocked"])
def test_the_largest_tensor_of_a_step_grows_with_the_length(pairwise, backend):
    short, long = (largest_tensor(attention_step(backend, length, pairwise)) for length in (2048, 4096))
    assert short < 2048 * 2048 / 2
    assert long <= 2.1 * short


def test_the_measure_sees_the_square_of_the_reference():
    short, long = (largest_tensor(attention_step("reference", length, "identity")) for length in (128, 256))
    assert short >= 128 * 128
    assert long >= 3.9 * short


@pytest.mark.slow
def test_the_native_kernel_itself_needs_no_square():
    """Memory that the kernel allocates is no tensor of torch: the peak of a process that makes one step."""
    native = memory.peak_extra("paper", (1, 8192, 16), 4, timeout=120)
    assert native["step_bytes"] < 8192 * 8192 * 4 / 2
    plain = memory.peak_extra("paper/factored", (1, 2048, 16), 4, timeout=120)
    assert plain["step_bytes"] > 4 * 2048 * 2048 * 4  # the measure sees a square of each head


@pytest.mark.parametrize("form", ["paper", "released"])
def test_the_largest_tensor_of_a_layer_step_grows_with_the_length(form):
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(6, 2, form=form)
    sizes = []
    for length in (2048, 4096):
        x = torch.randn(1, length, 6, requires_grad=True)
        sizes.append(largest_tensor(lambda x=x: layer(x).sum().backward()))
    assert sizes[0] < 2048 * 2048 / 2
    assert sizes[1] <= 2.1 * sizes[0]


@pytest.mark.parametrize("backend", ["native", "blocked"])
def test_what_a_call_saves_for_backward_is_linear_in_the_length(backend):
    saved = []
    for length in (1024, 2048):
        case = cases.make(("full",), batch=1, queries=length, score=3, width=2)
        leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
        sizes = []

        def note(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            mtsa.tensorized_attention(*leaves, masks="forward", backend=backend)
        saved.append(sum(sizes))
    assert saved[0] > 0
    assert saved[1] <= 2.1 * saved[0]
