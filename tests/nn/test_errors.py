"""Users' mistakes: what came in, what was needed, and what to type next, in one sentence."""

import math
import re

import pytest
import torch

import mtsa
from mtsa import masks
from tests import attention_cases as cases

B, H, N, M, I, D = 2, 3, 5, 7, 11, 13


def call(**changes):
    """A call of the function with some arguments changed."""
    arguments = {
        "q": torch.zeros(B, H, N, I),
        "k": torch.zeros(B, H, M, I),
        "v": torch.zeros(B, H, M, D),
        "s": torch.zeros(B, H, M, D),
        **changes,
    }
    four = [arguments.pop(name) for name in "qkvs"]
    return mtsa.tensorized_attention(*four, **arguments)


FUNCTION = [
    (TypeError, {"q": [1.0]}, ("q is a list", "[B, H, N, I]")),
    (TypeError, {"v": None}, ("v is a NoneType", "[B, H, M, D]")),
    (ValueError, {"q": torch.zeros(B, N, I)}, ("q has shape (2, 5, 11)", "[B, H, N, I]", "unsqueeze(1)")),
    (ValueError, {"s": torch.zeros(B, H, 1, M, D)}, ("s has shape (2, 3, 1, 7, 13)", "four dimensions")),
    (TypeError, {"q": torch.zeros(B, H, N, I, dtype=torch.int64)}, ("q has dtype torch.int64", "float32")),
    (TypeError, {"k": torch.zeros(B, H, M, I, dtype=torch.complex64)}, ("k has dtype torch.complex64", "float32")),
    (
        TypeError,
        {"k": torch.zeros(B, H, M, I).double()},
        ("k has dtype torch.float64", "q has torch.float32", "k.to(q.dtype)"),
    ),
    (ValueError, {"k": torch.zeros(B, H, M, I + 1)}, ("k has shape (2, 3, 7, 12)", "[B, H, M, I] = (2, 3, 7, 11)")),
    (ValueError, {"k": torch.zeros(B, H, M + 1, I)}, ("k has shape (2, 3, 8, 11)", "(2, 3, 7, 11)")),
    (ValueError, {"v": torch.zeros(B, H + 1, M, D)}, ("v has shape (2, 4, 7, 13)", "(2, 3, 7, 13)")),
    (ValueError, {"s": torch.zeros(B, H, M, D + 1)}, ("s has shape (2, 3, 7, 14)", "[B, H, M, D] = (2, 3, 7, 13)")),
    (ValueError, {"v": torch.zeros(B, H, M, D, device="meta")}, ("v is on meta", "q is on cpu", "v.to(q.device)")),
    (TypeError, {"attention_mask": [True] * M}, ("attention_mask is a list", "1 = token")),
    (
        TypeError,
        {"attention_mask": torch.ones(B, M)},
        ("attention_mask has dtype torch.float32", ".bool()", "from_key_padding_mask"),
    ),
    (ValueError, {"attention_mask": torch.ones(B, N).bool()}, ("attention_mask has shape (2, 5)", "[B=2, 7]")),
    (ValueError, {"attention_mask": torch.tensor([3, 7])}, ("attention_mask has shape (2,)", "lengths[:, None]")),
    (ValueError, {"attention_mask": torch.ones(B, M, device="meta").bool()}, ("is on meta", "on cpu", ".to('cpu')")),
    (ValueError, {"masks": torch.ones(N, M, device="meta").bool()}, ("masks tensor is on meta", ".to(q.device)")),
    (TypeError, {"masks": 3}, ("masks is a int", "forward*4, backward*4")),
    (TypeError, {"masks": [3] * H}, ("masks contains 3, a int", "[Forward(), Backward()]")),
    (ValueError, {"masks": "forward*2"}, ("masks specify 2 heads", "there are 3")),
    (ValueError, {"masks": "forwad"}, ('"forwad" is not a mask', 'did you mean "forward"?')),
    (TypeError, {"masks": torch.ones(N, M)}, ("masks is a torch.float32 tensor", "~masks.bool()")),
    (ValueError, {"masks": torch.ones(M, N).bool()}, ("(7, 5) does not broadcast", "[B=2, H=3, N=5, M=7]", "unsqueeze")),
    (ValueError, {"score_activation": "logsigmod"}, ('score_activation "logsigmod"', 'did you mean "logsigmoid"?')),
    (ValueError, {"score_activation": "zzz"}, ("logsigmoid, identity", "or a callable")),
    (TypeError, {"score_activation": None}, ("score_activation is a NoneType", "logsigmoid, identity", "callable")),
    (
        ValueError,
        {"score_activation": lambda score: score[..., :1]},
        ("(2, 3, 5, 7)", "(2, 3, 5, 1)", "of the shape of its input"),
    ),
    (ValueError, {"score_activation": lambda score: 3.0}, ("(2, 3, 5, 7)", "float", "of the shape of its input")),
    (TypeError, {"scale": "0.5"}, ("scale is a str", "number")),
    (TypeError, {"scale": True}, ("scale is a bool", "number")),
    (ValueError, {"scale": math.inf}, ("scale (inf)", "finite")),
    (ValueError, {"dropout_p": 1.0}, ("dropout_p (1.0)", "at least 0 and below 1")),
    (ValueError, {"dropout_p": -0.1}, ("dropout_p (-0.1)", "at least 0 and below 1")),
    (ValueError, {"dropout_p": math.nan}, ("dropout_p (nan)", "finite")),
    (TypeError, {"dropout_p": None}, ("dropout_p is a NoneType", "number")),
    (ValueError, {"backend": "blokked"}, ('unknown backend "blokked"', 'did you mean "blocked"?')),
    (TypeError, {"maks": "forward"}, ("unexpected keyword argument 'maks'",)),
    (
        ValueError,
        {"backend": "native", "score_activation": torch.tanh},
        ('backend "native"', 'backend="auto"', "reference, factored"),
    ),
]

