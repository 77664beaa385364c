"""Properties that every registered encoder has: a new one is tested by being registered."""

import pytest
import torch

from mtsa.encoders import build_encoder, encoder_names, find_encoder
from mtsa.encoders.biblosa import block_length
from mtsa.encoders.multihead import sinusoid
from mtsa.encoders.registry import register
from mtsa.masks import NoSelf, Window
from tests.encoders.small_encoders import SMALL, WIDTH, batch, made

CASES = [
    *(pytest.param(name, SMALL.get(name, {}), id=name) for name in encoder_names()),
    pytest.param("mtsa", {"form": "paper", "head_dim": 5}, id="mtsa-paper"),
    pytest.param("mtsa", {"head_dim": 5, "source_layers": 1}, id="mtsa-one-source-layer"),
    pytest.param("hierarchical_mtsa", {"head_dim": 5, "block": 3, "reach": 2}, id="hierarchical_mtsa-reach"),
    pytest.param(
        "stacked_mtsa",
        {**SMALL["stacked_mtsa"], "scale": 0.0, "input_bias": True, "source_layers": 1},
        id="stacked_mtsa-authors",
    ),
    pytest.param("stacked_multihead", {**SMALL["stacked_multihead"], "input_bias": True}, id="stacked_multihead-bias"),
    pytest.param(
        "stacked_multihead",
        {**SMALL["stacked_multihead"], "masks": "forward(self), backward(self)"},
        id="stacked_multihead-masks",
    ),
    *(
        pytest.param(name, {**SMALL[name], "fusion": True}, id=f"{name}-fusion")
        for name in ("bilstm", "bigru", "multi_cnn", "hierarchical_cnn", "multihead")
    ),
]
every = pytest.mark.parametrize(("name", "options"), CASES)


@every
def test_length_and_width_of_the_output(name, options):
    encoder = made(name, options)
    x, keep = batch(11, 7, 1)
    out = encoder(x, keep)
    assert out.shape == (3, 11, encoder.out_dim)
    assert out.isfinite().all()
    assert (out[~keep] == 0).all()


@every
def test_padding_never_reaches_a_real_token(name, options):
    encoder = made(name, options)
    short, long = batch(11, 7, 2), batch(11, 7, 2, padded=23)
    torch.testing.assert_close(encoder(*long)[:, :11], encoder(*short), rtol=0, atol=2e-6)


@every
def test_a_batch_of_one_equals_a_batch_of_many(name, options):
    encoder = made(name, options)
    x, keep = batch(11, 7, 2)
    together = encoder(x, keep)
    for number, length in enumerate((11, 7, 2)):
        alone = encoder(x[number : number + 1, :length], keep[number : number + 1, :length])
        torch.testing.assert_close(together[number : number + 1, :length], alone, rtol=0, atol=2e-6)


@every
def test_a_sentence_without_tokens_gives_zeros_and_no_nan_gradient(name, options):
    encoder = made(name, options).train()
    x, keep = batch(5, 3)
    keep[1] = False
    x = x.nan_to_num(0.0).requires_grad_()
    out = encoder(x, keep)
    assert (out[1] == 0).all()
    out.square().sum().backward()
    assert x.grad.isfinite().all()
    assert all(value.grad is None or value.grad.isfinite().all() for value in encoder.parameters())


@every
def test_gradients_reach_every_parameter_and_no_padding(name, options):
    encoder = made(name, options).train()
    x, keep = batch(11, 7, 2)
    x = x.nan_to_num(0.5).requires_grad_()
    out = encoder(x, keep)
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    assert (x.grad[~keep] == 0).all()
    assert (x.grad[keep].abs().sum(-1) > 0).all()
    for label, value in encoder.named_parameters():
        if value.requires_grad:
            assert value.grad is not None, label
            assert value.grad.abs().sum() > 0, label


DROPPING = [case for case in CASES if "dropout" in find_encoder(case.values[0]).options]


def test_every_encoder_with_weights_has_dropout():
    assert {case.values[0] for case in DROPPING} == set(encoder_names()) - {"embedding"}


