"""The positional masks: what they allow, what they say about blocks, how they look and how they join."""

import itertools
import math

import pytest
import torch

from mtsa import MultiMaskAttention, masks
from mtsa.nn import mask_specs
from mtsa.nn.intervals import Block
from mtsa.nn.mask_specs import HeadMasks
from tests import attention_cases as cases
from tests import oracle

SIZE = 6
SPANS = [(first, last) for first in range(SIZE) for last in range(first + 1, SIZE + 1)]
MORE = {
    f"({a}) {sign} ({b})": (one & other, left & right) if sign == "&" else (one | other, left | right)
    for (a, (one, left)), (b, (other, right)) in itertools.product(cases.POOL.items(), repeat=2)
    for sign in "&|"
    if sign == "&" or not (one.biased or other.biased)
}
"""Every two masks of the pool, joined."""


def state(flags):
    return Block.ALL if all(flags) else Block.SOME if any(flags) else Block.NONE


def check_blocks(mask, rule):
    """NONE and ALL must be true of the block; SOME is always a safe answer."""
    for (q0, q1), (k0, k1) in itertools.product(SPANS, SPANS):
        said = mask.block(q0, q1, k0, k1)
        truth = state([rule.allows(i, j) for j in range(q0, q1) for i in range(k0, k1)])
        assert said in (truth, Block.SOME), f"queries {q0}..{q1}, keys {k0}..{k1}"


@pytest.mark.parametrize("name", cases.NAMES)
def test_a_mask_allows_and_adds_what_its_rule_says(name):
    mask, rule = cases.POOL[name]
    query, key = torch.arange(5)[:, None], torch.arange(7)[None]
    assert torch.equal(mask.allowed(query, key).expand(5, 7), oracle.allowed_array([rule], 5, 7, None, 1)[0, 0])
    bias = mask.bias(query, key, torch.float64)
    assert (bias is not None) == mask.biased == ("distance" in name)
    expected = oracle.bias_array([rule], 5, 7)[0]
    torch.testing.assert_close(expected if bias is None else bias.expand(5, 7), expected, rtol=1e-15, atol=1e-15)
    assert mask.biased or not expected.any()


@pytest.mark.parametrize("name", cases.NAMES)
def test_a_mask_is_right_about_every_block(name):
    check_blocks(*cases.POOL[name])


def test_two_joined_masks_are_right_about_every_block():
    for name, (mask, rule) in MORE.items():
        query, key = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None]
        drawn = mask.allowed(query, key).expand(SIZE, SIZE)
        assert torch.equal(drawn, oracle.allowed_array([rule], SIZE, SIZE, None, 1)[0, 0]), name
        for q, k in itertools.product(((0, 2), (2, 3), (1, 5), (4, 6), (0, 6)), repeat=2):
            said = mask.block(*q, *k)
            assert said in (state(drawn[slice(*q), slice(*k)].flatten().tolist()), Block.SOME), name


@pytest.mark.parametrize("name", ["full", "noself", "forward", "backward", "forward(self)", "backward(self)", "window(2)"])
def test_a_single_mask_tells_forbidden_and_free_blocks_apart(name):
    """A mask that always answered SOME would be safe, and skip nothing."""
    mask, rule = cases.POOL[name]
    for (q0, q1), (k0, k1) in itertools.product(SPANS, SPANS):
        truth = state([rule.allows(i, j) for j in range(q0, q1) for i in range(k0, k1)])
        if name == "noself" and truth is Block.NONE:
            continue  # one pair alone: not worth a rule
        assert mask.block(q0, q1, k0, k1) is truth


def test_a_mask_tensor_is_right_about_every_block():
    tensor = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0)) < 0.1
    tensor[:, :, 3:, :3] = True
    heads = HeadMasks((masks.Full(),) * 3, tensor)
    answers = set()
    for q, k in itertools.product(SPANS, SPANS):
        said = heads.block(masks.Full(), q, k)
        answers.add(said)
        assert said in (state(tensor[:, :, slice(*q), slice(*k)].flatten().tolist()), Block.SOME)
    assert answers == {Block.NONE, Block.SOME, Block.ALL}


class EveryThird(masks.Mask):
    """A user's own mask that defines `allowed` and nothing else."""

    def allowed(self, query, key):
        return (query + key) % 3 == 0


@pytest.mark.parametrize("backend", cases.BACKENDS)
@pytest.mark.parametrize("length", [7, 97])
def test_a_users_own_mask_works_everywhere(backend, length):
    case = cases.make(("full", "full"), queries=length, width=3, score_activation="identity")
    mine = EveryThird()
    out = cases.mtsa.tensorized_attention(*case.tensors, masks=mine, score_activation="identity", backend=backend)
    rule = oracle.Rule(lambda i, j: (i + j) % 3 == 0)
    arrays = {"allowed": oracle.allowed_array([rule] * 2, length, length, None, 2), "bias": torch.zeros(2, length, length)}
    truth = oracle.dense(*(tensor.double() for tensor in case.tensors), pairwise="identity", **arrays)
    torch.testing.assert_close(out.double(), truth, rtol=0, atol=1e-5)


def test_a_mask_without_a_rule_says_what_to_define():
    with pytest.raises(NotImplementedError, match=r"Mask must define allowed\(query, key\)"):
        masks.Mask().allowed(torch.arange(2), torch.arange(2))


class _Number(masks.Mask):
    def allowed(self, query, key):
        return (query - key).float()


