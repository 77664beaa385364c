"""The layer as a third-party module: what other libraries do with modules works, or is refused in one sentence."""

import contextlib
import copy
import dataclasses

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import mtsa
from mtsa.interop import as_multihead_attention
from mtsa.masks import Forward, Full, Mask, Window

FORMS = ("paper", "released")
pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.fixture
def x():
    return torch.randn(3, 9, 48, generator=torch.Generator().manual_seed(1))


def make(form="paper", **options):
    torch.manual_seed(0)
    return mtsa.MultiMaskAttention(48, 4, form=form, **options)


PROJECTIONS = {
    "paper": ("query", "key", "value", "output", "source_hidden", "source_score"),
    "released": ("query", "key", "value", "gate", "source_hidden", "source_score"),
}


@pytest.mark.parametrize(("form", "name"), [(form, name) for form in FORMS for name in PROJECTIONS[form]])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_every_projection_is_called_so_that_patches_and_hooks_work(form, name, mode, x):
    layer = getattr(make(form), mode)()
    module, plain = getattr(layer, name), layer(x)
    inner, calls = module.forward, []
    module.forward = lambda given: calls.append(given.shape) or inner(given) * 1.5
    patched = layer(x)
    del module.forward
    assert len(calls) == 1
    assert not torch.allclose(patched, plain, atol=1e-4)
    seen = []
    handle = module.register_forward_hook(lambda module, given, out: seen.append((given[0], out, out.clone())))
    torch.testing.assert_close(layer(x), plain)
    handle.remove()
    ((_, out, kept),) = seen
    assert torch.equal(out, kept), "what a hook captured was changed afterwards"


@pytest.mark.parametrize("name", ["value", "source_hidden"])
def test_a_projection_replaced_by_the_identity_leaves_the_input_alone(name, x):
    layer = make("released" if name == "value" else "paper")
    setattr(layer, name, nn.Identity())
    before = x.clone()
    first = layer(x)
    assert torch.equal(x, before)
    torch.testing.assert_close(layer(x), first)


def test_masks_can_be_assigned_and_are_checked(x):
    layer = make()
    layer.masks = "forward*2, full*2"
    expected = make(masks="forward*2, full*2")(x)
    torch.testing.assert_close(layer(x), expected)
    layer.masks = Window(1)
    assert layer.masks == (Window(1),) * 4
    with pytest.raises(ValueError, match="masks specify 3 heads, but there are 4"):
        layer.masks = (Forward(),) * 3
    assert layer.masks == (Window(1),) * 4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("padded", [False, True])
def test_the_output_can_be_changed_in_place(form, padded, x):
    mask = torch.ones(3, 9) > 0 if padded else None
    layer = make(form)
    y = layer(x, mask)
    y += x
    y.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


class LearnedBias(Mask):
    """A mask with a parameter, and without a word about being biased."""

    def __init__(self):
        self.slope = nn.Parameter(torch.tensor(0.3))

    def allowed(self, query, key):
        return torch.tensor([[True]])  # broadcasts

    def bias(self, query, key, dtype):
        return -(query - key).abs().to(dtype) * self.slope


@pytest.mark.parametrize("backend", ["auto", "factored", "reference"])
def test_a_mask_with_a_parameter_is_trained(backend, x):
    mask = LearnedBias()
    layer = make(masks=[mask, mask, Full(), Forward()])
    layer.backend = backend
    layer(x).square().sum().backward()
    assert mask.slope.grad is not None
    assert mask.slope.grad.abs() > 1e-6
    with torch.no_grad():
        other = layer(x)
        mask.slope.fill_(2.0)
        assert not torch.allclose(layer(x), other, atol=1e-4)


def test_a_mask_with_a_parameter_is_refused_where_it_would_get_no_gradient(x):
    layer = make(masks=LearnedBias())
    layer.backend = "blocked"
    with pytest.raises(ValueError, match="gradients of mask parameters"):
        layer(x)


