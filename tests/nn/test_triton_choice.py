"""Around the Triton kernels: compilation, fake tensors, what is refused, the self-check, and a machine without Triton."""

import subprocess
import sys

import pytest
import torch

import mtsa
from mtsa.nn.backends import choose
from mtsa.nn.kernels import triton as kernels
from mtsa.nn.kernels import triton_check
from mtsa.nn.spec import make_spec
from tests import attention_cases as cases

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not kernels.interpreting(), reason="TRITON_INTERPRET is not set")


@pytest.mark.parametrize("axes", [(1, 2), (2, 3), (0, 1)])
def test_results_are_the_same_bits_each_time_and_for_strided_inputs(axes):
    case = cases.make(("forward", "backward"), queries=9, values=100.0)

    def strided(tensor):
        return tensor.transpose(*axes).contiguous().transpose(*axes)

    q, k, v, s = case.tensors
    other = cases.replace(case, tensors=(strided(q), k, strided(v), s), grad=strided(case.grad))
    for one, two in zip(case.run_with_grads("triton"), other.run_with_grads("triton"), strict=True):
        assert torch.equal(one, two)


def test_second_derivatives_are_computed_by_factored():
    def gradients(backend):
        case = cases.make(("forward", "full"), queries=5)
        leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
        out = mtsa.tensorized_attention(*leaves, masks=case.masks, backend=backend)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(one.square().sum() for one in first), leaves)

    for one, other in zip(gradients("triton"), gradients("factored"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_function_gives_the_same():
    def function(q, k, v, s):
        return mtsa.tensorized_attention(q, k, v, s, masks="forward, backward", backend="triton") * 2.0

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    case = cases.make(("forward", "backward"), queries=9)
    for run in (function, compiled):
        leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
        out = run(*leaves)
        found = (out.detach(), *torch.autograd.grad(out, leaves, case.grad))
        if run is function:
            expected = found
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_bfloat16_is_computed_in_float32_by_the_interpreter():
    case = cases.make(("forward",), queries=9).to(torch.bfloat16)
    out, truth = case.run("triton"), case.dense(torch.float64)[0]
    assert out.dtype == torch.bfloat16
    assert cases.largest(out.double() - truth) <= torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("dropout_p", [0.0, 0.2])
@pytest.mark.parametrize("backend", ["triton", "auto"])
def test_nothing_reads_device_data(backend, dropout_p):
    """A fake tensor on a GPU has no data: reading any of it raises. Without CUDA, torch has no autograd for it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(2, 4, 9, 16, dtype=torch.bfloat16, device="cuda") for _ in range(4)]
        keep = torch.empty(2, 9, dtype=torch.bool, device="cuda")
        options = {"masks": "forward*2, backward*2", "attention_mask": keep, "dropout_p": dropout_p, "backend": backend}
        assert mtsa.explain_backend(*tensors, **options).startswith("triton: ")
        out = mtsa.tensorized_attention(*tensors, **options)
        assert (out.shape, out.dtype, out.device.type) == ((2, 4, 9, 16), torch.bfloat16, "cuda")
        total, shift = torch.empty(2, 4, 9, 16, device="cuda"), torch.empty(2, 4, 9, device="cuda")
        seed = torch.empty((), dtype=torch.int64, device="cuda") if dropout_p else None
        rest = ("forward*2, backward*2", "logsigmoid", 0.25, dropout_p, False, "triton")
        grads = torch.ops.mtsa.tensorized_attention_backward(
            out, out, total, shift, *tensors, keep, *(None,) * 2, seed, *(None,) * 2, *rest
        )
        assert [(grad.shape, grad.device.type) for grad in grads] == [((2, 4, 9, 16), "cuda")] * 4


@pytest.mark.parametrize("positions", ["cu_seqlens", "query_offset"])
def test_nothing_reads_the_positions_of_sequences(positions):
    from torch._subclasses.fake_tensor import FakeTensorMode

    batch = 1 if positions == "cu_seqlens" else 2
    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(batch, 2, 9, 16, device="cuda") for _ in range(4)]
        options = {"masks": "forward, backward", positions: torch.empty(2, dtype=torch.int32, device="cuda")}
        assert mtsa.explain_backend(*tensors, **options).startswith("triton: ")
        assert mtsa.tensorized_attention(*tensors, **options).shape == (batch, 2, 9, 16)
    tensors = [torch.empty(batch, 2, 9, 16, device="meta") for _ in range(4)]
    spec = make_spec(*tensors, masks="forward, backward", **{positions: torch.empty(2, dtype=torch.long, device="meta")})
    with kernels.recorded_launches() as launches:
        out, total, shift = kernels.forward(spec, None, *tensors)
        kernels.backward(spec, None, torch.empty_like(out), out, total, shift, *tensors)
    kinds = {launch.arguments["KIND"] for launch in launches if "KIND" in launch.arguments}
    assert kinds == {2 if positions == "cu_seqlens" else 1}


@pytest.mark.parametrize("dropout_p", [0.0, 0.2])
def test_the_host_side_of_the_kernels_reads_no_data(dropout_p):
    """With meta tensors, which have none; launches are recorded instead of run."""
    q, k, v, s = (torch.empty(2, 2, 9, 20, device="meta") for _ in range(4))
    keep = torch.empty(2, 9, dtype=torch.bool, device="meta")
    spec = make_spec(q, k, v, s, masks="forward, backward", attention_mask=keep, dropout_p=dropout_p)
    seed = torch.empty((), dtype=torch.int64, device="meta") if dropout_p else None
    with kernels.recorded_launches() as launches:
        out, total, shift = kernels.forward(spec, seed, q, k, v, s)
        grads = kernels.backward(spec, seed, torch.empty_like(out), out, total, shift, q, k, v, s)
    assert [grad.shape for grad in grads] == [q.shape] * 4
    assert len(launches) in (9, 10)  # the gradients of keys take one launch or two


# Choice


def test_what_the_kernels_cannot_do_is_refused_with_the_reason(monkeypatch):
    case = cases.make(("full",), queries=5)
    for options, words in (
        ({"masks": torch.ones(5, 5, dtype=torch.bool)}, "not an interval"),
        ({"masks": "forward | backward"}, "not an interval"),
        ({"score_activation": cases.soft_scale}, "does not support a callable"),
    ):
        with pytest.raises(ValueError, match=words):
            mtsa.tensorized_attention(*case.tensors, backend="triton", **options)
    wide = torch.empty(1, 1, 2, 513)
    with pytest.raises(ValueError, match="wider than 512"):
        mtsa.tensorized_attention(wide, wide, wide, wide, backend="triton")
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match="does not run on cpu without TRITON_INTERPRET=1"):
        case.run("triton")


@pytest.mark.parametrize(("biased", "dropout_p"), [(False, 0.0), (True, 0.3)])
def test_the_self_check_passes_for_the_kernels_and_fails_for_wrong_ones(monkeypatch, biased, dropout_p):
    monkeypatch.setattr(triton_check, "_LENGTH", 7)
    x = torch.empty(2, 1, 5, 20)
    keep = torch.ones(2, 5, dtype=torch.bool)
    spec = make_spec(x, x, x, x, attention_mask=keep if biased else None, dropout_p=dropout_p)
    error, allowed = triton_check.worst_error(spec, x, x, biased=biased)
    assert error < allowed / 10
    forward, launch = kernels.forward, kernels._launch

    def wrong(*arguments):
        out, total, shift = forward(*arguments)
        return out * 1.01, total, shift

    def without_repair(kernel, *arguments, **options):
        if not kernel.fn.__module__.endswith("triton_repair"):
            launch(kernel, *arguments, **options)

    for name, fault in (("forward", wrong), ("_launch", without_repair)):
        with monkeypatch.context() as patched:
            patched.setattr(kernels, name, fault)
            assert not triton_check.worst_error(spec, x, x, biased=biased)[0] <= allowed, name


@pytest.mark.parametrize(("name", "expected"), [("highest", "ieee"), ("high", "tf32"), ("medium", "tf32")])
def test_float32_products_follow_the_precision_of_torch(name, expected):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        assert kernels.precision(torch.float32) == expected
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="since torch 2.9")
@pytest.mark.parametrize("name", ["ieee", "tf32"])
def test_float32_products_follow_the_precision_of_the_backend(name):
    """After it is set, `torch.get_float32_matmul_precision` can raise."""
    settings = torch.backends.cuda.matmul
    before, settings.fp32_precision = settings.fp32_precision, name
    try:
        assert kernels.precision(torch.float32) == name
    finally:
        settings.fp32_precision = before


class OnDevice:
    """What the self-check reads of a tensor on a GPU."""

    def __init__(self, device="cuda:0"):
        self.device, self.dtype, self.shape = torch.device(device), torch.float32, (2, 2, 9, 16)


@pytest.fixture
def pretended_gpu(monkeypatch):
    monkeypatch.setattr(triton_check, "_results", {})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


@pytest.mark.usefixtures("pretended_gpu")
def test_the_self_check_runs_once_for_a_configuration_and_never_while_a_graph_is_captured(monkeypatch):
    tensors = cases.make(("full",)).tensors
    spec, calls = make_spec(*tensors), []

    def worst_error(*arguments, **options):
        calls.append(options)
        return 0.0, 1.0

    monkeypatch.setattr(triton_check, "worst_error", worst_error)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.warns(RuntimeWarning, match="call the layer once before"):
        assert "before a CUDA graph was captured" in triton_check.failure(spec, OnDevice(), OnDevice())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for _ in range(2):
        assert triton_check.failure(spec, OnDevice(), OnDevice()) is None
    assert len(calls) == 1


@pytest.mark.usefixtures("pretended_gpu")
@pytest.mark.parametrize("fault", ["wrong", "raises", "nan"])
def test_kernels_that_fail_their_check_are_not_used_with_one_warning(monkeypatch, fault):
    def worst_error(*arguments, **options):
        if fault == "raises":
            raise RuntimeError("out of resource: shared memory\nRequired: 200000")
        return (0.5 if fault == "wrong" else float("inf")), 1e-4

    monkeypatch.setattr(triton_check, "worst_error", worst_error)
    monkeypatch.setattr("mtsa.nn.backends.watched", lambda q: False)
    spec = make_spec(*cases.make(("full",)).tensors)
    with pytest.warns(RuntimeWarning, match="the Triton kernels are not used") as warned:
        choices = [choose(spec, "auto", device="cuda", keys=5, tensors=(OnDevice(), OnDevice())) for _ in range(2)]
    assert len(warned) == 1
    for choice in choices:
        assert choice.backend.name == "factored"
        assert "triton failed its check" in choice.why


BLOCKED = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder())
"""
WITHOUT = """
import torch, mtsa
x = torch.randn(2, 4, 9, 16)
print(mtsa.explain_backend(x, x, x, x).split(":")[0])
print(mtsa.tensorized_attention(x, x, x, x).shape)
try:
    mtsa.tensorized_attention(x, x, x, x, backend="triton")
except ValueError as error:
    print(error)
print(mtsa.backend_table())
"""


@pytest.mark.parametrize("blocked", ['sys.modules["triton"] = None', BLOCKED], ids=["missing", "blocked"])
def test_without_triton_everything_else_works(blocked):
    code = f"import sys\n{blocked}\n{WITHOUT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second, third, *table = done.stdout.splitlines()
    assert first in ("native", "factored")
    assert second == "torch.Size([2, 4, 9, 16])"
    assert "is not available (not installed: pip install 'mtsa[gpu]')" in third
    assert any(line.startswith("triton") and "not installed" in line for line in table)


def test_importing_mtsa_does_not_import_triton():
    """Calls of other backends do not import the kernels either; parts of torch that they use import Triton themselves."""
    call = "x = torch.ones(1, 1, 2, 2); mtsa.tensorized_attention(x, x, x, x); mtsa.backend_table()"
    code = (
        "import sys, torch, mtsa; assert 'triton' not in sys.modules;"
        f"{call}; assert not [name for name in sys.modules if name.startswith('mtsa.nn.kernels.triton_tiles')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