@pytest.mark.parametrize(("name", "options"), DROPPING)
def test_dropout_works_in_training_alone(name, options):
    encoder = made(name, {**options, "dropout": 0.5})
    x, keep = batch(11, 7)
    plain = encoder(x, keep)
    torch.testing.assert_close(encoder(x, keep), plain, rtol=0, atol=0)
    encoder.train()
    assert not torch.equal(encoder(x, keep), encoder(x, keep))


@every
def test_context_reaches_other_tokens_where_there_is_any(name, options):
    """Changing one token changes others; without context it changes none."""
    encoder = made(name, options)
    x, keep = batch(9)
    other = x.clone()
    other[:, 4] += 1.0
    moved = (encoder(other, keep) - encoder(x, keep)).abs().amax(-1)[0] > 1e-6
    assert moved[4]
    assert moved[[3, 5]].all() == (name not in ("embedding", "mtsa_none"))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("bilstm", 1_442_400),
        ("bigru", 1_081_800),
        ("multi_cnn", 720_600),
        ("hierarchical_cnn", 2_701_800),
        ("multihead", 540_000),
        ("disa", 903_000),
        ("biblosa", 2_706_000),
        ("mtsa", 1_262_400),
        ("hierarchical_mtsa", 1_624_200),
        ("mtsa_no_masks", 1_262_400),
        ("mtsa_no_token2token", 902_400),
        ("mtsa_no_source2token", 901_200),
        ("mtsa_none", 180_600),
        ("embedding", 0),
    ],
)
def test_parameter_counts_of_the_papers_setting(name, weights):
    encoder = build_encoder(name, 300)
    assert sum(value.numel() for value in encoder.parameters() if value.requires_grad) == weights
    assert encoder.out_dim == (300 if name in ("hierarchical_cnn", "embedding") else 600)


def test_unknown_names_and_options_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match='did you mean "bilstm"'):
        build_encoder("bi-lstm", 7)
    with pytest.raises(ValueError, match='no option "widht"; did you mean "width"'):
        build_encoder("bilstm", 7, widht=3)


def test_recurrent_encoders_read_around_holes():
    encoder = made("bilstm", SMALL["bilstm"])
    x, _ = batch(5)
    apart = torch.zeros(1, 9, WIDTH)
    places = [0, 2, 3, 7, 8]
    apart[0, places] = x[0]
    keep = torch.zeros(1, 9, dtype=torch.bool)
    keep[0, places] = True
    torch.testing.assert_close(encoder(apart, keep)[0, places], encoder(x, torch.ones(1, 5, dtype=torch.bool))[0])


def test_the_forward_half_of_the_bilstm_equals_a_loop_of_cells():
    encoder = made("bilstm", SMALL["bilstm"])
    x, keep = batch(6)
    cell = torch.nn.LSTMCell(WIDTH, 5)
    cell.load_state_dict({key: getattr(encoder.cell, f"{key}_l0") for key in cell.state_dict()})
    state, outs = None, []
    for step in range(6):
        state = cell(x[:, step], state)
        outs.append(state[0])
    torch.testing.assert_close(encoder(x, keep)[:, :, :5], torch.stack(outs, 1))


def test_disa_equals_its_equations_pair_by_pair():
    encoder = made("disa", SMALL["disa"])
    x, keep = batch(5)
    out = encoder(x, keep)[0]
    for number, part in enumerate(encoder.directions):
        h = torch.nn.functional.elu(part.enter.linear(x[0]))
        for i in range(5):
            keys = range(i) if number == 0 else range(i + 1, 5)
            scores = [5 * torch.tanh((part.dependent.linear(h[j]) + part.head.linear(h[i]) + part.bias) / 5) for j in keys]
            attended = torch.zeros(5)
            if scores:
                weights = torch.softmax(torch.stack(scores), 0)
                attended = sum(w * h[j] for w, j in zip(weights, keys, strict=True))
            gate = torch.sigmoid(part.gate_values.linear(h[i]) + part.gate_attended.linear(attended) + part.gate_bias)
            expected = gate * h[i] + (1 - gate) * attended
            torch.testing.assert_close(out[i, 5 * number : 5 * number + 5], expected)