@pytest.mark.parametrize("backend", ["native", "factored", "blocked", "reference"])
def test_a_mask_whose_result_broadcasts_works_everywhere(backend, x):
    class EveryKey(Mask):
        def allowed(self, query, key):
            return torch.ones(1, 1, dtype=torch.bool)

    layer = make(masks=EveryKey()).eval()
    layer.backend = backend
    expected = make(masks="full").eval()(x)
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)
    assert layer.explain(x).token2token.shape == (3, 4, 9, 9)


@pytest.mark.parametrize("form", FORMS)
def test_a_layer_can_be_made_without_memory_and_initialised_later(form):
    layer = mtsa.MultiMaskAttention(48, 4, form=form, device="meta")
    assert all(parameter.is_meta for parameter in layer.parameters())
    layer.to_empty(device="cpu")
    torch.manual_seed(0)
    layer.reset_parameters()
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            bound = (6 / sum(parameter.shape[-2:])) ** 0.5
            assert 0.9 * bound < parameter.abs().max() <= bound, name


def test_device_and_dtype_are_those_of_the_parameters(x):
    layer = mtsa.MultiMaskAttention(48, 4, dtype=torch.float64, device="cpu")
    assert all(parameter.dtype == torch.float64 for parameter in layer.parameters())
    assert layer(x.double()).dtype == torch.float64
    assert mtsa.Source2Token(48, dtype=torch.bfloat16).hidden.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("form", FORMS)
def test_meta_and_fake_tensors_have_shapes(form, x):
    meta = mtsa.MultiMaskAttention(48, 4, form=form, device="meta")
    assert meta(torch.empty(3, 9, 48, device="meta")).shape == (3, 9, 48)
    with FakeTensorMode():
        fake = mtsa.MultiMaskAttention(48, 4, form=form)
        out = fake(torch.empty(2, 5, 48), torch.ones(2, 5, dtype=torch.bool))
        out.sum().backward()
        assert out.shape == (2, 5, 48)
    layer = make(form)
    torch.testing.assert_close(layer(x), layer(x))  # and a real call afterwards


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_torch_compile_of_a_model_has_one_graph_and_trains(form, dropout, x):
    model = nn.Sequential(nn.Linear(48, 48), make(form, dropout=(dropout, dropout)), nn.Linear(48, 3))
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend="aot_eager")
    torch.manual_seed(5)
    compiled(x).sum().backward()
    assert all(parameter.grad is not None for parameter in compiled.parameters())
    if dropout == 0:
        model(x).sum().backward()
        for one, other in zip(model.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(compiled.eval()(x), model.eval()(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["native", "factored"])
@pytest.mark.parametrize("padded", [False, True])
def test_the_operator_passes_opcheck(dtype, name, padded):
    if name == "native" and dtype == torch.float64:
        dtype = torch.bfloat16
    tensors = [torch.randn(2, 2, 5, 8, dtype=dtype, requires_grad=True) for _ in range(4)]
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]) if padded else None
    arguments = (*tensors, mask, None, None, None, None, None, "forward, backward", "logsigmoid", 0.3, 0.0, False, name)
    torch.library.opcheck(torch.ops.mtsa.tensorized_attention.default, arguments)


@pytest.mark.parametrize("form", FORMS)
def test_transforms_of_torch_func_work(form, x):
    layer = make(form)
    weights = dict(layer.named_parameters())

    def loss(weights, one):
        return torch.func.functional_call(layer, weights, (one[None],)).square().sum()

    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)  # one gradient for each sequence
    for place in range(3):
        layer.zero_grad()
        loss(weights, x[place]).backward()
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(grads[name][place], parameter.grad, rtol=1e-3, atol=1e-3)
    jacobian = torch.func.jacrev(lambda one: layer(one[None])[0, 0, :2])(x[0])
    assert jacobian.shape == (2, 9, 48)


