"""The hierarchical encoder: its equations, its blocks, and long texts."""

import pytest
import torch

from mtsa.encoders import build_encoder
from mtsa.encoders.blocks import fixed_blocks, sentence_blocks
from mtsa.nn.functional import tensorized_attention
from tests.encoders.small_encoders import WIDTH, batch, made

SIZES = {"head_dim": 3, "heads": 2, "block": 4}
DEEP = {**SIZES, "block": 3, "levels": 3}


def random_ends(keep, share=0.3, seed=1):
    """Random ends of sentences; at padded positions they are arbitrary."""
    return torch.rand(keep.shape, generator=torch.Generator().manual_seed(seed)) < share


def greedy_blocks(ends, size):
    """The blocks of one sequence by a loop: as many whole sentences as fit, longer sentences divided."""
    starts = [0, *(n for n in range(1, len(ends)) if ends[n - 1] and not ends[n])]
    blocks, at = [], 0
    while at < len(ends):
        fitting = [start for start in [*starts, len(ends)] if at < start <= at + size]
        stop = max(fitting, default=at + size)
        blocks.append(range(at, stop))
        at = stop
    return blocks


@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_blocks_of_sentences_are_those_of_the_loop(size, share):
    lengths = (29, 1, 13, 17)
    _, keep = batch(*lengths)
    ends = random_ends(keep, share)
    blocks = sentence_blocks(keep, ends, size)
    split = blocks.split(torch.arange(1.0, keep.numel() + 1).view(*keep.shape, 1))[..., 0].view(4, blocks.count, size)
    for row, length in enumerate(lengths):
        wanted = greedy_blocks(ends[row, :length].tolist(), size)
        for number in range(blocks.count):
            members = [] if number >= len(wanted) else [row * 29 + n + 1 for n in wanted[number]]
            assert split[row, number].tolist() == [*members, *[0] * (size - len(members))]
        assert len(wanted) <= 2 * (length // (size + 1)) + 1


@pytest.mark.parametrize("lengths", [(1, 4), (3,), (1,), (50,)])
def test_a_static_graph_has_the_same_blocks(monkeypatch, lengths):
    """Exports have no loop over the data: sentences of 1 and 4 words need the most blocks, 2 of 5 words."""
    _, keep = batch(600, 203, 1, 0)
    ends = torch.zeros_like(keep)
    at = 0
    while (at := at + lengths[int(ends[0].sum()) % len(lengths)]) <= 600:
        ends[:, at - 1] = True
    encoder = made("hierarchical_mtsa", {**SIZES, "levels": 2})
    x = torch.randn(4, 600, WIDTH)
    plain, out = sentence_blocks(keep, ends, 4), encoder(x, keep, ends)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    static = sentence_blocks(keep, ends, 4)
    assert isinstance(static.places, torch.Tensor)
    parts = static.split(x).view(4, static.count, 4, WIDTH)
    torch.testing.assert_close(parts[:, : plain.count], plain.split(x).view(4, plain.count, 4, WIDTH), rtol=0, atol=0)
    assert not parts[:, plain.count :].any()
    torch.testing.assert_close(static.join(static.split(x))[keep], x[keep], rtol=0, atol=0)
    torch.testing.assert_close(encoder(x, keep, ends), out, rtol=0, atol=2e-6)


def test_split_and_join_are_inverse():
    x, keep = batch(23, 9, 1)
    x = x.nan_to_num(0.0)
    for blocks in (fixed_blocks(23, 5), sentence_blocks(keep, random_ends(keep), 5)):
        parts = blocks.split(x)
        assert parts.shape == (3 * blocks.count, 5, WIDTH)
        torch.testing.assert_close(blocks.join(parts)[keep], x[keep], rtol=0, atol=0)
        assert int(blocks.split_mask(keep).sum()) == 33


@pytest.mark.parametrize("score_activation", ["logsigmoid", "identity"])
@pytest.mark.parametrize("sentences", [False, True])
def test_it_equals_its_equations_block_by_block(sentences, score_activation):
    encoder = made("hierarchical_mtsa", {**SIZES, "score_activation": score_activation})
    options = {"masks": "forward, backward", "score_activation": score_activation, "backend": "reference"}
    x, keep = batch(13)
    ends = random_ends(keep) if sentences else None
    spans = greedy_blocks(ends[0].tolist(), 4) if sentences else [range(4), range(4, 8), range(8, 12), range(12, 13)]
    layer = encoder.levels[0].attention
    v = torch.nn.functional.elu(layer.value(x[0])).view(13, 2, 3)
    _, _, _, s = layer.project(x)
    attended, pooled = torch.zeros(13, 2, 3), []
    for span in map(list, spans):
        q, k, values, scores = layer.project(x[:, span])
        within = tensorized_attention(q, k, values, scores, **options)
        attended[span] = within[0].transpose(0, 1)
        weights = torch.softmax(s[0, :, span], 1).transpose(0, 1)  # [R, H, D]
        pooled.append((weights * (v[span] + attended[span])).sum(0).flatten())
    context = encoder.top(torch.stack(pooled)[None])[0]  # [K, C]
    expected = torch.zeros(13, 6)
    for number, span in enumerate(spans):
        for n in span:
            mixed = attended[n] + context[number].view(2, 3)
            gate = layer.gate(v[n][:, None], mixed[:, None])[:, 0].flatten() + encoder.levels[0].block_gate(context[number])
            gate = torch.sigmoid(gate).view(2, 3)
            expected[n] = (gate * v[n] + (1 - gate) * mixed).flatten()
    torch.testing.assert_close(encoder(x, keep, ends)[0], expected)


@pytest.mark.parametrize("options", [SIZES, DEEP], ids=["one level", "three levels"])
@pytest.mark.parametrize("sentences", [False, True])
def test_padding_and_other_texts_do_not_change_a_text(options, sentences):
    encoder = made("hierarchical_mtsa", options)
    x, keep = batch(61, 30, 1, padded=75)
    ends = random_ends(keep) if sentences else None
    together = encoder(x, keep, ends)
    assert (together[~keep] == 0).all()
    for row, length in enumerate((61, 30, 1)):
        part = None if ends is None else ends[row : row + 1, :length]
        alone = encoder(x[row : row + 1, :length], keep[row : row + 1, :length], part)
        torch.testing.assert_close(together[row : row + 1, :length], alone, rtol=0, atol=2e-6)


def test_gradients_reach_every_parameter_of_every_level():
    encoder = made("hierarchical_mtsa", DEEP).train()
    x, keep = batch(150, 91)
    x = x.nan_to_num(0.5).requires_grad_()
    out = encoder(x, keep, random_ends(keep))
    (out * torch.randn(out.shape)).sum().backward()
    assert (x.grad[~keep] == 0).all()
    for name, value in encoder.named_parameters():
        assert value.grad.abs().sum() > 0, name


@pytest.mark.parametrize("sentences", [False, True])
def test_gradients_do_not_depend_on_values_at_padded_positions(sentences):
    encoder = made("hierarchical_mtsa", SIZES).train()
    x, keep = batch(22, 9)
    ends = random_ends(keep) if sentences else None
    found = []
    for filler in (0.0, float("nan")):
        encoder.zero_grad()
        out = encoder(x.masked_fill(~keep[..., None], filler), keep, ends)
        out.square().sum().backward()
        found.append([weight.grad for weight in encoder.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_context_crosses_blocks_in_both_directions():
    encoder = made("hierarchical_mtsa", SIZES)
    x, keep = batch(40)
    other = x.clone()
    other[:, 20] += 3.0
    moved = (encoder(other, keep) - encoder(x, keep)).abs().amax(-1)[0] > 1e-7
    assert moved.all()


def test_reach_limits_the_blocks_that_a_block_attends_to():
    encoder = made("hierarchical_mtsa", {**SIZES, "reach": 2})
    x, keep = batch(40)
    other = x.clone()
    other[:, 21] += 3.0  # in block 5
    moved = (encoder(other, keep) - encoder(x, keep)).abs().amax(-1)[0].view(10, 4).amax(1) > 1e-5
    assert moved.tolist() == [3 <= number <= 7 for number in range(10)]


@pytest.mark.parametrize("option", ["dropout", "attention_dropout"])
def test_dropout_within_blocks_in_training_only(option):
    encoder = made("hierarchical_mtsa", {**SIZES, option: 0.5})
    x, keep = batch(4)
    torch.testing.assert_close(encoder(x, keep), encoder(x, keep), rtol=0, atol=0)
    encoder.levels[0].training = True  # but not its layers, whose dropout is not that of the attention and of the gate
    assert (encoder(x, keep) - encoder(x, keep)).abs().max() > 1e-3


def test_bfloat16_autocast():
    encoder = made("hierarchical_mtsa", SIZES)
    x, keep = batch(21, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = encoder(x, keep, random_ends(keep))
    torch.testing.assert_close(out.float(), encoder(x, keep, random_ends(keep)), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("length", [1, 3, 100_000])
def test_very_short_and_very_long_texts(length):
    encoder = made("hierarchical_mtsa", {**SIZES, "block": 32})
    with torch.no_grad():
        out = encoder(torch.randn(1, length, WIDTH), torch.ones(1, length, dtype=torch.bool))
    assert out.shape == (1, length, 6)
    assert out.isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 1}, "block"),
        ({"levels": 0}, "levels"),
        ({"reach": 0}, "reach"),
        ({"heads": 3}, "odd"),
        ({"score_dim": -1}, "score_dim"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        build_encoder("hierarchical_mtsa", WIDTH, **{**SIZES, **options})