@pytest.mark.parametrize("given", [_Number(), [_Number(), masks.Forward()], _Number() & masks.Forward()])
def test_a_mask_must_answer_with_true_and_false(given):
    with pytest.raises(TypeError, match=r"_Number\.allowed returns a tensor of torch\.float32; it must be a bool tensor"):
        MultiMaskAttention(8, 2, masks=given)


def test_draw_shows_one_row_per_query():
    assert masks.Forward().draw(3) == ". . .\n# . .\n# # ."
    assert masks.Backward().draw(2, 4) == ". # # #\n. . # #"
    assert masks.Full().draw(1, 2) == "# #"
    assert (masks.Window(1) & masks.NoSelf()).draw(3) == ". # .\n# . #\n. # ."
    assert len(masks.Full().draw().splitlines()) == 8


def test_draw_shows_the_size_of_a_bias():
    assert masks.Distance(0.5).draw(4) == "9 6 3 2\n6 9 6 3\n3 6 9 6\n2 3 6 9"
    assert (masks.Forward() & masks.Distance(0.5)).draw(3) == ". . .\n6 . .\n3 6 ."


def test_equal_masks_are_equal_and_hash_alike():
    assert masks.Window(2) == masks.Window(2)
    assert masks.Window(2) != masks.Window(3)
    assert masks.Forward() != masks.Forward(include_self=True)
    assert masks.Forward() != masks.Backward()
    assert (masks.Forward() & masks.Window(2)) == (masks.Forward() & masks.Window(2))
    assert (masks.Forward() & masks.Window(2)) != (masks.Forward() | masks.Window(2))
    assert len({masks.Distance(0.1), masks.Distance(0.1), masks.Distance(0.2)}) == 2
    for mask, _ in [*cases.POOL.values(), *MORE.values()]:
        assert isinstance(hash(mask), int)


@pytest.mark.parametrize("mask", [masks.Window(2), masks.Distance(0.1), masks.Forward()])
def test_masks_cannot_be_changed(mask):
    with pytest.raises(AttributeError):
        mask.radius = 3


@pytest.mark.parametrize("left", [masks.Distance(0.1), masks.Forward() & masks.Distance(0.1)])
def test_either_with_a_biased_mask_is_an_error(left):
    with pytest.raises(ValueError, match=r"biased mask .*rate=0\.1.* combine it with & instead"):
        left | masks.Forward()
    with pytest.raises(ValueError, match="combine it with & instead"):
        masks.Forward() | left


@pytest.mark.parametrize("convert", [masks.from_attn_mask, masks.from_key_padding_mask])
def test_masks_of_multihead_attention_are_turned_round(convert):
    forbids = torch.tensor([[True, False, False], [False, False, True]])
    assert torch.equal(convert(forbids), ~forbids)
    as_float = torch.zeros(2, 3).masked_fill(forbids, -math.inf)
    assert torch.equal(convert(as_float), ~forbids)
    assert convert(as_float).dtype == torch.bool


@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_masks_of_multihead_attention_that_are_ambiguous_are_refused(name):
    convert = getattr(masks, f"from_{name}")
    for values in ([0.0, 1.0], [0.0, -1e9], [0.0, math.nan], [0.0, math.inf]):
        with pytest.raises(ValueError, match=rf"{name} is a float mask .* pass {name}\.bool\(\)"):
            convert(torch.tensor(values))
    with pytest.raises(TypeError, match=rf"{name} has dtype torch\.int64"):
        convert(torch.tensor([0, 1]))
    with pytest.raises(TypeError, match=f"{name} is a list; it must be a tensor"):
        convert([True, False])


def test_multihead_attention_and_ours_agree_on_what_is_forbidden():
    """With s = 0 the identity form is softmax attention, so a converted mask must give MultiheadAttention's core."""
    case = cases.make(("full", "full"), queries=5, keys=7, width=5, score_activation="identity")
    q, k, v, _ = case.tensors
    forbids = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.4
    forbids[:, 0] = False
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~forbids)
    found = cases.mtsa.tensorized_attention(
        q, k, v, torch.zeros_like(v), masks=masks.from_attn_mask(forbids), score_activation="identity"
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_names_may_stand_in_a_list():
    from mtsa.masks import Backward, Forward, Window
    from mtsa.nn.mask_specs import rules_for

    assert rules_for(["forward", "window(2)", Backward()], 3) == (Forward(), Window(2), Backward())
    assert rules_for("causal", 2) == (Forward(include_self=True),) * 2


def test_a_registered_mask_is_known_by_name(monkeypatch):
    monkeypatch.setattr("mtsa.nn.mask_specs._PARSERS", dict(mask_specs._PARSERS))

    def parse(argument):
        return masks.Window(2 * int(argument))

    masks.register_mask("wide", parse, "wide(3)")
    layer = MultiMaskAttention(8, 2, masks="wide(2), forward & wide(1)")
    assert layer.masks == (masks.Window(4), masks.Forward() & masks.Window(2))
    with pytest.raises(ValueError, match=r'cannot parse "wide\(x\)"; expected a form like "wide\(3\)"'):
        MultiMaskAttention(8, 2, masks="wide(x)*2")
    for name, message in (("wide", "already registered"), ("forward", "already registered"), ("a b", "lower-case letters")):
        with pytest.raises(ValueError, match=message):
            masks.register_mask(name, parse)