def test_biblosa_equals_its_equations_block_by_block():
    encoder = made("biblosa", {"width": 5, "block": 3})
    x, keep = batch(7)
    out = encoder(x, keep)[0]
    elu = torch.nn.functional.elu
    for number, part in enumerate(encoder.directions):
        h = elu(part.enter.linear(x[0]))
        first, second = part.pairs.linear(h).chunk(2, -1)
        within = torch.zeros(7, 5)
        blocks = [range(3), range(3, 6), range(6, 7)]
        for block in blocks:
            for i in block:
                keys = [j for j in block if (j < i if number == 0 else j > i)]
                if keys:
                    scores = torch.stack([5 * torch.tanh((first[j] + second[i] + part.bias) / 5) for j in keys])
                    within[i] = (torch.softmax(scores, 0) * h[keys]).sum(0)
        pooled = torch.stack([(torch.softmax(part.pool.linear(within[b]), 0) * within[b]).sum(0) for b in map(list, blocks)])
        context = part.between(pooled[None], torch.ones(1, 3, dtype=torch.bool))[0]
        tiled = torch.stack([context[i // 3] for i in range(7)])
        candidate, gate = part.join.linear(torch.cat([h, within, tiled], -1)).chunk(2, -1)
        expected = torch.sigmoid(gate) * elu(candidate) + (1 - torch.sigmoid(gate)) * h
        torch.testing.assert_close(out[:, 5 * number : 5 * number + 5], expected)


def test_block_length_of_the_authors():
    assert block_length([14] * 10, 128) == 5  # n* = 14, (28)^(1/3) = 3.04 -> 4, + 1
    assert block_length([8, 20], 64) == 5


def test_positions_are_those_of_vaswani():
    places = sinusoid(4, 6, torch.zeros(()))
    assert places[3, 2] == pytest.approx(torch.sin(torch.tensor(3 / 10000 ** (2 / 6))).item(), abs=1e-6)
    assert places[3, 5] == pytest.approx(torch.cos(torch.tensor(3 / 10000 ** (4 / 6))).item(), abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_multihead_equals_its_equations(scale):
    encoder = made("multihead", {**SMALL["multihead"], "position_scale": scale})
    x, keep = batch(6, padded=8)
    placed = x[0, :6] + scale * sinusoid(6, WIDTH, x)
    q, k, v = (part(placed).view(6, 3, 5) for part in encoder.maps)
    for head in range(3):
        weights = torch.softmax(q[:, head] @ k[:, head].T / 5**0.5, -1)
        torch.testing.assert_close(encoder(x, keep)[0, :6, 5 * head : 5 * head + 5], weights @ v[:, head])


def test_gates_of_recurrent_encoders_start_open():
    lstm, gru = made("bilstm", SMALL["bilstm"]).cell, made("bigru", SMALL["bigru"]).cell
    for name in ("bias_ih_l0", "bias_ih_l0_reverse"):
        assert getattr(lstm, name).tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10  # input, forget, cell, output
        assert getattr(gru, name).tolist() == [1.0] * 10 + [0.0] * 5  # reset, update, new


def test_convolutional_encoders_equal_their_equations():
    conv = torch.nn.functional.conv1d
    multi = made("multi_cnn", SMALL["multi_cnn"])
    x, keep = batch(6, padded=9)
    zeros = torch.zeros(1, 2, WIDTH)
    around = {3: (1, 1), 4: (1, 2), 5: (2, 2)}
    parts = []
    for part, (before, after) in zip(multi.parts, around.values(), strict=True):
        padded = torch.cat([zeros[:, :before], x[:, :6], zeros[:, :after]], 1).transpose(1, 2)
        parts.append(conv(padded, part.weight, part.bias).relu())
    torch.testing.assert_close(multi(x, keep)[:, :6], torch.cat(parts, 1).transpose(1, 2))
    layered = made("hierarchical_cnn", SMALL["hierarchical_cnn"])
    h = x[:, :6]
    for number, layer in enumerate(layered.layers):
        side = torch.zeros(1, 2, h.shape[2])
        a, b = (
            conv(torch.cat([side, h, side], 1).transpose(1, 2), layer.weight, layer.bias).relu().transpose(1, 2).chunk(2, -1)
        )
        h = a * torch.sigmoid(b) + (h if number > 0 else 0)
    torch.testing.assert_close(layered(x, keep)[:, :6], h)


def test_a_stacked_layer_feeds_forward_first_and_normalises_after():
    encoder = made("stacked_mtsa", {**SMALL["stacked_mtsa"], "layers": 1})
    x, keep = batch(6)
    (layer,) = encoder.layers
    h = encoder.enter.linear(x)
    fed = layer.narrow.linear(layer.widen.linear(h).relu())
    h = torch.nn.functional.layer_norm(h + fed, (12,))
    h = torch.nn.functional.layer_norm(h + layer.attention(h, keep), (12,))
    torch.testing.assert_close(encoder(x, keep), h)


def test_options_reach_the_attention_layer():
    options = {
        "masks": "window(2), noself",
        "activation": "tanh",
        "score_activation": "identity",
        "source_activation": "logsigmoid",
        "attention_dropout": 0.3,
    }
    layer = build_encoder("mtsa", WIDTH, head_dim=5, dropout=0.2, **options).attention
    assert layer.masks == (Window(2), NoSelf())
    assert (layer.activation, layer.score_activation, layer.source_activation) == ("tanh", "identity", "logsigmoid")
    assert (layer.dense_dropout, layer.attention_dropout) == (0.2, 0.3)


def test_the_multihead_stack_reads_scaled_vectors_with_a_timing_signal():
    encoder = made("stacked_multihead", {**SMALL["stacked_multihead"], "layers": 1, "dropout": 0.4})
    x, keep = batch(6)
    h = encoder.enter.linear(x)
    wanted = h * 12**0.5 + sinusoid(6, 12, x)
    torch.testing.assert_close(encoder.begin(h), wanted)
    dropped = encoder.train().begin(h)
    assert (dropped == 0).any()
    (layer,) = encoder.eval().layers
    fed = layer.narrow.linear(layer.widen.linear(wanted).relu())
    y = torch.nn.functional.layer_norm(wanted + fed, (12,))
    attention = layer.attention
    q, k, v = (part.linear(y).view(1, 6, 2, 6).transpose(1, 2) for part in attention.maps)
    weights = (q @ k.transpose(-1, -2) / 6**0.5).softmax(-1)
    seen = attention.output.linear((weights @ v).transpose(1, 2).reshape(1, 6, 12))
    torch.testing.assert_close(encoder(x, keep), torch.nn.functional.layer_norm(y + seen, (12,)))


def test_options_reach_the_attention_of_a_stack():
    options = {
        "score_activation": "identity",
        "source_activation": "logsigmoid",
        "attention_dropout": 0.3,
        "masks": "window(2), noself",
    }
    stack = build_encoder("stacked_mtsa", WIDTH, **SMALL["stacked_mtsa"], **options)
    for layer in stack.layers:
        assert layer.attention.masks == (Window(2), NoSelf())
        assert (layer.attention.score_activation, layer.attention.source_activation) == ("identity", "logsigmoid")
        assert layer.attention.attention_dropout == 0.3
    plain = build_encoder("stacked_multihead", WIDTH, **SMALL["stacked_multihead"], attention_dropout=0.3)
    assert {layer.attention.dropout for layer in plain.layers} == {0.3}


def test_a_name_is_one_encoders_but_a_class_may_be_defined_again():
    entry = find_encoder("bilstm")
    register("bilstm")(
        type("BiLstmEncoder", (entry.build,), {"__module__": entry.build.__module__, "__qualname__": entry.build.__qualname__})
    )
    register("bilstm")(entry.build)
    assert find_encoder("bilstm") == entry
    with pytest.raises(ValueError, match=r'encoder "bilstm" is already registered .* choose another name'):
        register("bilstm")(find_encoder("bigru").build)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_it_is_built_on_the_meta_device(name, options):
    """Run directories are checked on it before their weights are read."""
    with torch.device("meta"):
        encoder = build_encoder(name, WIDTH, **options)
    assert all(weight.is_meta for weight in encoder.parameters())