@pytest.mark.parametrize("threads", [1, 2])
def test_flop_counters_and_profilers_see_the_attention(threads, x):
    layer, before = make(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with FlopCounterMode(display=False) as counter:
            layer(x).sum().backward()
    finally:
        torch.set_num_threads(before)
    counts = counter.get_flop_counts()["Global"]
    assert counts[torch.ops.mtsa.tensorized_attention] == 2 * 3 * 4 * 9 * 9 * (12 + 2 * 12)
    assert counts[torch.ops.mtsa.tensorized_attention_backward] > 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
def test_tracing_is_refused_in_one_sentence(x):
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace.*torch\.export"):
        torch.jit.trace(make().eval(), x)


def test_export_with_a_fixed_backend_is_refused_in_one_sentence(x):
    layer = make().eval()
    layer.backend = "factored"
    with pytest.raises(Exception, match='backend "factored" cannot be exported'):
        torch.export.export(layer, (x,))


def test_the_layer_serves_inside_a_transformer_encoder_layer(x):
    block = nn.TransformerEncoderLayer(48, 4, dim_feedforward=16, dropout=0.0, batch_first=True)
    block.self_attn = as_multihead_attention(make())
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[0, 5:] = True
    for mode in (block.train(), block.eval()):
        out = mode(x, src_key_padding_mask=padding)
        changed = x.clone()
        changed[0, 5:] = 100.0
        torch.testing.assert_close(mode(changed, src_key_padding_mask=padding)[0, :5], out[0, :5])
    stack = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    assert stack(x, src_key_padding_mask=padding).shape == x.shape
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, src_key_padding_mask=padding), block(x, src_key_padding_mask=padding))
    turned = nn.TransformerEncoderLayer(48, 4, dim_feedforward=16, dropout=0.0)
    turned.load_state_dict(nn.TransformerEncoderLayer(48, 4, dim_feedforward=16).state_dict())
    layer = make()
    turned.self_attn = as_multihead_attention(layer, batch_first=False)
    torch.testing.assert_close(turned.self_attn(x, x, x, need_weights=False)[0], layer(x.transpose(0, 1)).transpose(0, 1))
    first, other = turned(x), x.clone()
    other[:, 1] += 1.0  # another sequence of the batch
    torch.testing.assert_close(turned(other)[:, 0], first[:, 0])


def test_the_interface_of_multihead_attention(x):
    layer = make().eval()
    module = as_multihead_attention(layer)
    out, weights = module(x, x, x)
    torch.testing.assert_close(out, layer(x))
    torch.testing.assert_close(weights, layer.explain(x).token2token.mean(1))
    assert module(x, x, x, average_attn_weights=False)[1].shape == (3, 4, 9, 9)
    assert module(x, x, x, need_weights=False)[1] is None
    other = torch.randn(3, 4, 48)
    torch.testing.assert_close(module(x, other, other, need_weights=False)[0], layer(x, context=other))
    causal = as_multihead_attention(make(masks="causal").eval())
    forbidden = nn.Transformer.generate_square_subsequent_mask(9)
    torch.testing.assert_close(causal(x, x, x, attn_mask=forbidden, is_causal=True)[0], causal.layer(x))
    for arguments, options, words in (
        ((x, x, x.clone()), {}, "key and value must be the same"),
        ((x, x, x), {"attn_mask": forbidden}, "attn_mask differs from the masks"),
        ((x, x, x), {"is_causal": True}, 'masks="causal"'),
        ((x, other, other), {}, "need_weights=False"),
        ((x[0], x[0], x[0]), {}, "add a batch dimension"),
    ):
        with pytest.raises(ValueError, match=words):
            module(*arguments, **options)
    with pytest.raises(ValueError, match="need_weights=False"):
        as_multihead_attention(make(dropout=0.1))(x, x, x)
    with pytest.raises(TypeError, match="must be a MultiMaskAttention"):
        as_multihead_attention(nn.MultiheadAttention(48, 4))
    with pytest.raises(ValueError, match="maps 48 to 20"):
        as_multihead_attention(mtsa.MultiMaskAttention(48, 4, head_dim=5))


