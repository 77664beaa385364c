"""Options of single encoders: fusion gate, masks and input of the stack, the Transformer block."""

import pytest
import torch
from transformers import OpenAIGPTConfig
from transformers.models.openai.modeling_openai import Block

from mtsa.encoders import build_encoder
from mtsa.encoders.multihead import sinusoid
from mtsa.encoders.renamed_options import rename_options
from mtsa.encoders.stacked import SelfAttention
from mtsa.training.recipe_files import load_recipe
from tests.encoders.small_encoders import SMALL, batch, made


def test_fusion_gate_mixes_the_token_with_its_context():
    encoder = made("bilstm", {**SMALL["bilstm"], "fusion": True})
    x, keep = batch(6)
    context = made("bilstm", SMALL["bilstm"])
    context.load_state_dict(encoder.state_dict(), strict=False)
    own = torch.nn.functional.elu(encoder.fusion.value.linear(x))
    gate = torch.sigmoid(encoder.fusion.gate.linear(torch.cat([own, context(x, keep)], -1)))
    torch.testing.assert_close(encoder(x, keep), gate * own + (1 - gate) * context(x, keep))


def test_masked_dot_product_attention_follows_the_definition():
    attention = SelfAttention(6, 2, dropout=0.0, masks="forward(self), backward(self)").eval()
    x, keep = torch.randn(2, 5, 6), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    q, k, v = (part(x).view(2, 5, 2, 3).transpose(1, 2) for part in attention.maps)
    order = torch.arange(5)
    masks = torch.stack([order[:, None] >= order, order[:, None] <= order])
    scores = (q @ k.transpose(-1, -2) / 3**0.5).masked_fill(~(masks & keep[:, None, None, :]), -torch.inf)
    expected = attention.output((scores.softmax(-1).nan_to_num() @ v).transpose(1, 2).reshape(2, 5, 6))
    torch.testing.assert_close(attention(x, keep)[keep], expected[keep])


@pytest.mark.parametrize("masks", ["forward*2", "noself*2", "distance(0.1)*2"])
def test_dot_product_attention_refuses_masks_without_the_token_itself_and_biases(masks):
    with pytest.raises(ValueError, match="must include the token itself and have no bias"):
        SelfAttention(6, 2, dropout=0.0, masks=masks)


def test_masks_replace_the_positions_of_the_stack():
    """Without positions, a full mask makes the stack equivariant to the order of the tokens; with positions it is not."""
    x, keep = batch(6)
    turned = torch.flip(x, [1])
    for masks, same in (("full*2", True), ("", False)):
        stack = made("stacked_multihead", {**SMALL["stacked_multihead"], "masks": masks})
        assert torch.allclose(stack(turned, keep), torch.flip(stack(x, keep), [1]), atol=1e-5) == same


@pytest.mark.parametrize(("scale", "factor"), [(0.0, 12**0.5), (3.0, 3.0)])
@pytest.mark.parametrize("name", ["stacked_mtsa", "stacked_multihead"])
def test_input_scale_and_bias_of_the_stack(name, scale, factor):
    options = {**SMALL[name], "scale": scale, "input_bias": True}
    stack = made(name, options)
    torch.nn.init.normal_(stack.bias)
    x = torch.randn(2, 3, 12)
    timing = sinusoid(3, 12, x) if name == "stacked_multihead" else 0.0
    torch.testing.assert_close(stack.begin(x), x * factor + stack.bias + timing)


def test_transformer_block_equals_that_of_gpt():
    config = OpenAIGPTConfig(n_embd=12, n_head=2, n_layer=1, n_positions=8, attn_pdrop=0.0, resid_pdrop=0.0, afn="gelu")
    theirs = Block(8, config, scale=True).eval()
    ours = build_encoder("transformer_block", 12, heads=2, masks="causal*2").eval()
    with torch.no_grad():
        for layer, (weight, bias) in (
            *((part.linear, pair) for part, pair in zip(ours.attention.maps, _thirds(theirs.attn.c_attn), strict=True)),
            (ours.attention.output.linear, (theirs.attn.c_proj.weight, theirs.attn.c_proj.bias)),
            (ours.widen.linear, (theirs.mlp.c_fc.weight, theirs.mlp.c_fc.bias)),
            (ours.narrow.linear, (theirs.mlp.c_proj.weight, theirs.mlp.c_proj.bias)),
        ):
            layer.weight.copy_(weight.T)
            layer.bias.copy_(bias)
    x = torch.randn(3, 7, 12)
    expected = theirs(x)[0]
    torch.testing.assert_close(ours(x, torch.ones(3, 7, dtype=torch.bool)), expected, rtol=0, atol=1e-3)  # their gelu: tanh


def _thirds(layer):
    return list(zip(layer.weight.chunk(3, 1), layer.bias.chunk(3), strict=True))


def test_options_of_version_0_2_are_renamed():
    old = {"scales": ["identity", "logsigmoid"], "heads": 2, "source": "key", "start": "glorot"}
    new = {
        "score_activation": "identity",
        "source_activation": "logsigmoid",
        "heads": 2,
        "source_input": "key",
        "init": "glorot",
    }
    renamed, messages = rename_options(old)
    assert renamed == new
    assert len(messages) == 3
    assert rename_options(new) == (new, [])
    layer = build_encoder("mtsa", 6, heads=2, head_dim=3, scales=["identity", "logsigmoid"]).attention
    assert (layer.score_activation, layer.source_activation) == ("identity", "logsigmoid")
    with pytest.warns(DeprecationWarning, match="encoder.scales is now score_activation and source_activation"):
        recipe = load_recipe("sst5.paper", ["encoder.scales=['identity', 'identity']"])
    assert recipe.encoder["score_activation"] == recipe.encoder["source_activation"] == "identity"
    with pytest.raises(ValueError, match="deprecated name of score_activation"):
        rename_options({"pairwise": "identity", "score_activation": "identity"})
    with pytest.raises(ValueError, match="scales is 'identity'"):
        rename_options({"scales": "identity"})