LAYER = [
    (TypeError, (14.0, 2), {}, ("embed_dim is a float", "integer")),
    (TypeError, (14, True), {}, ("num_heads is a bool", "integer")),
    (ValueError, (0, 2), {}, ("embed_dim (0)", "at least 1")),
    (ValueError, (14, -2), {}, ("num_heads (-2)", "at least 1")),
    (ValueError, (14, 4), {}, ("num_heads (4) must divide embed_dim (14)", "head_dim")),
    (ValueError, (15, 3), {}, ("num_heads (3) is odd", 'masks="noself"')),
    (ValueError, (14, 2), {"form": "papr"}, ('unknown form "papr"', '"paper" or "released"')),
    (ValueError, (14, 2), {"form": "released", "bias": True}, ("bias=True", 'form="paper"')),
    (ValueError, (14, 2), {"head_dim": 0}, ("head_dim (0)", "at least 1")),
    (TypeError, (14, 2), {"score_dim": 1.5}, ("score_dim is a float", "integer")),
    (ValueError, (14, 2), {"masks": "forward*3"}, ("masks specify 3 heads", "there are 2")),
    (TypeError, (14, 2), {"masks": torch.ones(5, 5).bool()}, ("masks is a tensor", "tensorized_attention")),
    (ValueError, (14, 2), {"activation": "rel"}, ('activation "rel"', 'did you mean "relu"?')),
    (ValueError, (14, 2), {"activation": "zzz"}, ("it must be one of relu, elu, tanh",)),
    (TypeError, (14, 2), {"score_activation": 1}, ("score_activation is a int", "callable")),
    (ValueError, (14, 2), {"source_activation": "identty"}, ('source_activation "identty"', 'did you mean "identity"?')),
    (TypeError, (14, 2), {"dropout": "0.1"}, ("dropout is '0.1'", "(dense, attention)")),
    (ValueError, (14, 2), {"dropout": 1.5}, ("dropout (1.5)", "below 1")),
    (ValueError, (14, 2), {"dropout": (1.5, 0.0)}, ("dropout (1.5)", "below 1")),
    (ValueError, (14, 2), {"dropout": (0.0, -1)}, ("dropout[1] (-1)", "at least 0")),
]

LAYER_CALL = [
    (TypeError, ([1.0],), ("x is a list", "[B, N, 14]")),
    (ValueError, (torch.zeros(5, 14),), ("x has shape (5, 14)", "embed_dim=14", "x.unsqueeze(0)")),
    (ValueError, (torch.zeros(2, 5, 13),), ("x has shape (2, 5, 13)", "embed_dim=14")),
    (
        TypeError,
        (torch.zeros(2, 5, 14), torch.ones(2, 5)),
        ("attention_mask has dtype torch.float32", "attention_mask.bool()"),
    ),
    (ValueError, (torch.zeros(2, 5, 14), torch.ones(5, 2).bool()), ("shape (5, 2)", "[B=2, 5]", "transpose(0, 1)")),
]

MASKS = [
    (ValueError, lambda: masks.Window(-1), ("Window radius (-1)", "Window(3)")),
    (ValueError, lambda: masks.Window(1.5), ("Window radius (1.5)", "non-negative integer")),
    (ValueError, lambda: masks.Window(True), ("Window radius (True)", "Window(3)")),
    (ValueError, lambda: masks.Distance(math.inf), ("Distance rate (inf)", "Distance(0.1)")),
    (ValueError, lambda: masks.Distance("0.1"), ("Distance rate ('0.1')", "at most 1e30")),
    (ValueError, lambda: masks.Distance(1e39), ("Distance rate (1e+39)", "at most 1e30")),
    (TypeError, lambda: masks.Forward() & "backward", ("right side of & is a str", "Forward()")),
    (TypeError, lambda: masks.Forward() | 3, ("right side of | is a int", "Window(2)")),
]