@pytest.mark.parametrize("form", FORMS)
def test_attention_to_a_context_is_the_definition(form, x):
    layer, context = make(form).eval(), torch.randn(3, 5, 48)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    found = layer(x, mask, context=context)
    layer.backend = "reference"
    torch.testing.assert_close(found, layer(x, mask, context=context), rtol=1e-5, atol=1e-5)
    context[1, 2:] = float("nan")
    layer.backend = "auto"
    torch.testing.assert_close(layer(x, mask, context=context), found)
    with pytest.raises(ValueError, match="context has batch size 2, but x has 3"):
        layer(x, context=context[:2])


def test_masks_of_padding_in_every_usual_form(x):
    layer = make()
    real = torch.arange(9) < torch.tensor([[9], [4], [6]])
    expected = layer(x, real)
    for mask in (real.long(), real.int(), real.to(torch.uint8)):
        torch.testing.assert_close(layer(x, mask), expected)
    torch.testing.assert_close(layer(x, key_padding_mask=~real), expected)
    torch.testing.assert_close(layer(x, key_padding_mask=torch.zeros(3, 9).masked_fill(~real, -torch.inf)), expected)
    with pytest.warns(DeprecationWarning, match="keep= is deprecated and will be removed in version 0.4; use attention_mask="):
        torch.testing.assert_close(layer(x, keep=real), expected)
    with pytest.raises(TypeError, match="not both"):
        layer(x, real, key_padding_mask=~real)
    with torch.inference_mode():
        made_in_inference = real.clone()
    layer(x, made_in_inference).sum().backward()


def test_old_names_of_the_function_work_with_a_warning():
    tensors = [torch.randn(2, 2, 5, 8) for _ in range(4)]
    real = torch.ones(2, 5, dtype=torch.bool)
    with (
        pytest.warns(
            DeprecationWarning, match="pairwise= is deprecated and will be removed in version 0.4; use score_activation="
        ),
        pytest.warns(DeprecationWarning, match="keep= is deprecated and will be removed in version 0.4; use attention_mask="),
    ):
        found = mtsa.tensorized_attention(*tensors, pairwise="identity", keep=real)
    assert torch.equal(found, mtsa.tensorized_attention(*tensors, score_activation="identity", attention_mask=real))
    with pytest.warns(DeprecationWarning, match="scales= is deprecated"):
        layer = mtsa.MultiMaskAttention(8, 2, scales=("identity", "logsigmoid"))
    assert (layer.score_activation, layer.source_activation) == ("identity", "logsigmoid")
    with pytest.warns(DeprecationWarning, match="count_fallbacks"):
        assert mtsa.count_rescued is mtsa.count_fallbacks


@pytest.mark.parametrize("form", FORMS)
def test_nan_in_padding_does_not_reach_an_explanation(form, x):
    layer = make(form).eval()
    real = torch.arange(9) < torch.tensor([[9], [4], [6]])
    x = x.masked_fill(~real[..., None], float("nan"))
    found = layer.explain(x, real, full_weights=True)
    assert all(
        torch.isfinite(tensor).all() for tensor in (found.output, found.token2token, found.source2token, found.full_weights)
    )


def test_nested_tensors_are_refused_in_one_sentence():
    nested = torch.nested.nested_tensor([torch.randn(3, 48), torch.randn(5, 48)], layout=torch.jagged)
    with pytest.raises(TypeError, match="nested tensor; pad it with"):
        make()(nested)


