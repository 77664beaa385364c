"""What may be passed as `masks`: spec strings, lists and single masks."""

import pytest
import torch

import mtsa
from mtsa.masks import Backward, Distance, Forward, Full, NoSelf, Window
from mtsa.nn.mask_specs import parse, per_head, rules_for
from tests import attention_cases as cases


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("forward", (Forward(),)),
        ("forward*2, backward*3", (Forward(),) * 2 + (Backward(),) * 3),
        ("Forward * 2,BACKWARD", (Forward(), Forward(), Backward())),
        ("forward(self), backward( self )", (Forward(include_self=True), Backward(include_self=True))),
        ("no_self", (NoSelf(),)),
        ("full, window(3), distance(0.25)", (Full(), Window(3), Distance(0.25))),
        ("window(3) & noself", (Window(3) & NoSelf(),)),
        ("window(1)|forward&noself", (Window(1) | (Forward() & NoSelf()),)),
        ("forward & window(2) * 2", (Forward() & Window(2),) * 2),
        ("distance(1e-2)", (Distance(0.01),)),
    ],
)
def test_a_spec_is_read(spec, expected):
    assert parse(spec) == expected


@pytest.mark.parametrize("name", cases.NAMES)
def test_every_mask_can_be_spelt(name):
    (mask,) = parse(name)
    query, key = torch.arange(5)[:, None], torch.arange(7)[None]
    expected = cases.POOL[name][0]
    assert torch.equal(mask.allowed(query, key).expand(5, 7), expected.allowed(query, key).expand(5, 7))
    assert mask.biased == expected.biased


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("foward", ('"foward" is not a mask', 'did you mean "forward"?')),
        ("forward, bakward", ('"bakward"', '"backward"')),
        ("xyzzy", ("it must be one of full, noself, forward, backward, window, distance",)),
        ("window", ('cannot parse "window"', '"window(3)"')),
        ("window(two)", ('cannot parse "window(two)"', '"window(3)"')),
        ("window(-1)", ('"window(-1)"', '"window(3)"')),
        ("window(1.5)", ('"window(1.5)"', '"window(3)"')),
        ("distance(far)", ('"distance(far)"', '"distance(0.1)"')),
        ("distance(nan)", ('"distance(nan)"', '"distance(0.1)"')),
        ("forward(me)", ('"forward(me)"',)),
        ("full(self)", ('"full(self)"', '"full"')),
        ("forward,,backward", ("empty entry",)),
        ("", ("empty entry",)),
        ("forward &", ("is not a mask",)),
    ],
)
def test_a_spec_that_cannot_be_read_says_which_part(spec, words):
    with pytest.raises(ValueError, match="masks") as error:
        parse(spec)
    assert f'"{spec}"' in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_zero_heads_of_a_kind_cannot_slip_through():
    with pytest.raises(ValueError, match="1 heads, but there are 2"):
        rules_for("forward*0, backward", 2)


def test_one_mask_serves_every_head():
    assert rules_for(Forward(), 3) == (Forward(),) * 3
    assert rules_for("forward", 3) == (Forward(),) * 3
    assert rules_for([Forward(), Full()], 2) == (Forward(), Full())
    assert per_head(None, (2, 3, 5, 7)).full


@pytest.mark.parametrize("masks", ["forward*2", "forward, backward", [Forward(), Backward()], (Full(),) * 4])
def test_the_number_of_masks_must_be_the_number_of_heads(masks):
    count = 2 if not isinstance(masks, tuple) else 4
    with pytest.raises(ValueError, match=f"masks specify {count} heads, but there are 3; pass a list with one mask per head"):
        rules_for(masks, 3)


@pytest.mark.parametrize("masks", [3, {"forward"}, [Forward(), None], [Forward, Forward]])
def test_what_is_no_mask_is_refused(masks):
    with pytest.raises(TypeError, match="it must be"):
        rules_for(masks, 2)


def test_neighbouring_heads_with_an_equal_mask_go_together():
    heads = per_head("forward*2, backward, forward", (1, 4, 5, 5))
    assert [(first, last) for _, first, last in heads.runs()] == [(0, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_tensor_must_be_bool(dtype):
    tensors = cases.make(("full",) * 2, queries=5).tensors
    with pytest.raises(TypeError, match=r"masks is a torch\.\w+ tensor; it must be bool .*~masks"):
        mtsa.tensorized_attention(*tensors, masks=torch.ones(5, 5, dtype=dtype))


@pytest.mark.parametrize("shape", [(5, 7), (3, 1, 5, 5), (2, 5, 5), (1, 2, 2, 5, 5), (4,)])
def test_a_mask_tensor_must_broadcast(shape):
    tensors = cases.make(("full",) * 3, queries=5).tensors
    with pytest.raises(ValueError, match=r"does not broadcast to \[B=2, H=3, N=5, M=5\]; .*unsqueeze"):
        mtsa.tensorized_attention(*tensors, masks=torch.ones(shape, dtype=torch.bool))