POOLING = [
    (ValueError, lambda: mtsa.Source2Token(0), ("embed_dim (0)", "at least 1")),
    (ValueError, lambda: mtsa.Source2Token(5, activation="elo"), ('activation "elo"', '"elu"')),
    (ValueError, lambda: mtsa.Source2Token(5, dropout=1.0), ("dropout (1.0)", "below 1")),
    (ValueError, lambda: mtsa.Source2Token(5)(torch.zeros(2, 3, 7)), ("x has shape (2, 3, 7)", "embed_dim=5")),
    (
        TypeError,
        lambda: mtsa.Source2Token(5)(torch.zeros(2, 3, 5), torch.ones(2, 3)),
        ("attention_mask has dtype", "attention_mask.bool()"),
    ),
    (TypeError, lambda: mtsa.Source2Token(5.0), ("embed_dim is a float", "integer")),
    (TypeError, lambda: mtsa.Source2Token(5)([1.0]), ("x is a list", "tensor")),
]


def check(kind, words, action):
    with pytest.raises(kind) as error:
        action()
    message = str(error.value)
    assert type(error.value) is kind
    for word in words:
        assert word in message, message
    assert "\n" not in message
    assert not re.search(r"[.!] [A-Z]", message), f"more than one sentence: {message}"


@pytest.mark.parametrize(("kind", "changes", "words"), FUNCTION)
def test_the_function_explains_a_wrong_argument(kind, changes, words):
    check(kind, words, lambda: call(**changes))


@pytest.mark.parametrize(("kind", "place", "options", "words"), LAYER)
def test_the_layer_explains_a_wrong_option(kind, place, options, words):
    check(kind, words, lambda: mtsa.MultiMaskAttention(*place, **options))


@pytest.mark.parametrize(("kind", "inputs", "words"), LAYER_CALL)
@pytest.mark.parametrize("method", ["forward", "explain"])
def test_the_layer_explains_a_wrong_input(kind, inputs, words, method):
    check(kind, words, lambda: getattr(mtsa.MultiMaskAttention(14, 2), method)(*inputs))


@pytest.mark.parametrize(("kind", "action", "words"), [*MASKS, *POOLING])
def test_masks_and_pooling_explain_a_wrong_value(kind, action, words):
    check(kind, words, action)


def test_the_layer_explains_a_wrong_backend():
    layer = mtsa.MultiMaskAttention(14, 2)
    layer.backend = "bloked"
    check(ValueError, ('unknown backend "bloked"', '"blocked"'), lambda: layer(torch.zeros(1, 5, 14)))


def test_an_input_of_another_dtype_than_the_layer_is_an_error():
    for form in ("paper", "released"):
        layer = mtsa.MultiMaskAttention(14, 2, form=form)
        with pytest.raises((TypeError, RuntimeError, ValueError), match=r"dtype|float|Double"):
            layer(torch.zeros(1, 5, 14, dtype=torch.float64))


def test_options_are_keywords():
    tensors = cases.make(("full",), queries=3).tensors
    with pytest.raises(TypeError, match="positional"):
        mtsa.tensorized_attention(*tensors, "forward")
    with pytest.raises(TypeError, match="positional"):
        mtsa.MultiMaskAttention(14, 2, "paper")


def test_explain_in_training_with_dropout_says_to_call_eval():
    layer = mtsa.MultiMaskAttention(14, 2, dropout=(0.1, 0.0))
    check(RuntimeError, ("layer.eval()",), lambda: layer.explain(torch.zeros(1, 3, 14)))
    layer.eval().explain(torch.zeros(1, 3, 14))


def test_deprecation_warnings_point_at_the_caller():
    layer, x, real = mtsa.MultiMaskAttention(8, 2), torch.randn(1, 3, 8), torch.ones(1, 3, dtype=torch.bool)
    pool, four = mtsa.Source2Token(8), [torch.randn(1, 2, 3, 4) for _ in range(4)]
    calls = [
        lambda: layer(x, keep=real),
        lambda: layer.explain(x, keep=real),
        lambda: pool(x, keep=real),
        lambda: mtsa.tensorized_attention(*four, keep=real),
        lambda: mtsa.tensorized_attention(*four, backend="tiled"),
    ]
    for call in calls:
        with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}