@pytest.mark.parametrize("activation", ["gelu", "silu", torch.sin])
@pytest.mark.parametrize("form", FORMS)
def test_more_activations(activation, form, x):
    layer = make(form, activation=activation)
    expected = make(form, activation=activation)
    expected.backend = "reference"
    torch.testing.assert_close(layer(x), expected(x), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(layer(x), make(form)(x), atol=1e-4)


def test_an_activation_with_parameters_is_registered_once(x):
    layer = make(activation=nn.PReLU(), source_activation=nn.PReLU())
    names = [name for name in layer.state_dict() if "activation" in name or "act" in name.split(".")[0]]
    assert names == ["activation.weight", "source_activation.weight"]
    layer(x).sum().backward()
    assert layer.activation.weight.grad is not None
    for option in ("activation", "score_activation"):
        with pytest.raises(TypeError, match="pass an instance"):
            make(**{option: nn.ReLU})


def test_one_dropout_rate_is_that_of_the_dense_layers():
    layer = make(dropout=0.25)
    assert (layer.dense_dropout, layer.attention_dropout) == (0.25, 0.0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*quantize.*:UserWarning")
def test_quantized_copies_answer_nearly_the_same(x):
    layer = make().eval()
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(layer), {nn.Linear}, dtype=torch.qint8)
    assert (small(x) - layer(x)).abs().max() < 0.1 * layer(x).abs().max()


def test_a_bias_with_a_parameter_is_trained_in_compiled_graphs_and_under_dispatch_modes(x):
    for watched in (False, True):
        mask = LearnedBias()
        layer = make(masks=mask)
        if watched:
            with FlopCounterMode(display=False):
                layer(x).square().sum().backward()
        else:
            torch.compile(layer, backend="aot_eager")(x).square().sum().backward()
        assert mask.slope.grad is not None


@pytest.mark.parametrize("compiled", [False, True])
def test_a_subclass_of_a_mask_keeps_its_own_rule(compiled, x):
    @dataclasses.dataclass(frozen=True)
    class Even(Forward):
        def allowed(self, query, key):
            return (key < query) & (key % 2 == 0)

    layer = make(masks=[Even(), Even() & Window(3), Forward(), Full()]).eval()
    expected = {}
    for backend in ("reference", "auto", "blocked"):
        layer.backend = backend
        run = torch.compile(layer, backend="eager") if compiled else layer
        expected[backend] = run(x)
        torch.testing.assert_close(expected[backend], expected["reference"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("watched", [False, True])
def test_gradients_in_half_precision_are_not_those_of_a_rounded_output(dtype, watched):
    torch.manual_seed(0)
    q, k, v, s = (torch.randn(1, 4, 200, 32) for _ in range(4))
    tensors = [tensor.to(dtype) for tensor in (q, k, v + 100.0, s)]
    upstream = torch.randn(1, 4, 200, 32).to(dtype)

    def grads(backend, kind):
        leaves = [tensor.detach().clone().to(kind).requires_grad_() for tensor in tensors]
        with FlopCounterMode(display=False) if watched else contextlib.nullcontext():
            out = mtsa.tensorized_attention(*leaves, masks="forward*2, backward*2", backend=backend)
            out.backward(upstream.to(kind))
        return [leaf.grad.double() for leaf in leaves]

    for found, truth in zip(grads("native", dtype), grads("factored", torch.float64), strict=True):
        assert (found - truth).norm() <= 0.02 * truth.norm()


def test_second_derivatives_where_some_tensors_need_no_gradient():
    tensors = [torch.randn(1, 2, 5, 4) for _ in range(4)]
    found = []
    for backend in ("native", "reference"):
        q = tensors[0].clone().requires_grad_()
        out = mtsa.tensorized_attention(q, *tensors[1:], backend=backend)
        (grad,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
        found.append(torch.autograd.grad(grad.square().sum(), q)[0])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


def test_torch_func_works_with_dropout_in_training(x):
    layer = make(dropout=0.1)
    weights = dict(layer.named_parameters())
    grads = torch.func.grad(lambda weights: torch.func.functional_call(layer, weights, (x,)).sum())(weights)
    assert all(torch.isfinite(grad).all() for grad in grads.values())


def test_padded_positions_are_zero_with_a_hook_on_the_output_layer(x):
    layer = make()
    layer.output.register_forward_hook(lambda module, given, out: out + 1.0)
    real = torch.arange(9) < torch.tensor([[9], [4], [6]])
    assert (layer(x, real)[~real] == 0).all()


@pytest.mark.parametrize("masks", [None, "window(0)"])
def test_short_and_narrow_sequences_take_no_slow_branch(masks):
    """Two tokens, or a window of one: every query has one key, and none of its entries needs the fallback."""
    layer = make(masks=masks)
    x = torch.randn(128, 2, 48, requires_grad=True)
    with mtsa.count_fallbacks() as count:
        layer(x).sum().backward()
    assert (count.entries, count.heads) == (0, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_buffers_do_not_depend_on_the_default_dtype(dtype):
    """The kernel writes float32 whatever the default is."""
    tensors = [torch.randn(2, 2, 50, 8, requires_grad=True) for _ in range(4)]
    upstream = torch.randn(2, 2, 50, 8)
    expected = torch.autograd.grad(mtsa.tensorized_attention(*tensors, masks="forward"), tensors, upstream)
    torch.set_default_dtype(dtype)
    try:
        found = torch.autograd.grad(mtsa.tensorized_attention(*tensors, masks="forward"), tensors, upstream)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_a_backward_hook_on_the_gate_sees_one_input():
    layer = mtsa.MultiMaskAttention(16, 2, form="released")
    seen = []
    layer.gate.register_full_backward_hook(lambda module, inputs, outputs: seen.append([one.shape for one in inputs]))
    layer(torch.randn(2, 5, 16, requires_grad=True)).sum().backward()
    assert seen == [[torch.Size([2, 10, 16])]]


class TrainedBias(nn.Module, mtsa.masks.Mask):
    """A mask that is a module, with a parameter in its bias."""

    biased = True

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.5))

    def allowed(self, query, key):
        return torch.ones_like(query - key, dtype=torch.bool)

    def bias(self, query, key, dtype):
        return -self.rate * (query - key).abs()


def test_a_mask_that_is_a_module_is_used_trained_and_saved():
    mask, x = TrainedBias(), torch.randn(2, 5, 16)
    made = mtsa.MultiMaskAttention(16, 2, masks=mask)
    assigned = copy.deepcopy(made)
    assigned.masks = "full*2"
    assert not any("rate" in name for name, _ in assigned.named_parameters())
    plain = assigned(x)
    assigned.masks = mask
    assert assigned.masks == (mask, mask)
    for layer in (made, assigned):
        assert [name for name in layer.state_dict() if "rate" in name] == ["mask_modules.0.rate"]
        out = layer(x)
        assert not torch.allclose(out, plain)
        mask.rate.grad = None
        out.square().sum().backward()
        assert mask.rate.grad.abs() > 0


def test_arguments_of_multihead_attention_are_answered_with_the_adapter():
    layer, x = mtsa.MultiMaskAttention(16, 2), torch.randn(2, 5, 16)
    block = nn.TransformerEncoderLayer(16, 2, batch_first=True)
    block.self_attn = layer
    for mode in (True, False):
        with pytest.raises((TypeError, AttributeError), match="as_multihead_attention"), torch.no_grad():
            block.train(mode)(x)


@pytest.mark.parametrize("backend", ["native", "factored", "blocked"])
def test_torch_func_with_a_named_backend_is_refused_in_one_sentence(backend):
    layer = mtsa.MultiMaskAttention(16, 2)
    layer.backend = backend
    with pytest.raises(ValueError, match=r"torch\.func"):
        torch.func.vmap(lambda row: layer(row[None])[0])(torch.randn(2, 5, 16))


def test_a_user_defined_activation_with_dropout_compiles_as_one_graph():
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(16, 2, score_activation=torch.tanh, dropout=(0.0, 0.3))
    x = torch.randn(2, 5, 16, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    first, second = compiled(x), compiled(x)
    assert not torch.allclose(first, second)
    first.sum().backward()
    assert x.grad.isfinite().all()
    layer.eval()
    torch.testing.assert_close(compiled(x), layer(x))


def test_a_name_and_its_old_name_together_are_refused():
    four, mask = [torch.randn(1, 2, 3, 4) for _ in range(4)], torch.ones(1, 3, dtype=torch.bool)
    for options in ({"keep": mask, "attention_mask": mask}, {"pairwise": "identity", "score_activation": "identity"}):
        with pytest.warns(DeprecationWarning, match="is deprecated"), pytest.raises(TypeError, match="pass only"):
            mtsa.tensorized_attention(*four, **options)
